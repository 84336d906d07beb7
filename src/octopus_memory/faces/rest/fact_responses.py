"""Standing facts as the service answers with them, in camelCase."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from typing_extensions import TypedDict

from ...domain.facts import Fact, FactKind, FactOrigin
from .responses import exact


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
