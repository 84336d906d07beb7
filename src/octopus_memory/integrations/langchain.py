"""LangChain: an `AgentMiddleware` that stores, injects and searches.

middleware = OctopusMiddleware(memory.scope(user="ana"), session_id="monday")
agent = create_agent(model, tools, middleware=[middleware])
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from ..domain.episode import Turn
from ..domain.errors import MissingExtra
from ..domain.message import AS_GIVEN, Json
from .core import AnyScope, Conversation, OnError, digest
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
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.messages import AIMessage, SystemMessage
    from langchain.tools import ToolRuntime
    from langchain_core.messages import (
        BaseMessage,
        convert_to_openai_messages,
        message_to_dict,
        messages_from_dict,
    )
    from langchain_core.tools import StructuredTool
except ModuleNotFoundError as error:
    raise MissingExtra("langchain", __name__) from error

_FORM = "langchain"
Scope: TypeAlias = "AnyScope | Callable[[Any], AnyScope]"
Session: TypeAlias = "str | Callable[[Any], str]"


class OctopusMiddleware(AgentMiddleware[Any, Any, Any]):
    """Stores each message of an agent once, by its id, and gives the model the memory block.

    `scope` and `session_id` are given, or found from the run's `runtime`, whose `context` the
    caller fills: `session_id=lambda runtime: runtime.context.thread`. The model chooses neither.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        session_id: Session,
        budget_tokens: int | None = None,
        with_tools: bool = True,
        on_error: OnError = "continue",
    ) -> None:
        super().__init__()
        self._scope, self._session_id, self._budget = scope, session_id, budget_tokens
        self._on_error: OnError = on_error
        self.tools = self._memory_tools() if with_tools else []

    def conversation(self, runtime: Any) -> Conversation:
        """The user's session that a run belongs to."""
        scope = self._scope(runtime) if callable(self._scope) else self._scope
        named = self._session_id
        session_id = named if isinstance(named, str) else named(runtime)
        return Conversation(scope, session_id, budget_tokens=self._budget, on_error=self._on_error)

    def before_model(self, state: AgentState[Any], runtime: Any) -> None:
        """Store what was said by now, before anything can fail."""
        _store(self.conversation(runtime), state["messages"])

    async def abefore_model(self, state: AgentState[Any], runtime: Any) -> None:
        """As `before_model`."""
        await _astore(self.conversation(runtime), state["messages"])

    def after_agent(self, state: AgentState[Any], runtime: Any) -> None:
        """Store the rest of the run."""
        _store(self.conversation(runtime), state["messages"])

    async def aafter_agent(self, state: AgentState[Any], runtime: Any) -> None:
        """As `after_agent`."""
        await _astore(self.conversation(runtime), state["messages"])

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any] | AIMessage:
        """Ask the model with the memory block after the system prompt."""
        block = self.conversation(request.runtime).block(_query(request.messages))
        return handler(_with_block(request, block))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | AIMessage:
        """As `wrap_model_call`."""
        block = await self.conversation(request.runtime).ablock(_query(request.messages))
        return await handler(_with_block(request, block))

    def _memory_tools(self) -> list[Any]:
        """The tools of the model, each for the session of the run that calls it."""

        def made(name: str, about: str, schema: dict[str, Json]) -> Any:
            def call(runtime: ToolRuntime[Any, Any], **given: Any) -> str:
                return MemoryTools(self.conversation(runtime)).call(name, given)

            async def acall(runtime: ToolRuntime[Any, Any], **given: Any) -> str:
                return await MemoryTools(self.conversation(runtime)).acall(name, given)

            return StructuredTool.from_function(
                call, coroutine=acall, name=name, description=about, args_schema=schema
            )

        return [
            made(RECALL_TOOL, RECALL_ABOUT, RECALL_SCHEMA),
            made(FORGET_TOOL, FORGET_ABOUT, FORGET_SCHEMA),
        ]


def history(turns: Sequence[Turn]) -> list[BaseMessage]:
    """The messages of turns that the middleware stored, exactly as the agent had them."""
    items = [turn.message.body.get(AS_GIVEN) or {} for turn in turns]
    found = [kept["item"] for kept in items if kept.get("form") == _FORM]
    made: list[BaseMessage] = messages_from_dict(found)
    return made


def _query(messages: Sequence[BaseMessage]) -> str:
    said = [message for message in messages if message.type == "human"]
    return said[-1].text if said else ""


def _with_block(request: ModelRequest[Any], block: str) -> ModelRequest[Any]:
    if not block:
        return request
    told = request.system_message
    if told is None or not told.content:
        return request.override(system_message=SystemMessage(block))
    if isinstance(told.content, str):
        content: Any = f"{told.content}\n\n{block}"
    else:
        # Blocks stay as they are, because they may be marked for the provider's cache.
        content = [*told.content, {"type": "text", "text": block}]
    return request.override(system_message=told.model_copy(update={"content": content}))


def _bodies(messages: Sequence[BaseMessage]) -> tuple[list[dict[str, Json]], list[str | None]]:
    """The messages that are stored, and their keys: instructions and other memories are not.

    LangChain gives a new id to a message without one, whenever it is sent: so a message is told by
    its content, too. An edit under the same id is another message.
    """
    kept = [
        message
        for message in messages
        if message.type != "system" and "lc_source" not in message.additional_kwargs
    ]
    bodies = [_body(message) for message in kept]
    keys = [
        None if message.id is None else f"{message.id}:{digest(body.get('content'))}"
        for message, body in zip(kept, bodies, strict=True)
    ]
    return bodies, keys


def _body(message: BaseMessage) -> dict[str, Json]:
    item = json.loads(json.dumps(message_to_dict(message), default=str))
    [said] = convert_to_openai_messages([message])
    body = {**said, AS_GIVEN: {"form": _FORM, "item": item}}
    if body.get("role") == "assistant" and not body.get("content"):
        body["content"] = None if body.get("tool_calls") else ""
    if body.get("role") == "tool" and body.get("content") is None:
        body["content"] = ""
    return body


def _store(talk: Conversation, messages: Sequence[BaseMessage]) -> None:
    bodies, keys = _bodies(messages)
    talk.add_new(bodies, keys)


async def _astore(talk: Conversation, messages: Sequence[BaseMessage]) -> None:
    bodies, keys = _bodies(messages)
    await talk.aadd_new(bodies, keys)
