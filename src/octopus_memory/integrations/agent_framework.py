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

from ..domain.errors import MissingExtra
from ..domain.message import Json, as_text
from ..flow import ask
from .core import (
    AnyScope,
    Call,
    Conversation,
    OnError,
    Result,
    digest,
    items_of,
    keys_of,
    turns_of,
)
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
    from agent_framework import ContextProvider, FunctionTool, HistoryProvider, Message
except ModuleNotFoundError as error:
    raise MissingExtra("agent-framework", __name__) from error

_FORM = "agent-framework"
_ROLES = {"user": "user", "system": "system", "developer": "system"}
Scope: TypeAlias = "AnyScope | Callable[[str], AnyScope]"


def _conversation(
    scope: Scope, session_id: str | None, on_error: OnError, budget: int | None = None
) -> Conversation:
    named = session_id or "default"
    whose = scope(named) if callable(scope) else scope
    return Conversation(whose, named, budget_tokens=budget, on_error=on_error)


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
        on_error: OnError = "continue",
        **flags: Any,
    ) -> None:
        super().__init__(source_id, **flags)
        self._scope, self._last = scope, last
        self._on_error: OnError = on_error

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **_: Any
    ) -> list[Message]:
        """Return the messages of a session in their order."""
        del state
        talk = _conversation(self._scope, session_id, self._on_error)
        replay = await talk.awithin_limit(ask(talk, "tail", self._last), None)
        turns = () if replay is None else replay.turns
        found = [Message.from_dict(item) for item in items_of(_FORM, turns)]
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
        parts = [part for message in messages for part in _parts(message)]
        if parts:
            bodies, keys = (list(each) for each in zip(*parts, strict=True))
            await _conversation(self._scope, session_id, self._on_error).aadd_new(bodies, keys)


class OctopusContextProvider(ContextProvider):
    """Adds the memory block to the instructions of a run, and the tools of the memory."""

    def __init__(
        self,
        scope: Scope,
        *,
        source_id: str = "octopus_context",
        budget_tokens: int | None = None,
        with_tools: bool = True,
        on_error: OnError = "continue",
    ) -> None:
        super().__init__(source_id)
        self._scope, self._budget, self._with_tools = scope, budget_tokens, with_tools
        self._on_error: OnError = on_error

    async def before_run(self, *, context: Any, **_: Any) -> None:
        """Add the block for what the user says now, and the tools."""
        talk = _conversation(self._scope, context.session_id, self._on_error, self._budget)
        said = [each.text for each in context.input_messages if each.role == "user" and each.text]
        block = await talk.ablock(said[-1] if said else "")
        if block:
            context.extend_instructions(self.source_id, block)
        if self._with_tools:
            context.extend_tools(self.source_id, _tools(talk))


def _tools(talk: Conversation) -> list[FunctionTool]:
    tools = MemoryTools(talk)

    def made(name: str, about: str, schema: dict[str, Json]) -> FunctionTool:
        async def call(**given: Any) -> str:
            return await tools.acall(name, given)

        return FunctionTool(name=name, description=about, func=call, input_model=schema)

    return [
        made(RECALL_TOOL, RECALL_ABOUT, RECALL_SCHEMA),
        made(FORGET_TOOL, FORGET_ABOUT, FORGET_SCHEMA),
    ]


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
