"""The ledger of injections: the memories that were shown for each turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.episode import Scope

if TYPE_CHECKING:
    from ..domain.ledger import EpisodeUses, Injection


class Ledger(ABC):
    """Entries and their items.

    A purge or an erasure of an episode removes its items from every entry. An entry is removed with
    the episode of its turn, with its session when that loses its last episode, and with its scope.
    Writes do not bump the scope's version, because recall does not read the ledger.
    """

    @abstractmethod
    def record_injections(self, tenant: str, entries: Sequence[tuple[Scope, Injection]]) -> int:
        """Store entries of one tenant in one transaction; returns how many were stored.

        Skips entries of a scope that does not exist (erased since, or without anything to inject),
        entries whose id is stored already, and items of episodes that are not in the scope.
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

        Leaves out items of deleted episodes. `episode_id` and `ordinal` name the first turn of the
        session with a higher id, if there is one.
        """

    @abstractmethod
    def episode_uses(self, scope: Scope, episode_id: UUID, *, limit: int) -> EpisodeUses:
        """The number of times an episode was shown, the last time, and the `limit` newest entries.

        An unknown or deleted episode was never shown.
        """
