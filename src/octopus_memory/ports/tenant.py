"""Reading across the scopes of one tenant: what its administrator may ask for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from uuid import UUID

from ..domain.episode import Episode, Scope


class TenantReads(ABC):
    """The part of a store that sees a tenant whole, and nothing outside it."""

    @abstractmethod
    def locate(
        self, tenant: str, episode_id: UUID, *, include_deleted: bool = False
    ) -> Scope | None:
        """The scope that an episode is in; None where the tenant has no such episode."""

    @abstractmethod
    def tenant_episodes(
        self,
        tenant: str,
        *,
        agents: Collection[str] | None = None,
        user: str | None = None,
        include_archived: bool = True,
        offset: int,
        limit: int,
    ) -> tuple[list[Episode], int]:
        """A page, newest first by end (open ones before all others), and how many there are.

        Of these agents and this user only, where they are given.
        """
