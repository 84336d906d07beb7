"""What the service answers, in camelCase.

Typed dictionaries: the OpenAPI page is made from them, and they are written as JSON as they are.
Models would look at every value once more, for values that come from Octopus itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import ConfigDict, with_config

# The standard library's own can be read by pydantic only from Python 3.12 on.
from typing_extensions import TypedDict

from ...domain.episode import (
    EndReason,
    Episode,
    EpisodeSnippet,
    Session,
    SignalShare,
    Turn,
    TurnHit,
)
from ...domain.replay import EpisodeReplay, SessionReplay

exact = with_config(ConfigDict(extra="forbid"))
"""An answer has these fields and no others."""


@exact
class EpisodeOut(TypedDict):
    id: UUID
    agentId: str
    userId: str
    sessionId: str
    startedAt: datetime
    lastMessageAt: datetime
    endedAt: datetime | None
    endReason: EndReason | None
    messageCount: int
    inputTokens: int
    outputTokens: int
    summary: str | None
    keyFacts: list[str]
    summarizedBy: str | None
    isArchived: bool
    archivedAt: datetime | None
    canRestore: bool


def episode_out(episode: Episode, *, content: bool = True) -> EpisodeOut:
    return {
        "id": episode.id,
        "agentId": episode.scope.agent,
        "userId": episode.scope.user,
        "sessionId": episode.session_id,
        "startedAt": episode.started_at,
        "lastMessageAt": episode.last_message_at,
        "endedAt": episode.ended_at,
        "endReason": episode.end_reason,
        "messageCount": episode.message_count,
        "inputTokens": episode.input_tokens,
        "outputTokens": episode.output_tokens,
        "summary": episode.summary if content else None,
        "keyFacts": list(episode.key_facts) if content else [],
        "summarizedBy": episode.summarized_by,
        "isArchived": episode.is_archived,
        "archivedAt": episode.archived_at,
        "canRestore": episode.is_cold,
    }


@exact
class TurnOut(TypedDict):
    id: UUID
    episodeId: UUID
    sessionId: str
    ordinal: int
    message: dict[str, Any]
    tokens: int
    at: datetime
    hasPii: bool
    embeddingRef: str | None


def turn_out(turn: Turn) -> TurnOut:
    return {
        "id": turn.id,
        "episodeId": turn.episode_id,
        "sessionId": turn.session_id,
        "ordinal": turn.ordinal,
        "message": dict(turn.message.body),
        "tokens": turn.tokens,
        "at": turn.at,
        "hasPii": turn.has_pii,
        "embeddingRef": turn.embedding_ref,
    }


@exact
class StoredOut(TypedDict):
    """A turn that was stored. Its message is given only where it is not stored as it was sent."""

    id: UUID
    episodeId: UUID
    sessionId: str
    ordinal: int
    tokens: int
    at: datetime
    hasPii: bool
    message: dict[str, Any] | None


@exact
class AddedOut(TypedDict):
    turns: list[StoredOut]


def added_out(turns: list[Turn], sent: list[dict[str, Any]]) -> AddedOut:
    return {"turns": [_stored(turn, body) for turn, body in zip(turns, sent, strict=True)]}


def _stored(turn: Turn, sent: dict[str, Any]) -> StoredOut:
    body = turn.message.body
    return {
        "id": turn.id,
        "episodeId": turn.episode_id,
        "sessionId": turn.session_id,
        "ordinal": turn.ordinal,
        "tokens": turn.tokens,
        "at": turn.at,
        "hasPii": turn.has_pii,
        "message": None if body == sent else dict(body),
    }


@exact
class EpisodeDetail(EpisodeOut):
    """`messages` is null where the episode is archived, or for who may not see what was said."""

    messages: list[TurnOut] | None


def episode_detail(replay: EpisodeReplay, *, content: bool = True) -> EpisodeDetail:
    hidden = replay.episode.is_archived or not content
    return {
        **episode_out(replay.episode, content=content),
        "messages": None if hidden else [turn_out(turn) for turn in replay.turns],
    }


@exact
class EpisodeItems(TypedDict):
    items: list[EpisodeOut]


@exact
class EpisodeList(TypedDict):
    items: list[EpisodeOut]
    totalCount: int
    page: int
    pageSize: int


@exact
class SignalOut(TypedDict):
    signal: str
    value: float
    contribution: float
    words: str


@exact
class HitOut(TypedDict):
    id: UUID
    episodeId: UUID
    sessionId: str
    ordinal: int
    role: str
    name: str | None
    text: str
    at: datetime
    score: float | None
    signals: list[SignalOut]


def hit_out(hit: TurnHit) -> HitOut:
    return {
        "id": hit.id,
        "episodeId": hit.episode_id,
        "sessionId": hit.session_id,
        "ordinal": hit.ordinal,
        "role": hit.role.value,
        "name": hit.name,
        "text": hit.text,
        "at": hit.at,
        "score": hit.score,
        "signals": signals_out(hit.signals),
    }


@exact
class SnippetOut(TypedDict):
    episodeId: UUID
    sessionId: str
    summary: str
    keyFacts: list[str]
    date: datetime
    relevanceScore: float | None
    isArchived: bool
    turns: list[HitOut]
    signals: list[SignalOut]


def snippet_out(snippet: EpisodeSnippet) -> SnippetOut:
    return {
        "episodeId": snippet.episode_id,
        "sessionId": snippet.session_id,
        "summary": snippet.summary,
        "keyFacts": list(snippet.key_facts),
        "date": snippet.date,
        "relevanceScore": snippet.relevance,
        "isArchived": snippet.is_archived,
        "turns": [hit_out(hit) for hit in snippet.turns],
        "signals": signals_out(snippet.signals),
    }


def signals_out(signals: Iterable[SignalShare]) -> list[SignalOut]:
    return [
        {
            "signal": each.signal,
            "value": each.value,
            "contribution": each.contribution,
            "words": each.words,
        }
        for each in signals
    ]


@exact
class SearchOut(TypedDict):
    results: list[SnippetOut]


@exact
class TurnSearchOut(TypedDict):
    results: list[HitOut]


@exact
class SessionOut(TypedDict):
    id: str
    agentId: str
    userId: str
    status: str
    metadata: dict[str, Any]
    createdAt: datetime
    lastSeenAt: datetime


def session_out(session: Session) -> SessionOut:
    return {
        "id": session.id,
        "agentId": session.scope.agent,
        "userId": session.scope.user,
        "status": session.status.value,
        "metadata": dict(session.metadata),
        "createdAt": session.created_at,
        "lastSeenAt": session.last_seen_at,
    }


@exact
class SessionDetail(SessionOut):
    episodes: list[EpisodeDetail]


def session_detail(replay: SessionReplay) -> SessionDetail:
    return {
        **session_out(replay.session),
        "episodes": [episode_detail(each) for each in replay.episodes],
    }
