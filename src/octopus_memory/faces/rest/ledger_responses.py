"""The ledger as the service answers with it, in camelCase."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from typing_extensions import TypedDict

from ...domain.ledger import EpisodeUses, Injected, InjectedKind, Injection
from .responses import exact


@exact
class InjectedOut(TypedDict):
    what: InjectedKind
    rank: int
    score: float | None
    reason: str
    episodeId: UUID | None
    ordinal: int | None
    factId: UUID | None
    tokens: int


@exact
class InjectionOut(TypedDict):
    id: UUID
    sessionId: str
    at: datetime
    episodeId: UUID | None
    ordinal: int | None
    shown: list[InjectedOut]
    cut: list[InjectedOut]
    leftOut: int
    budgetTokens: int
    blockTokens: int
    blockHash: str
    query: str | None


@exact
class InjectionItems(TypedDict):
    items: list[InjectionOut]


@exact
class UseOut(TypedDict):
    injectionId: UUID
    sessionId: str
    at: datetime
    items: int


@exact
class UsesOut(TypedDict):
    episodeId: UUID
    times: int
    cut: int
    last: datetime | None
    recent: list[UseOut]


def injection_out(entry: Injection) -> InjectionOut:
    return {
        "id": entry.id,
        "sessionId": entry.session_id,
        "at": entry.at,
        "episodeId": entry.episode_id,
        "ordinal": entry.ordinal,
        "shown": [_item_out(item) for item in entry.shown],
        "cut": [_item_out(item) for item in entry.cut],
        "leftOut": entry.left_out,
        "budgetTokens": entry.budget_tokens,
        "blockTokens": entry.block_tokens,
        "blockHash": entry.block_hash,
        "query": entry.query,
    }


def _item_out(item: Injected) -> InjectedOut:
    return {
        "what": item.kind,
        "rank": item.rank,
        "score": item.score,
        "reason": item.reason,
        "episodeId": item.episode_id,
        "ordinal": item.ordinal,
        "factId": item.fact_id,
        "tokens": item.tokens,
    }


def uses_out(uses: EpisodeUses) -> UsesOut:
    return {
        "episodeId": uses.episode_id,
        "times": uses.times,
        "cut": uses.cut,
        "last": uses.last,
        "recent": [
            {
                "injectionId": use.injection_id,
                "sessionId": use.session_id,
                "at": use.at,
                "items": use.items,
            }
            for use in uses.recent
        ],
    }
