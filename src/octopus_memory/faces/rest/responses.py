"""Bodies of responses, in camelCase.

Typed dictionaries: the OpenAPI page is made from them, and they are written as JSON as they are.
Models would validate every value again, although the values come from Octopus itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from ...domain.block.passages import LeftOut, LeftOutReason, Passage
from ...domain.context import MemoryContext
from ...domain.episode import (
    EndReason,
    Episode,
    EpisodeSnippet,
    Session,
    SignalShare,
    Turn,
    TurnHit,
)
from ...domain.facts import Fact, FactKind, FactOrigin
from ...domain.replay import EpisodeReplay, SessionReplay

# pydantic reads the TypedDict of the standard library only from Python 3.12 on.


exact = with_config(ConfigDict(extra="forbid"))
"""Forbid fields other than those of the class."""


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
    metadata: dict[str, Any]


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
        "metadata": dict(episode.metadata) if content else {},
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
    indexed: bool


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
        "indexed": turn.indexed,
    }


@exact
class StoredOut(TypedDict):
    """A stored turn. Its message is null if it is stored as it was sent.

    Where fewer turns are given than messages were sent, every turn has its message.
    """

    id: UUID
    episodeId: UUID
    sessionId: str
    ordinal: int
    tokens: int
    at: datetime
    hasPii: bool
    indexed: bool
    message: dict[str, Any] | None


@exact
class AddedOut(TypedDict):
    turns: list[StoredOut]


def added_out(turns: list[Turn], sent: list[dict[str, Any]]) -> AddedOut:
    """Name the turns that a call stored, or an earlier call with the same key did."""
    if len(turns) != len(sent):
        return {"turns": [_stored(turn, None) for turn in turns]}
    return {"turns": [_stored(turn, body) for turn, body in zip(turns, sent, strict=True)]}


@exact
class TurnItems(TypedDict):
    turns: list[TurnOut]


def turn_items(turns: list[Turn]) -> TurnItems:
    return {"turns": [turn_out(turn) for turn in turns]}


def _stored(turn: Turn, sent: dict[str, Any] | None) -> StoredOut:
    body = turn.message.body
    return {
        "id": turn.id,
        "episodeId": turn.episode_id,
        "sessionId": turn.session_id,
        "ordinal": turn.ordinal,
        "tokens": turn.tokens,
        "at": turn.at,
        "hasPii": turn.has_pii,
        "indexed": turn.indexed,
        "message": None if body == sent else dict(body),
    }


@exact
class EpisodeDetail(EpisodeOut):
    """An episode with its messages: null if it is archived, or if the caller may not read them."""

    messages: list[TurnOut] | None


def episode_detail(replay: EpisodeReplay, *, content: bool = True) -> EpisodeDetail:
    hidden = replay.episode.is_archived or not content
    return {
        **episode_out(replay.episode, content=content),
        "messages": None if hidden else [turn_out(turn) for turn in replay.turns],
    }


@exact
class FlushedOut(TypedDict):
    done: bool


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
    message: dict[str, Any] | None
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
        "message": None if hit.message is None else dict(hit.message.body),
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
class SessionList(TypedDict):
    items: list[SessionOut]
    totalCount: int
    page: int
    pageSize: int


@exact
class SessionDetail(SessionOut):
    episodes: list[EpisodeDetail]


def session_detail(replay: SessionReplay) -> SessionDetail:
    return {
        **session_out(replay.session),
        "episodes": [episode_detail(each) for each in replay.episodes],
    }


@exact
class FactOut(TypedDict):
    id: UUID
    kind: FactKind
    text: str
    slot: str
    since: datetime
    until: datetime | None
    replaces: UUID | None
    episodeId: UUID | None
    turnId: UUID | None
    ordinal: int | None
    origin: FactOrigin
    isPinned: bool
    ends: bool


@exact
class FactItems(TypedDict):
    items: list[FactOut]


def fact_out(fact: Fact) -> FactOut:
    return {
        "id": fact.id,
        "kind": fact.kind,
        "text": fact.text,
        "slot": fact.slot,
        "since": fact.since,
        "until": fact.until,
        "replaces": fact.replaces,
        "episodeId": fact.episode_id,
        "turnId": fact.turn_id,
        "ordinal": fact.ordinal,
        "origin": fact.origin,
        "isPinned": fact.is_pinned,
        "ends": fact.ends,
    }


@exact
class PassageOut(TypedDict):
    text: str
    speaker: str
    asked: str
    askedBy: str
    turnIds: list[UUID]
    episodeId: UUID
    sessionId: str
    ordinal: int
    at: datetime
    score: float
    tokens: int
    isArchived: bool
    signals: list[SignalOut]


@exact
class LeftOutOut(TypedDict):
    what: str
    reason: LeftOutReason
    episodeId: UUID | None
    turnId: UUID | None
    factId: UUID | None
    score: float | None
    tokens: int


@exact
class ContextOut(TypedDict):
    text: str
    messages: list[dict[str, Any]]
    snippets: list[SnippetOut]
    passages: list[PassageOut]
    facts: list[FactOut]
    leftOut: list[LeftOutOut]
    tokens: int
    blockTokens: int
    dropped: int
    overflowTokens: int
    kind: str


def context_out(context: MemoryContext) -> ContextOut:
    return {
        "text": context.text,
        "messages": context.messages,
        "snippets": [snippet_out(snippet) for snippet in context.snippets],
        "passages": [_passage_out(passage) for passage in context.passages],
        "facts": [fact_out(fact) for fact in context.facts],
        "leftOut": [_left_out(each) for each in context.left_out],
        "tokens": context.tokens,
        "blockTokens": context.block_tokens,
        "dropped": context.dropped,
        "overflowTokens": context.overflow_tokens,
        "kind": context.kind,
    }


def _passage_out(passage: Passage) -> PassageOut:
    return {
        "text": passage.text,
        "speaker": passage.speaker,
        "asked": passage.asked,
        "askedBy": passage.asked_by,
        "turnIds": list(passage.turn_ids),
        "episodeId": passage.episode_id,
        "sessionId": passage.session_id,
        "ordinal": passage.ordinal,
        "at": passage.at,
        "score": passage.score,
        "tokens": passage.tokens,
        "isArchived": passage.is_archived,
        "signals": signals_out(passage.signals),
    }


def _left_out(each: LeftOut) -> LeftOutOut:
    return {
        "what": each.what,
        "reason": each.reason,
        "episodeId": each.episode_id,
        "turnId": each.turn_id,
        "factId": each.fact_id,
        "score": each.score,
        "tokens": each.tokens,
    }
