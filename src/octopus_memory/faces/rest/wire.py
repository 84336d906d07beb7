"""What goes over the wire: the bodies of requests and answers, in camelCase."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from ...domain.episode import EndReason, Episode, EpisodeSnippet, Session, Turn, TurnHit
from ...domain.replay import EpisodeReplay, SessionReplay
from ...engine.orchestrator import MemoryContext
from ...engine.recall import RecallMode

NameText = Annotated[str, StringConstraints(min_length=1, max_length=256)]
QueryText = Annotated[
    str, StringConstraints(min_length=1, max_length=10_000, pattern=r"^[^\x00]*$")
]
_MESSAGE: Any = {"role": "user", "content": "How many leave days do I have left?"}


class Wire(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class WhoBody(Wire):
    """Whose memory: needed unless the credential leaves no choice."""

    agent_id: NameText | None = None
    user_id: NameText | None = None


class HowItEnds(Wire):
    reason: EndReason = EndReason.USER_CLOSED
    summary: Annotated[str, StringConstraints(max_length=2_000)] | None = None
    key_facts: list[str] | None = None
    at: AwareDatetime | None = None


class ClosingBody(HowItEnds, WhoBody):
    """How an episode ends; `agentId` and `userId`, where given, must be the episode's own."""


class OpenBody(WhoBody):
    """Open an episode; with `messages` they are added, with `close` it is stored whole."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"agentId": "hr", "userId": "user-17", "sessionId": "s-1"}}
    )
    session_id: NameText | None = None
    at: AwareDatetime | None = None
    metadata: dict[str, Any] | None = None
    messages: list[dict[str, Any]] | None = Field(default=None, min_length=1, max_length=10_000)
    times: list[AwareDatetime] | None = None
    close: HowItEnds | None = None
    input_tokens: int | None = Field(default=None, ge=0, le=2**31 - 1)
    output_tokens: int | None = Field(default=None, ge=0, le=2**31 - 1)


class AddBody(WhoBody):
    """Messages to add; `agentId` and `userId`, where given, must be the episode's own."""

    model_config = ConfigDict(json_schema_extra={"example": {"messages": [_MESSAGE]}})
    messages: list[dict[str, Any]] = Field(min_length=1, max_length=10_000)
    at: AwareDatetime | list[AwareDatetime] | None = None
    tokens: list[int] | None = None


class SessionAddBody(AddBody):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {"agentId": "hr", "userId": "user-17", "messages": [_MESSAGE]}
        }
    )


class SessionCloseBody(WhoBody):
    reason: EndReason = EndReason.USER_CLOSED


class HeartbeatBody(WhoBody):
    at: AwareDatetime | None = None


class SearchBody(WhoBody):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "query": "leave days",
                "agentId": "hr",
                "userId": "user-17",
                "topK": 3,
                "includeArchived": True,
            }
        }
    )
    query: QueryText
    top_k: int = Field(default=5, ge=1, le=1_000)
    include_archived: bool = True
    mode: RecallMode = RecallMode.HYBRID
    min_score: float | None = Field(default=None, ge=0, le=1)
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    session_id: NameText | None = None
    """The current session, which is left out."""


class ContextBody(WhoBody):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "message": "And how many will be left next year?",
                "agentId": "hr",
                "userId": "user-17",
                "history": [_MESSAGE],
            }
        }
    )
    message: str | dict[str, Any]
    history: list[dict[str, Any]] = Field(default_factory=list, max_length=10_000)
    system: str | None = None
    budget_tokens: int | None = Field(default=None, ge=0, le=2**31 - 1)
    session_id: NameText | None = None


class EpisodeOut(Wire):
    id: UUID
    agent_id: str
    user_id: str
    session_id: str
    started_at: datetime
    last_message_at: datetime
    ended_at: datetime | None
    end_reason: EndReason | None
    message_count: int
    input_tokens: int
    output_tokens: int
    summary: str | None
    key_facts: list[str]
    summarized_by: str | None
    is_archived: bool
    archived_at: datetime | None
    can_restore: bool

    @classmethod
    def of(cls, episode: Episode, *, content: bool = True) -> EpisodeOut:
        return cls(
            id=episode.id,
            agent_id=episode.scope.agent,
            user_id=episode.scope.user,
            session_id=episode.session_id,
            started_at=episode.started_at,
            last_message_at=episode.last_message_at,
            ended_at=episode.ended_at,
            end_reason=episode.end_reason,
            message_count=episode.message_count,
            input_tokens=episode.input_tokens,
            output_tokens=episode.output_tokens,
            summary=episode.summary if content else None,
            key_facts=list(episode.key_facts) if content else [],
            summarized_by=episode.summarized_by,
            is_archived=episode.is_archived,
            archived_at=episode.archived_at,
            can_restore=episode.is_cold,
        )


