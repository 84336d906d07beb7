"""Counts by tenant and by scope, for the operator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .episode import Scope, TurnHit


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantOverview:
    """A tenant, and how many users with an agent each it has."""

    tenant: str
    scopes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeOverview:
    """Counts of one user with one agent. Deleted episodes are not among them."""

    scope: Scope
    episodes: int = 0
    open_episodes: int = 0
    archived_episodes: int = 0
    messages: int = 0
    tokens: int = 0
    """Tokens of the messages, as counted when they were stored."""
    facts: int = 0
    last_message_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeSearch:
    """A page of a search over the ids of users and agents."""

    found: tuple[ScopeOverview, ...]
    reached: Scope | None
    """Scope to continue after; None if the search read the whole tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSearch:
    """Turns that a search across users found, the most relevant first."""

    found: tuple[tuple[Scope, TurnHit], ...]
    searched: int
    """Number of users with an agent each that were searched."""
    reached: Scope | None
    """Scope to continue after; None if the search reached the tenant's last."""
