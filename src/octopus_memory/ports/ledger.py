"""The ledger of injections: what the engine needs of a store to keep it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.episode import Scope

if TYPE_CHECKING:
    from ..domain.ledger import EpisodeUses, Injection


class Ledger(ABC):
    """The part of a store that keeps which memories were shown for which turn.

    Items go with their episode: a purge or an erasure of the episode removes them from every
    entry. An entry goes with the episode of the turn that it was made for, with its session when
    that loses its last episode, and with its scope. Nothing here bumps a scope's version, because
    recall reads none of it.
    """

    @abstractmethod
    def record_injections(self, tenant: str, entries: Sequence[tuple[Scope, Injection]]) -> int:
        """Store entries of one tenant in one transaction; returns how many were stored.

        Passed over are entries of a scope that does not exist (it was erased since, or never
        had anything to inject), entries whose id is there, and items of episodes that are not in
        the scope.
        """

    @abstractmethod
    def injections(
        self,
        scope: Scope,
        *,
        session_id: str | None = None,
        after: UUID | None = None,
        limit: int,
    ) -> list[Injection]:
        """Entries of a session, or of the whole scope, by id, those above `after`.

        Items of deleted episodes are left out. `episode_id` and `ordinal` say the first turn of
        the session with a higher id, where there is one.
        """

    @abstractmethod
    def episode_uses(self, scope: Scope, episode_id: UUID, *, limit: int) -> EpisodeUses:
        """How often an episode was shown, when last, and in which `limit` newest entries.

        An episode that is unknown or deleted was never shown.
        """

    @abstractmethod
    def rewrite_queries(self, scope: Scope, queries: Mapping[UUID, str]) -> None:
        """Replace the queries of entries; those that are gone are passed over.

        It counts in `removals_made`, because the files have the old text until they are rewritten.
        """
