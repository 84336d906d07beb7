"""LlamaIndex: a `BaseMemory` that keeps the history, injects the block, and has a recall tool.

memory = OctopusMemory(octopus.scope(user="ana"), session_id="monday")
await FunctionAgent(llm=llm).run("Hello", memory=memory)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..domain.episode import Turn
from ..domain.errors import InvalidInput, MissingExtra
from ..domain.message import Json, Role
from ..flow import Steps, arun, ask, run
from .core import AnyScope, Call, Conversation, OnError, Result, items_of, turns_of
from .tools import FORGET_ABOUT, FORGET_TOOL, RECALL_ABOUT, RECALL_TOOL, MemoryTools

try:
    from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.memory import BaseMemory
    from llama_index.core.tools import FunctionTool
except ModuleNotFoundError as error:
    raise MissingExtra("llamaindex", __name__) from error

_FORM = "llamaindex"
_ROLES = {"developer": "system", "function": "tool", "chatbot": "assistant", "model": "assistant"}


class _Block(ChatMessage):
    """The injected message, which is never stored."""


class OctopusMemory(BaseMemory):
    """The history of one session, given back exactly, with the memory block before it.

    `reset` and `set` change the history and keep the memory: what was said stays recallable. With a
    `key`, a run that is repeated from its start by a new memory object stores nothing twice.
    """

    session_id: str
    token_limit: int = Field(default=30_000, description="Tokens of history that `get` returns.")
    key: str | None = None
    _bound: Conversation | None = PrivateAttr(default=None)
    _added: int = PrivateAttr(default=0)

    def __init__(
        self,
        scope: AnyScope | None = None,
        *,
        session_id: str,
        budget_tokens: int | None = None,
        on_error: OnError = "continue",
        **fields: Any,
    ) -> None:
        super().__init__(session_id=session_id, **fields)
        if scope is not None:
            self._bound = Conversation(
                scope, session_id, budget_tokens=budget_tokens, on_error=on_error
            )

    def __bool__(self) -> bool:
        """False if read from a saved context, which has no scope: a run takes its `memory` then."""
        return self._bound is not None

    @property
    def _talk(self) -> Conversation:
        if self._bound is None:
            raise InvalidInput("scope", "must be given: a saved context does not keep it")
        return self._bound

    @classmethod
    def class_name(cls) -> str:
        return "OctopusMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> OctopusMemory:
        """As the constructor."""
        return cls(**kwargs)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """The block for `input`, or for what the user said last, and the newest messages."""
        return run(self._get(input, **kwargs))

    async def aget(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """As `get`."""
        return await arun(self._get(input, **kwargs))

    def get_all(self) -> list[ChatMessage]:
        """The whole history, without the block."""
        return [_item(turn) for turn in run(self._turns())]

    async def aget_all(self) -> list[ChatMessage]:
        """As `get_all`."""
        return [_item(turn) for turn in await arun(self._turns())]

    def put(self, message: ChatMessage) -> None:
        """Store a message."""
        self.put_messages([message])

    async def aput(self, message: ChatMessage) -> None:
        """As `put`."""
        await self.aput_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Store messages in one transaction."""
        run(self._put(messages))

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """As `put_messages`. A cancelled caller does not stop it."""
        await self._talk.finish(arun(self._put(messages)))

    def set(self, messages: list[ChatMessage]) -> None:
        """Make these the history, and store those that are new."""
        run(self._set(messages))

    async def aset(self, messages: list[ChatMessage]) -> None:
        """As `set`. A cancelled caller does not stop it."""
        await self._talk.finish(arun(self._set(messages)))

    def reset(self) -> None:
        """Begin the history anew. What was said stays recallable."""
        run(self._reset())

    async def areset(self) -> None:
        """As `reset`."""
        await self._talk.finish(arun(self._reset()))

    def tools(self) -> list[FunctionTool]:
        """The tools that search this user's earlier conversations, and forget."""
        tools = MemoryTools(self._talk)

        def recall(query: str, time: str = "", session: str = "") -> str:
            return tools.recall(query, time, session)

        async def arecall(query: str, time: str = "", session: str = "") -> str:
            return await tools.arecall(query, time, session)

        def forget(about: str = "", token: str = "") -> str:
            return tools.forget(about, token)

        async def aforget(about: str = "", token: str = "") -> str:
            return await tools.aforget(about, token)

        named: dict[str, str] = {"name": RECALL_TOOL, "description": RECALL_ABOUT}
        other: dict[str, str] = {"name": FORGET_TOOL, "description": FORGET_ABOUT}
        return [
            FunctionTool.from_defaults(recall, async_fn=arecall, **named),
            FunctionTool.from_defaults(forget, async_fn=aforget, **other),
        ]

    def recall_tool(self) -> FunctionTool:
        """The first of `tools`."""
        return self.tools()[0]

    def _turns(self) -> Steps[Sequence[Turn]]:
        most = 1_000_000
        talk = self._talk
        found = yield from ask(talk, "within_limit", ask(talk, "tail", most), None)
        return () if found is None else found.turns

    def _get(self, query: str | None, initial_token_count: int = 0, **_: Any) -> Steps[Any]:
        turns = yield from self._turns()
        said = [turn.text for turn in turns if turn.role is Role.USER and turn.text.strip()]
        wanted = query or (said[-1] if said else "")
        block = yield from ask(self._talk, "block", wanted)
        history = [_item(turn) for turn in _newest(turns, self.token_limit - initial_token_count)]
        return [_Block(block, role=MessageRole.SYSTEM), *history] if block else history

    def _put(self, messages: Sequence[ChatMessage], index: Sequence[bool] = ()) -> Steps[None]:
        bodies = [_body(each) for each in messages if not isinstance(each, _Block)]
        keys: list[str | None] | None = None
        if self.key is not None:
            keys = [f"{self.key}:{self._added + number}" for number in range(len(bodies))]
        self._added += len(bodies)
        flags = index or True
        yield from ask(self._talk, "add", bodies, keys, index=flags)

    def _set(self, messages: Sequence[ChatMessage]) -> Steps[None]:
        wanted = [each for each in messages if not isinstance(each, _Block)]
        known = [_item(turn) for turn in (yield from self._turns())]
        if wanted[: len(known)] == known:
            yield from self._put(wanted[len(known) :])
            return
        yield from self._reset()
        # What the session had before can be recalled from there, so only new messages are indexed.
        yield from self._put(wanted, [each not in known for each in wanted])

    def _reset(self) -> Steps[None]:
        if (yield from self._turns()):
            yield from ask(self._talk.sync, "reset_session", self.session_id)


