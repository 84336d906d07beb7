"""How much a store holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .work import Backlog, WorkKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """Counts over the whole database."""

    product: str
    schema: str
    size_bytes: int | None
    tenants: int
    scopes: int
    sessions: int
    episodes: int
    open_episodes: int
    turns: int
    facts: int = 0
    vectors: Mapping[str, int] = field(default_factory=dict)
    """How many vectors of each model."""
    backlog: Mapping[WorkKind, Backlog] = field(default_factory=dict)
