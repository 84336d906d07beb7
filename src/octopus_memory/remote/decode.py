"""Decodes the service's responses into the values that the embedded memory returns."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from ..domain.block.passages import LeftOut, LeftOutReason, Passage
from ..domain.context import MemoryContext, QuestionKind
from ..domain.episode import (
    EndReason,
    Episode,
    EpisodeSnippet,
    Page,
    Scope,
    Session,
    SessionStatus,
    SignalShare,
    Turn,
    TurnHit,
)
from ..domain.erasure import EraseReceipt
from ..domain.facts import Fact, FactKind, FactOrigin
from ..domain.forget import ForgetItem, ForgetPreview
from ..domain.message import Message, Role
from ..domain.replay import EpisodeReplay, SessionReplay
from .problems import not_ours

Body = Mapping[str, Any]
P = ParamSpec("P")
T = TypeVar("T")


def read(decode: Callable[P, T]) -> Callable[P, T]:
    """Turn decoding errors into `StoreUnavailable`, because they are not the caller's fault."""

    @functools.wraps(decode)
    def checked(*args: P.args, **named: P.kwargs) -> T:
        try:
            return decode(*args, **named)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise not_ours() from error

    return checked


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _maybe(text: str | None) -> datetime | None:
    return None if text is None else moment(text)


@read
def episode(body: Body, tenant: str) -> Episode:
    return Episode(
        id=UUID(body["id"]),
        scope=Scope(tenant=tenant, agent=body["agentId"], user=body["userId"]),
        session_id=body["sessionId"],
        started_at=moment(body["startedAt"]),
        last_message_at=moment(body["lastMessageAt"]),
        ended_at=_maybe(body["endedAt"]),
        end_reason=EndReason(body["endReason"]) if body["endReason"] else None,
        message_count=body["messageCount"],
        input_tokens=body["inputTokens"],
        output_tokens=body["outputTokens"],
        summary=body["summary"],
        key_facts=tuple(body["keyFacts"]),
        summarized_by=body["summarizedBy"],
        is_archived=body["isArchived"],
        archived_at=_maybe(body["archivedAt"]),
        is_cold=body["canRestore"],
        # An older service lacks the field.
        metadata=body.get("metadata") or {},
    )


def turn(body: Body, message: Message) -> Turn:
    return Turn(
        id=UUID(body["id"]),
        episode_id=UUID(body["episodeId"]),
        session_id=body["sessionId"],
        ordinal=body["ordinal"],
        message=Message(body["message"]) if body.get("message") is not None else message,
        tokens=body["tokens"],
        at=moment(body["at"]),
        has_pii=body["hasPii"],
        embedding_ref=body.get("embeddingRef"),
        # An older service lacks the field.
        indexed=body.get("indexed", True),
    )


@read
def stored(body: Body, sent: Sequence[Message]) -> list[Turn]:
    turns = body["turns"]
    # If some messages were skipped, each turn carries its own.
    given = sent if len(sent) == len(turns) else [Message({})] * len(turns)
    return [turn(each, message) for each, message in zip(turns, given, strict=True)]


@read
def turns(body: Body) -> list[Turn]:
    return [turn(each, Message({})) for each in body["turns"]]


@read
def episodes(body: Body, tenant: str) -> list[Episode]:
    return [episode(each, tenant) for each in body["items"]]


@read
def page(body: Body, tenant: str) -> Page[Episode]:
    return Page(
        items=tuple(episodes(body, tenant)),
        total_count=body["totalCount"],
        page=body["page"],
        page_size=body["pageSize"],
    )


@read
def replay(body: Body, tenant: str) -> EpisodeReplay:
    empty = Message({})
    turns = tuple(turn(each, empty) for each in body["messages"] or ())
    return EpisodeReplay(episode=episode(body, tenant), turns=turns)


@read
def session(body: Body, tenant: str) -> Session:
    return Session(
        id=body["id"],
        scope=Scope(tenant=tenant, agent=body["agentId"], user=body["userId"]),
        status=SessionStatus(body["status"]),
        metadata=body["metadata"],
        created_at=moment(body["createdAt"]),
        last_seen_at=moment(body["lastSeenAt"]),
    )


@read
def session_page(body: Body, tenant: str) -> Page[Session]:
    return Page(
        items=tuple(session(each, tenant) for each in body["items"]),
        total_count=body["totalCount"],
        page=body["page"],
        page_size=body["pageSize"],
    )


@read
@read
def session_replay(body: Body, tenant: str) -> SessionReplay:
    return SessionReplay(
        session=session(body, tenant),
        episodes=tuple(replay(each, tenant) for each in body["episodes"]),
    )


