"""Lists of tenants and users: what an operator needs of a store to find anybody."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING

from ..domain.episode import Scope

if TYPE_CHECKING:
    from ..domain.overview import ScopeSearch, TenantOverview

MOST_READ = 200_000
"""Scopes that one call of `people` reads at most."""


class Overview(ABC):
    """The part of a store that lists who it knows."""

    @abstractmethod
    def tenants(self, *, after: str | None = None, limit: int) -> list[TenantOverview]:
        """Tenants that have a scope, by name, those above `after`."""

    @abstractmethod
    def agents(self, tenant: str) -> list[str]:
        """Agents that remember anything of a tenant's users, by name."""

    @abstractmethod
    def people(
        self,
        tenant: str,
        *,
        starts: str = "",
        contains: str = "",
        agents: Collection[str] | None = None,
        user: str | None = None,
        after: Scope | None = None,
        limit: int,
        most_read: int = MOST_READ,
    ) -> ScopeSearch:
        """Scopes of a tenant with their counts, by user and agent, those above `after`.

        Of users whose id begins with `starts`, of these agents and this user only, and of users or
        agents whose id contains `contains` in any case, where they are given. Reads at most
        `most_read` scopes, so that a call is bounded however large the tenant is; `reached` says
        where to continue.
        """
