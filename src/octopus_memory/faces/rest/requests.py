"""Bodies of requests, in camelCase."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from ...domain.episode import EndReason
from ...domain.message import Role
from ...engine.read.recall import RecallMode

NameText = Annotated[str, StringConstraints(min_length=1, max_length=256)]
WhoseText = Annotated[
    NameText | None,
    Query(description="Required unless the credential is for one only."),
]
QueryText = Annotated[
    str, StringConstraints(min_length=1, max_length=10_000, pattern=r"^[^\x00]*$")
]
_WHO: Any = {"agentId": "hr", "userId": "user-17"}
_MESSAGE: Any = {"role": "user", "content": "How many leave days do I have left?"}


class Wire(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class WhoBody(Wire):
    """Agent and user. Required unless the credential is for one only."""

    model_config = ConfigDict(json_schema_extra={"example": _WHO})
    agent_id: NameText | None = None
    user_id: NameText | None = None


class HowItEnds(Wire):
    reason: EndReason = EndReason.USER_CLOSED
    summary: Annotated[str, StringConstraints(max_length=2_000)] | None = None
    key_facts: list[str] | None = None
    at: AwareDatetime | None = None


class ClosingBody(HowItEnds, WhoBody):
    """The end of an episode. `agentId` and `userId` must match the episode if they are given."""

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "user_closed"}})


class OpenBody(WhoBody):
    """A new episode. With `messages` they are added, with `close` it is closed at once."""

    model_config = ConfigDict(json_schema_extra={"example": {**_WHO, "sessionId": "s-1"}})
    session_id: NameText | None = None
    at: AwareDatetime | None = None
    metadata: dict[str, Any] | None = None
    messages: list[dict[str, Any]] | None = Field(default=None, min_length=1, max_length=10_000)
    times: list[AwareDatetime] | None = None
    close: HowItEnds | None = None
    input_tokens: int | None = Field(default=None, ge=0, le=2**31 - 1)
    output_tokens: int | None = Field(default=None, ge=0, le=2**31 - 1)


class AddBody(WhoBody):
    """Messages to add. `agentId` and `userId` must match the episode if they are given."""

    model_config = ConfigDict(json_schema_extra={"example": {"messages": [_MESSAGE]}})
    messages: list[dict[str, Any]] = Field(min_length=1, max_length=10_000)
    at: AwareDatetime | list[AwareDatetime] | None = None
    tokens: list[int] | None = None
    keys: list[NameText | None] | None = None
    """Ids of the caller's own: a message whose key the session knows is skipped."""
    index: bool | list[bool] | None = None
    """False for messages that are replayed and never recalled."""


class SessionAddBody(AddBody):
    model_config = ConfigDict(json_schema_extra={"example": {**_WHO, "messages": [_MESSAGE]}})


class SessionCloseBody(WhoBody):
    reason: EndReason = EndReason.USER_CLOSED


class RemoveTurnsBody(WhoBody):
    """The turns to remove: those with these ids, or the last ones."""

    model_config = ConfigDict(json_schema_extra={"example": {**_WHO, "last": 1}})
    ids: list[UUID] | None = Field(default=None, max_length=10_000)
    last: int | None = Field(default=None, ge=1, le=1_000_000)
    physical: bool = False


class FlushBody(Wire):
    """Longest wait, in seconds."""

    model_config = ConfigDict(json_schema_extra={"example": {"seconds": 5}})
    seconds: float = Field(default=5.0, ge=0, le=30)


class FlushedOut(Wire):
    done: bool


class HeartbeatBody(WhoBody):
    at: AwareDatetime | None = None


class SearchBody(WhoBody):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "query": "leave days",
                **_WHO,
                "topK": 3,
                "includeArchived": True,
            }
        }
    )
    query: QueryText
    top_k: int = Field(default=3, ge=1, le=1_000)
    include_archived: bool | None = None
    """Default: the setting of the agent."""
    mode: RecallMode = RecallMode.HYBRID
    min_score: float | None = Field(default=None, ge=0, le=1)
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    session_id: NameText | None = None
    """The current session, which is not searched."""
    roles: list[Role] | None = None
    sessions: list[NameText] | None = Field(default=None, max_length=1_000)
    metadata: dict[str, Any] | None = None
    """Keys and values that the session must have."""


class TurnSearchBody(SearchBody):
    top_k: int = Field(default=5, ge=1, le=1_000)


class ContextBody(WhoBody):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "message": "And how many will be left next year?",
                **_WHO,
                "sessionId": "today",
                "history": [_MESSAGE],
            }
        }
    )
    message: str | dict[str, Any]
    history: list[dict[str, Any]] = Field(default_factory=list, max_length=10_000)
    system: str | None = None
    budget_tokens: int | None = Field(default=None, ge=0, le=2**31 - 1)
    session_id: NameText | None = None


class HoldBody(Wire):
    """A legal hold on a user or on one episode."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"userId": "user-17", "reason": "case 2026-114"}}
    )
    user_id: NameText | None = None
    episode_id: UUID | None = None
    reason: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]