@read
def snippets(body: Body) -> list[EpisodeSnippet]:
    return [snippet(each) for each in body["results"]]


@read
def hits(body: Body) -> list[TurnHit]:
    return [hit(each) for each in body["results"]]


@read
def facts(body: Body) -> list[Fact]:
    return [fact(each) for each in body["items"]]


@read
def fact(body: Body) -> Fact:
    return Fact(
        id=UUID(body["id"]),
        kind=FactKind(body["kind"]),
        text=body["text"],
        slot=body["slot"],
        since=moment(body["since"]),
        until=_maybe(body["until"]),
        replaces=_maybe_id(body["replaces"]),
        episode_id=_maybe_id(body["episodeId"]),
        turn_id=_maybe_id(body["turnId"]),
        ordinal=body["ordinal"],
        origin=FactOrigin(body["origin"]),
        is_pinned=body["isPinned"],
        ends=body["ends"],
    )


def _maybe_id(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)


@read
def receipt(body: Body) -> EraseReceipt:
    return EraseReceipt.from_dict(body)


@read
def forget_preview(body: Body) -> ForgetPreview:
    return ForgetPreview(
        token=body["token"],
        expires_at=moment(body["expiresAt"]),
        is_clear=body["isClear"],
        items=tuple(map(_forget_item, body["items"])),
        related=tuple(map(_forget_item, body["related"])),
    )


def _forget_item(body: Body) -> ForgetItem:
    return ForgetItem(
        what=body["what"],
        text=body["text"],
        date=moment(body["date"]),
        reason=body["reason"],
        episode_id=_maybe_id(body["episodeId"]),
        session_id=body["sessionId"],
        turn_id=_maybe_id(body["turnId"]),
        fact_id=_maybe_id(body["factId"]),
        role=body["role"],
    )


def snippet(body: Body) -> EpisodeSnippet:
    return EpisodeSnippet(
        episode_id=UUID(body["episodeId"]),
        session_id=body["sessionId"],
        date=moment(body["date"]),
        summary=body["summary"],
        key_facts=tuple(body["keyFacts"]),
        relevance=body["relevanceScore"],
        is_archived=body["isArchived"],
        turns=tuple(hit(each) for each in body["turns"]),
        signals=_signals(body["signals"]),
    )


def hit(body: Body) -> TurnHit:
    return TurnHit(
        id=UUID(body["id"]),
        episode_id=UUID(body["episodeId"]),
        session_id=body["sessionId"],
        ordinal=body["ordinal"],
        role=Role(body["role"]),
        text=body["text"],
        at=moment(body["at"]),
        score=body["score"],
        name=body["name"],
        # An older service does not send it.
        message=Message(body["message"]) if body.get("message") else None,
        signals=_signals(body["signals"]),
    )


def _signals(bodies: Sequence[Body]) -> tuple[SignalShare, ...]:
    return tuple(SignalShare(**each) for each in bodies)


@read
def context(body: Body) -> MemoryContext:
    return MemoryContext(
        text=body["text"],
        messages=body["messages"],
        snippets=tuple(snippet(each) for each in body["snippets"]),
        passages=tuple(_passage(each) for each in body["passages"]),
        facts=tuple(fact(each) for each in body["facts"]),
        left_out=tuple(_left_out(each) for each in body["leftOut"]),
        tokens=body["tokens"],
        block_tokens=body["blockTokens"],
        dropped=body["dropped"],
        # An older service lacks these fields.
        overflow_tokens=body.get("overflowTokens", 0),
        kind=QuestionKind(body.get("kind", QuestionKind.POINT)),
    )


def _passage(body: Body) -> Passage:
    return Passage(
        text=body["text"],
        speaker=body["speaker"],
        asked=body["asked"],
        asked_by=body["askedBy"],
        turn_ids=tuple(map(UUID, body["turnIds"])),
        episode_id=UUID(body["episodeId"]),
        session_id=body["sessionId"],
        ordinal=body["ordinal"],
        at=moment(body["at"]),
        score=body["score"],
        tokens=body["tokens"],
        is_archived=body["isArchived"],
        signals=_signals(body["signals"]),
    )


def _left_out(body: Body) -> LeftOut:
    return LeftOut(
        what=body["what"],
        reason=LeftOutReason(body["reason"]),
        episode_id=_maybe_id(body["episodeId"]),
        turn_id=_maybe_id(body["turnId"]),
        fact_id=_maybe_id(body["factId"]),
        score=body["score"],
        tokens=body["tokens"],
    )
