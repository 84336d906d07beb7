"""A context as the service answers with it, in camelCase."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from typing_extensions import TypedDict

from ...domain.block.passages import LeftOut, LeftOutReason, Passage
from ...domain.context import MemoryContext
from .fact_responses import FactOut, fact_out
from .responses import SignalOut, SnippetOut, exact, signals_out, snippet_out


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
