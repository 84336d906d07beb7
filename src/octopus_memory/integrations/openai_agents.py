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

from ..domain.episode import Turn
from ..domain.errors import InvalidMessage, MissingExtra, SessionNotFound
from ..domain.message import AS_GIVEN, Json
from ..domain.policy import MOST_RECALLED
from ..flow import ask
from .core import AnyScope, Conversation, OnError, last_said, parsed, plain
from .repair import loaded
from .tools import (
    FORGET_ABOUT,
    FORGET_SCHEMA,
    FORGET_TOOL,
    RECALL_ABOUT,
    RECALL_SCHEMA,
    RECALL_TOOL,
    MemoryTools,
)

try:
    from agents import FunctionTool, RunConfig, SessionSettings, Tool
    from agents.items import TResponseInputItem
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
    from agents.run_config import CallModelData, ModelInputData
    from agents.tool_context import ToolContext
except ModuleNotFoundError as error:
    raise MissingExtra("openai-agents", __name__) from error

_FORM = "responses"
_NO_SESSION = "No memory belongs to this run. Go on without it."


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
        on_error: OnError = "continue",
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings = coerce_session_settings(session_settings or {})
        self._talk = Conversation(scope, session_id, budget_tokens=budget_tokens, on_error=on_error)
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
        replay = await self._talk.awithin_limit(ask(self._talk, "tail", wanted), None)
        return [] if replay is None else [_item(turn) for turn in replay.turns]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items in their order; one whose key is known is skipped.

        Without a key, items with which the session ends unanswered are skipped: a run that failed
        is repeated.
        """
        if not items:
            return
        bodies = [_body(plain(item)) for item in items]
        # Calls of one loop are stored in their order.
        async with self._adding.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if self._key is None:
                await self._talk.aadd_now(bodies)
                return
            numbers = range(self._added, self._added + len(items))
            self._added += len(items)
            await self._talk.aadd(bodies, [f"{self._key}:{number}" for number in numbers])

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
        return _Filter(self._talk)

    def run_config(self, base: RunConfig | None = None) -> RunConfig:
        """A run configuration with the filter; of `base` everything else stays."""
        return replace(base or RunConfig(), call_model_input_filter=self.input_filter())

    def tools(self) -> list[Tool]:
        """The tools that search this user's earlier conversations, and forget: see `tools`."""
        return tools()

    def recall_tool(self) -> Tool:
        """The first of `tools`."""
        return tools()[0]


class _Filter:
    """Adds the memory block to the instructions, and tells the tools whose memory it is."""

    def __init__(self, talk: Conversation) -> None:
        self.talk = talk

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        block = await self.talk.ablock(last_said([_body(plain(i)) for i in given.input]))
        if not block:
            return given
        told = given.instructions
        return replace(given, instructions=f"{told}\n\n{block}" if told else block)


def tools() -> list[Tool]:
    """Return the tools for an agent, which many sessions may share.

    A call is about the session whose `run_config` the run has, so that no user is answered from
    another's memory. A run without one has no memory to search.
    """

    def made(name: str, about: str, schema: dict[str, Json]) -> Tool:
        async def call(context: ToolContext[Any], arguments: str) -> str:
            chosen = context.run_config and context.run_config.call_model_input_filter
            if not isinstance(chosen, _Filter):
                return _NO_SESSION
            return await MemoryTools(chosen.talk).acall(name, loaded(arguments))

        return FunctionTool(
            name=name,
            description=about,
            params_json_schema=dict(schema),
            on_invoke_tool=call,
            strict_json_schema=False,
        )

    return [
        made(RECALL_TOOL, RECALL_ABOUT, RECALL_SCHEMA),
        made(FORGET_TOOL, FORGET_ABOUT, FORGET_SCHEMA),
    ]


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


__all__: Sequence[str] = ["OctopusSession", "tools"]