class TurnOut(Wire):
    id: UUID
    episode_id: UUID
    session_id: str
    ordinal: int
    message: dict[str, Any]
    tokens: int
    at: datetime
    has_pii: bool
    embedding_ref: str | None

    @classmethod
    def of(cls, turn: Turn) -> TurnOut:
        return cls(
            id=turn.id,
            episode_id=turn.episode_id,
            session_id=turn.session_id,
            ordinal=turn.ordinal,
            message=dict(turn.message.body),
            tokens=turn.tokens,
            at=turn.at,
            has_pii=turn.has_pii,
            embedding_ref=turn.embedding_ref,
        )


class StoredOut(Wire):
    """A turn that was stored; its message is what was sent."""

    id: UUID
    episode_id: UUID
    session_id: str
    ordinal: int
    tokens: int
    at: datetime
    has_pii: bool
    message: dict[str, Any] | None = None
    """As it is stored, where that is not as it was sent."""


class AddedOut(Wire):
    turns: list[StoredOut]

    @classmethod
    def of(cls, turns: list[Turn], sent: list[dict[str, Any]]) -> AddedOut:
        return cls(
            turns=[
                StoredOut(
                    id=turn.id,
                    episode_id=turn.episode_id,
                    session_id=turn.session_id,
                    ordinal=turn.ordinal,
                    tokens=turn.tokens,
                    at=turn.at,
                    has_pii=turn.has_pii,
                    message=None if turn.message.body == body else dict(turn.message.body),
                )
                for turn, body in zip(turns, sent, strict=True)
            ]
        )


class EpisodeDetail(EpisodeOut):
    messages: list[TurnOut] | None
    """None where the episode is archived, or for who may not see what was said."""

    @classmethod
    def of_replay(cls, replay: EpisodeReplay, *, content: bool = True) -> EpisodeDetail:
        shown = EpisodeOut.of(replay.episode, content=content).model_dump()
        turns = [TurnOut.of(turn) for turn in replay.turns]
        hidden = replay.episode.is_archived or not content
        return cls(**shown, messages=None if hidden else turns)


class EpisodeItems(Wire):
    items: list[EpisodeOut]


class EpisodeList(Wire):
    items: list[EpisodeOut]
    total_count: int
    page: int
    page_size: int


class SignalOut(Wire):
    signal: str
    value: float
    contribution: float
    words: str


class HitOut(Wire):
    id: UUID
    episode_id: UUID
    session_id: str
    ordinal: int
    role: str
    name: str | None
    text: str
    at: datetime
    score: float
    signals: list[SignalOut]

    @classmethod
    def of(cls, hit: TurnHit) -> HitOut:
        return cls(
            id=hit.id,
            episode_id=hit.episode_id,
            session_id=hit.session_id,
            ordinal=hit.ordinal,
            role=hit.role.value,
            name=hit.name,
            text=hit.text,
            at=hit.at,
            score=hit.score,
            signals=_signals(hit),
        )


class SnippetOut(Wire):
    episode_id: UUID
    session_id: str
    summary: str
    key_facts: list[str]
    date: datetime
    relevance_score: float
    is_archived: bool
    turns: list[HitOut]
    signals: list[SignalOut]

    @classmethod
    def of(cls, snippet: EpisodeSnippet) -> SnippetOut:
        return cls(
            episode_id=snippet.episode_id,
            session_id=snippet.session_id,
            summary=snippet.summary,
            key_facts=list(snippet.key_facts),
            date=snippet.date,
            relevance_score=snippet.relevance,
            is_archived=snippet.is_archived,
            turns=[HitOut.of(hit) for hit in snippet.turns],
            signals=_signals(snippet),
        )


def _signals(found: TurnHit | EpisodeSnippet) -> list[SignalOut]:
    return [
        SignalOut(signal=s.signal, value=s.value, contribution=s.contribution, words=s.words)
        for s in found.signals
    ]


class SearchOut(Wire):
    results: list[SnippetOut]


class TurnSearchOut(Wire):
    results: list[HitOut]


class SessionOut(Wire):
    id: str
    agent_id: str
    user_id: str
    status: str
    metadata: dict[str, Any]
    created_at: datetime
    last_seen_at: datetime

    @classmethod
    def of(cls, session: Session) -> SessionOut:
        return cls(
            id=session.id,
            agent_id=session.scope.agent,
            user_id=session.scope.user,
            status=session.status.value,
            metadata=dict(session.metadata),
            created_at=session.created_at,
            last_seen_at=session.last_seen_at,
        )


class SessionDetail(SessionOut):
    episodes: list[EpisodeDetail]

    @classmethod
    def of_replay(cls, replay: SessionReplay) -> SessionDetail:
        return cls(
            **SessionOut.of(replay.session).model_dump(),
            episodes=[EpisodeDetail.of_replay(each) for each in replay.episodes],
        )


class ContextOut(Wire):
    text: str
    messages: list[dict[str, Any]]
    snippets: list[SnippetOut]
    tokens: int
    block_tokens: int
    dropped: int

    @classmethod
    def of(cls, context: MemoryContext) -> ContextOut:
        return cls(
            text=context.text,
            messages=context.messages,
            snippets=[SnippetOut.of(snippet) for snippet in context.snippets],
            tokens=context.tokens,
            block_tokens=context.block_tokens,
            dropped=context.dropped,
        )
