"""The OpenAI Agents SDK: a `Session`, a filter that injects the block, and a recall tool.

session = OctopusSession("monday", memory.scope(user="ana"))
await Runner.run(agent, "Hello", session=session, run_config=session.run_config())
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from agents import RunConfig, SessionSettings, Tool, function_tool
from agents.items import TResponseInputItem
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
from agents.run_config import CallModelData, ModelInputData

from ..domain.episode import Turn
from ..domain.errors import InvalidMessage, SessionNotFound
from ..domain.message import AS_GIVEN, Json
from ..domain.policy import MOST_RECALLED
from .core import AnyScope, Conversation, found_lines, last_said, parsed, plain

_FORM = "responses"
_LIMIT = 10


class OctopusSession:
    """A session whose items are Octopus's turns, given back exactly as they were added.

    `clear_session` empties the history and keeps the memory: what was said stays recallable. With a
    `key`, a run that is repeated from its start by a new session object stores nothing twice.
    """

    def __init__(
        self,
        session_id: str,
        scope: AnyScope,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        budget_tokens: int | None = None,
        key: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings = coerce_session_settings(session_settings or {})
        self._talk = Conversation(scope, session_id, budget_tokens=budget_tokens)
        self._key, self._added = key, 0
        # One for each event loop, because a loop cannot wake a caller that waits in another.
        self._adding: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest `limit` items in their order, or all."""
        wanted = resolve_session_limit(limit, self.session_settings)
        if wanted is not None and wanted <= 0:
            return []
        if wanted is not None and wanted > MOST_RECALLED:
            # The SDK's compaction asks for a number that no session has.
            wanted = None
        try:
            replay = await self._talk.awaited.session(self.session_id, last=wanted)
        except SessionNotFound:
            return []
        return [_item(turn) for turn in replay.turns]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items in their order; one whose key is known is skipped."""
        if not items:
            return
        bodies = [_body(plain(item)) for item in items]
        # Calls of one loop are stored in their order.
        async with self._adding.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            keys = None
            if self._key is not None:
                numbers = range(self._added, self._added + len(items))
                keys = [f"{self._key}:{number}" for number in numbers]
            self._added += len(items)
            await self._talk.aadd(bodies, keys)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item for good, with all that was made of it."""
        call = self._talk.awaited.remove_turns(self.session_id, last=1)
        try:
            removed = await self._talk.finish(call)
        except SessionNotFound:
            return None
        return _item(removed[0]) if removed else None

    async def clear_session(self) -> None:
        """Begin the history anew. What was said stays recallable."""
        try:
            await self._talk.finish(self._talk.awaited.reset_session(self.session_id))
        except SessionNotFound:
            return

    def input_filter(self) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
        """A `call_model_input_filter` that adds the memory block to the instructions."""

        async def add_block(data: CallModelData[Any]) -> ModelInputData:
            given = data.model_data
            block = await self._talk.ablock(last_said([_body(plain(i)) for i in given.input]))
            if not block:
                return given
            told = given.instructions
            return replace(given, instructions=f"{told}\n\n{block}" if told else block)

        return add_block

    def run_config(self, base: RunConfig | None = None) -> RunConfig:
        """A run configuration with the filter; of `base` everything else stays."""
        return replace(base or RunConfig(), call_model_input_filter=self.input_filter())

    def recall_tool(self) -> Tool:
        """A tool that searches this user's earlier conversations."""

        async def recall_memory(query: str) -> str:
            """Search earlier conversations with this user.

            Args:
                query: What to look for, as a question or in key words.

            """
            scope = self._talk.awaited
            hits = await scope.recall_turns(query, limit=_LIMIT, leave_out_session=self.session_id)
            return found_lines(hits)

        return function_tool(recall_memory)


def _body(item: Mapping[str, Json]) -> Mapping[str, Json]:
    """An item as it is stored; one that the memory cannot read is kept and never recalled."""
    if item.get("role") == "developer":
        kept = {"form": _FORM, "item": dict(item)}
        return {**parsed([{"type": "message", **item}])[0].body, AS_GIVEN: kept}
    try:
        turns = parsed([item])
    except InvalidMessage:
        turns = []
    if len(turns) == 1:
        return turns[0].body
    opaque = {"form": _FORM, "item": dict(item), "opaque": True}
    return {"role": "assistant", "content": "", AS_GIVEN: opaque}


def _item(turn: Turn) -> Any:
    body: Mapping[str, Json] = turn.message.body
    kept = body.get(AS_GIVEN)
    return dict(kept["item"]) if kept and kept["form"] == _FORM else dict(body)


__all__: Sequence[str] = ["OctopusSession"]