def _newest(turns: Sequence[Turn], limit: int) -> Sequence[Turn]:
    """The last turns within a number of tokens, from a user's message on; at least from the last.

    Providers refuse a history that begins with an answer or a tool's result.
    """
    starts = [number for number, turn in enumerate(turns) if turn.role is Role.USER]
    sizes = [turn.tokens for turn in turns]
    if sum(sizes) <= limit or not starts:
        return turns
    return turns[next((at for at in starts if sum(sizes[at:]) <= limit), starts[-1]) :]


def _body(message: ChatMessage) -> dict[str, Json]:
    item = json.loads(message.model_dump_json())
    role, text = str(message.role.value), message.content or ""
    more = message.additional_kwargs
    found = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    calls = [Call(b.tool_call_id or b.tool_name, b.tool_name, _json(b.tool_kwargs)) for b in found]
    results = []
    if role in {"tool", "function"}:
        results = [Result(str(more.get("tool_call_id") or more.get("name") or "tool"), text)]
    named = {"role": _ROLES.get(role, role), "text": "" if results else text}
    [body] = turns_of(_FORM, item, **named, calls=calls, results=results)
    return body


def _json(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)


def _item(turn: Turn) -> ChatMessage:
    [item] = items_of(_FORM, [turn]) or [{"role": turn.role.value, "content": turn.text}]
    return ChatMessage(**item)
