"""Microsoft Agent Framework: a history provider, and a context provider that injects and searches.

ana = memory.scope(user="ana")
providers = [OctopusHistoryProvider(ana), OctopusContextProvider(ana)]
agent = Agent(client, "Be brief.", context_providers=providers)
await agent.run("Hello", session=AgentSession(session_id="monday"))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from agent_framework import ContextProvider, FunctionTool, HistoryProvider, Message, tool

from ..domain.errors import SessionNotFound
from ..domain.message import Json, as_text
from .core import (
    AnyScope,
    Call,
    Conversation,
    Result,
    digest,
    found_lines,
    items_of,
    keys_of,
    turns_of,
)

_FORM = "agent-framework"
_LIMIT = 10
_ROLES = {"user": "user", "system": "system", "developer": "system"}
Scope: TypeAlias = "AnyScope | Callable[[str], AnyScope]"


def _conversation(scope: Scope, session_id: str | None, budget: int | None = None) -> Conversation:
    named = session_id or "default"
    return Conversation(scope(named) if callable(scope) else scope, named, budget_tokens=budget)


class OctopusHistoryProvider(HistoryProvider):
    """Stores the messages of a session, and loads them exactly as they were.

    `scope` is a user's memory, or finds it by the id of the session, which the caller chose. With
    `last`, only about so many of the newest messages are loaded; all of them stay recallable.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        source_id: str = "octopus_history",
        last: int | None = None,
        **flags: Any,
    ) -> None:
        super().__init__(source_id, **flags)
        self._scope, self._last = scope, last

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **_: Any
    ) -> list[Message]:
        """Return the messages of a session in their order."""
        del state
        found = await self._stored(_conversation(self._scope, session_id), self._last)
        # A history that was cut does not begin with a result whose call is not in it.
        while self._last is not None and found and found[0].role == "tool":
            found = found[1:]
        return found

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """Store the messages that are new: a transcript may be given again from its start."""
        del state
        talk = _conversation(self._scope, session_id)
        if messages:
            await talk.finish(self._save(talk, messages))

    async def _save(self, talk: Conversation, messages: Sequence[Message]) -> None:
        parts = [_parts(message) for message in messages]
        known = await self._stored(talk, sum(map(len, parts)))
        stored = [part for some in parts[_overlap(known, messages) :] for part in some]
        if not stored:
            return
        bodies, keys = (list(each) for each in zip(*stored, strict=True))
        await talk.aadd(bodies, keys)

    async def _stored(self, talk: Conversation, last: int | None) -> list[Message]:
        try:
            replay = await talk.awaited.session(talk.session_id, last=last)
        except SessionNotFound:
            return []
        return [Message.from_dict(item) for item in items_of(_FORM, replay.turns)]


class OctopusContextProvider(ContextProvider):
    """Adds the memory block to the instructions of a run, and a tool that searches the memory."""

    def __init__(
        self,
        scope: Scope,
        *,
        source_id: str = "octopus_context",
        budget_tokens: int | None = None,
        with_tool: bool = True,
    ) -> None:
        super().__init__(source_id)
        self._scope, self._budget, self._with_tool = scope, budget_tokens, with_tool

    async def before_run(self, *, context: Any, **_: Any) -> None:
        """Add the block for what the user says now, and the tool."""
        talk = _conversation(self._scope, context.session_id, self._budget)
        said = [each.text for each in context.input_messages if each.role == "user" and each.text]
        block = await talk.ablock(said[-1] if said else "")
        if block:
            context.extend_instructions(self.source_id, block)
        if self._with_tool:
            context.extend_tools(self.source_id, [_recall_tool(talk)])


def _recall_tool(talk: Conversation) -> FunctionTool:
    async def recall_memory(query: str) -> str:
        """Search earlier conversations with this user."""
        hits = await talk.awaited.recall_turns(
            query, limit=_LIMIT, leave_out_session=talk.session_id
        )
        return found_lines(hits)

    return tool(recall_memory)


def _identity(message: Message) -> Json:
    return message.message_id or [message.role, [each.to_dict() for each in message.contents]]


def _overlap(known: Sequence[Message], given: Sequence[Message]) -> int:
    """Count the messages at the start of `given` that stand at the end of the session."""
    stored, new = [_identity(each) for each in known], [_identity(each) for each in given]
    for count in range(len(new), 0, -1):
        if stored[-count:] == new[:count]:
            # What the user says again, without an id, is a new message.
            again = count == 1 and given[0].role == "user" and not given[0].message_id
            return 0 if again else count
    return 0


def _parts(message: Message) -> list[tuple[dict[str, Json], str | None]]:
    """Return the turns of a message with their keys."""
    item = json.loads(json.dumps(message.to_dict(), default=str))
    contents = message.contents
    results = [each for each in contents if each.type == "function_result"]
    asked = [each for each in contents if each.type == "function_call" and each.call_id]
    bodies = turns_of(
        _FORM,
        item,
        role=_ROLES.get(message.role, "assistant"),
        text=message.text,
        calls=[Call(each.call_id, each.name, as_text(each.arguments)) for each in asked],
        results=[
            Result(each.call_id, as_text(each.result), each.exception is not None)
            for each in results
        ],
    )
    # Clients give one id to several messages of a response.
    key = None if message.message_id is None else f"{message.message_id}:{digest(item)}"
    return list(zip(bodies, keys_of(key, len(bodies)), strict=True))
