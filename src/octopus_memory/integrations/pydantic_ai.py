"""PydanticAI: a capability that stores, injects and searches.

agent = Agent(model, capabilities=[OctopusMemory(memory.scope(user="ana"))])
await agent.run("Hello", conversation_id="monday")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..domain.episode import Turn
from ..domain.errors import MissingExtra
from ..domain.message import Json
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
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        RetryPromptPart,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import Tool
    from pydantic_ai.toolsets import FunctionToolset
except ModuleNotFoundError as error:
    raise MissingExtra("pydantic-ai", __name__) from error

_FORM = "pydantic-ai"
Body: TypeAlias = dict[str, Json]


class OctopusMemory(AbstractCapability[Any]):
    """Stores each message of a run once, and gives the model the memory block.

    `scope` is given, or found from the run's `RunContext`, whose `deps` the caller fills. The
    session is the run's `conversation_id`, or `session_id`. The model chooses neither.
    """

    def __init__(
        self,
        scope: AnyScope | Callable[[RunContext[Any]], AnyScope],
        *,
        session_id: str | Callable[[RunContext[Any]], str] | None = None,
        budget_tokens: int | None = None,
        with_tools: bool = True,
        on_error: OnError = "continue",
    ) -> None:
        self._scope, self._session_id, self._budget = scope, session_id, budget_tokens
        self._with_tools = with_tools
        self._on_error: OnError = on_error

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """Bind the capability to the user's session that a run belongs to."""
        scope = self._scope(ctx) if callable(self._scope) else self._scope
        named = self._session_id or ctx.conversation_id or ctx.run_id or ""
        session_id = named if isinstance(named, str) else named(ctx)
        talk = Conversation(scope, session_id, budget_tokens=self._budget, on_error=self._on_error)
        return _OneRun(talk, with_tools=self._with_tools)


class _OneRun(AbstractCapability[Any]):
    """The capability in one run."""

    def __init__(self, talk: Conversation, *, with_tools: bool) -> None:
        self._talk, self._with_tools = talk, with_tools
        self._messages: list[ModelMessage] = []
        self._query = ""

    async def wrap_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        handler: Callable[[ModelRequestContext], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        """Store what was said by now, before another capability can shorten the history."""
        self._messages, self._query = ctx.messages, _query(ctx.messages)
        await self._store()
        return await handler(request_context)

    async def prepare_model_request(
        self, _: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Add the memory block to this request alone: the history is complete by now."""
        given = request_context.messages
        block = await self._talk.ablock(self._query)
        if block:
            request_context.messages = _with_block(given, block)
        return request_context

    async def after_run(self, _: RunContext[Any], *, result: AgentRunResult[Any]) -> Any:
        """Note the messages of a run that succeeded."""
        self._messages = result.all_messages()
        return result

    async def wrap_run(self, _: RunContext[Any], *, handler: Callable[[], Any]) -> Any:
        """Store the rest of the run, also if it fails or is cancelled."""
        try:
            return await handler()
        finally:
            await self._store()

    def get_toolset(self) -> Any:
        """The tools that search this user's earlier conversations, and forget."""
        if not self._with_tools:
            return None
        tools = MemoryTools(self._talk)

        async def recall(**given: Any) -> str:
            return await tools.acall(RECALL_TOOL, given)

        async def forget(**given: Any) -> str:
            return await tools.acall(FORGET_TOOL, given)

        return FunctionToolset(
            [
                Tool.from_schema(recall, RECALL_TOOL, RECALL_ABOUT, RECALL_SCHEMA),
                Tool.from_schema(forget, FORGET_TOOL, FORGET_ABOUT, FORGET_SCHEMA),
            ]
        )

    async def _store(self) -> None:
        seen: Counter[str] = Counter()
        bodies: list[Body] = []
        keys: list[str | None] = []
        for message in self._messages:
            turns = _turns(message)
            # PydanticAI gives messages no ids: the run and what is said name one.
            mark = f"{message.run_id}:{_said(turns)}"
            seen[mark] += 1
            bodies += turns
            keys += keys_of(message.run_id and f"{mark}:{seen[mark]}", len(turns))
        await self._talk.aadd_new(bodies, keys)


def history(turns: Sequence[Turn]) -> list[ModelMessage]:
    """The messages of turns that the capability stored, exactly as the run had them."""
    made: list[ModelMessage] = ModelMessagesTypeAdapter.validate_python(items_of(_FORM, turns))
    return made


def _query(messages: Sequence[ModelMessage]) -> str:
    for message in reversed(messages):
        said = [part for part in message.parts if isinstance(part, UserPromptPart)]
        if said:
            return _text(said[-1])
    return ""


def _with_block(messages: Sequence[ModelMessage], block: str) -> list[ModelMessage]:
    """The messages with the block after the system prompts at their beginning."""
    first = messages[0]
    if not isinstance(first, ModelRequest):
        return [ModelRequest([SystemPromptPart(block)]), *messages]
    at = 0
    while at < len(first.parts) and isinstance(first.parts[at], SystemPromptPart):
        at += 1
    parts = [*first.parts[:at], SystemPromptPart(block), *first.parts[at:]]
    return [replace(first, parts=parts), *messages[1:]]


def _text(part: UserPromptPart) -> str:
    """The words of a user's part, which may have images and files beside them."""
    given = [part.content] if isinstance(part.content, str) else part.content
    texts = [getattr(each, "content", each) for each in given]
    return "\n".join(text for text in texts if isinstance(text, str))


def _turns(message: ModelMessage) -> list[Body]:
    [item] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    texts, calls, results = [], [], []
    for part in message.parts:
        match part:
            case UserPromptPart():
                texts.append(_text(part))
            case TextPart():
                texts.append(part.content)
            case ToolCallPart():
                calls.append(Call(part.tool_call_id, part.tool_name, part.args_as_json_str()))
            case ToolReturnPart():
                results.append(Result(part.tool_call_id, part.model_response_str()))
            case RetryPromptPart() if part.tool_name:
                results.append(Result(part.tool_call_id, part.model_response(), is_error=True))
    role = "user" if isinstance(message, ModelRequest) else "assistant"
    said = "\n".join(texts)
    return turns_of(_FORM, item, role=role, text=said, calls=calls, results=results)


def _said(turns: Sequence[Body]) -> str:
    """A digest that two messages share that say the same, whenever and under whatever ids."""
    asked = [[call["function"] for call in turn.get("tool_calls", ())] for turn in turns]
    return digest([[turn["role"], turn["content"]] for turn in turns] + asked)
