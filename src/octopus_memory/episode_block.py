"""The `with` block around one conversation, for the embedded and the remote memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from .domain.checks import Times
from .domain.episode import EndReason, Episode, Turn
from .domain.message import Json, Message, MessageLike, ToolCall
from .flow import Steps, ask, both

if TYPE_CHECKING:
    from .domain.context import MemoryContext


class EpisodeInHand:
    """An open episode of one session. After a time-out it continues in the session's next one."""

    def __init__(self, scope: Any, episode: Episode) -> None:
        # A scope of any kind: `ScopeCalls`, which makes these, is above this module.
        self._scope = scope
        self._episode = episode

    @property
    def id(self) -> UUID:
        return self._episode.id

    @property
    def session_id(self) -> str:
        return self._episode.session_id

    @property
    def episode(self) -> Episode:
        """The stored episode, read now."""
        found: Episode = self._scope.get(self.id).episode
        return found

    @both
    def add(
        self,
        role_or_messages: str | MessageLike | Sequence[MessageLike],
        content: Json = None,
        *,
        name: str | None = None,
        idempotency_key: str | None = None,
        at: Times = None,
        tokens: Sequence[int] | None = None,
        keys: Sequence[str | None] | None = None,
        index: bool | Sequence[bool] = True,
    ) -> Steps[list[Turn]]:
        """Add `("user", "text")`, a message, or a list of messages."""
        messages: MessageLike | Sequence[MessageLike]
        if isinstance(role_or_messages, str):
            messages = {"role": role_or_messages, "content": content}
            if name is not None:
                messages["name"] = name
        else:
            messages = role_or_messages
        stored: list[Turn] = yield from ask(
            self._scope,
            "add",
            self.session_id,
            messages,
            idempotency_key=idempotency_key,
            at=at,
            tokens=tokens,
            keys=keys,
            index=index,
        )
        if stored and stored[-1].episode_id != self.id:
            self._episode = (yield from ask(self._scope, "get", stored[-1].episode_id)).episode
        return stored

    @both
    def add_tool_call(
        self,
        function_name: str,
        arguments: Json,
        result: Json,
        *,
        tool_call_id: str,
        duration_ms: int | None = None,
        is_error: bool = False,
        at: datetime | None = None,
    ) -> Steps[list[Turn]]:
        """Add a tool turn that carries the call and its result."""
        call = ToolCall(
            tool_call_id=tool_call_id,
            function_name=function_name,
            arguments=arguments,
            result=result,
            duration_ms=duration_ms,
            is_error=is_error,
        )
        stored: list[Turn] = yield from ask(self, "add", Message.tool(call), at=at)
        return stored

    @both
    def context(
        self,
        message: str | MessageLike,
        *,
        history: Sequence[MessageLike] = (),
        system: str | None = None,
        budget_tokens: int | None = None,
    ) -> Steps[MemoryContext]:
        """Build the messages for the model, with memories of every session but this one."""
        made: MemoryContext = yield from ask(
            self._scope,
            "context",
            message,
            history=history,
            system=system,
            budget_tokens=budget_tokens,
            session_id=self.session_id,
        )
        return made

    @both
    def close(
        self,
        reason: EndReason | str = EndReason.USER_CLOSED,
        summary: str | None = None,
        key_facts: Sequence[str] | None = None,
        *,
        at: datetime | None = None,
    ) -> Steps[Episode]:
        """Close the episode: see `close_episode` of a scope."""
        given = (self.id, reason, summary, key_facts)
        self._episode = yield from ask(self._scope, "close_episode", *given, at=at)
        return self._episode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(EndReason.USER_CLOSED if kind is None else EndReason.ERROR_CLOSED)
