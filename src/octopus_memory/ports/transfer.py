"""Export and import: reading a user's episodes whole, and storing them elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.episode import Scope, Session, Turn

if TYPE_CHECKING:
    from ..domain.facts import Fact
    from ..domain.transfer.export_format import EpisodeRecord
    from .values import ImportedEpisode, MessageKeys


class Transfer(ABC):
    """Whole episodes on their way out of a store or into it."""

    @abstractmethod
    def sessions(
        self, scope: Scope, *, deleted: bool = False, after: str | None = None, limit: int
    ) -> list[Session]:
        """The scope's sessions by id, those above `after`.

        Without `deleted`, only sessions with an episode that is not deleted.
        """

    @abstractmethod
    def episode_page(
        self, scope: Scope, episode_id: UUID, *, start: int = 0, limit: int
    ) -> tuple[EpisodeRecord | None, list[Turn]]:
        """An episode that is not deleted, and its turns from ordinal `start`, in one snapshot.

        Includes the turns of a cold archive. A page ends before `limit` if its turns are large, but
        has at least one turn while there are any. None if the scope has no such episode.
        """

    @abstractmethod
    def import_episode(self, imported: ImportedEpisode) -> bool:
        """Store an episode with its turns, in one transaction.

        Keeps ids, ordinals, times, counts, stage and the age that retention counts. The turns of an
        active episode are indexed at once and wait for their vectors; of an archived episode, the
        summary is. The turns of a cold archive go to the archive. Returns False, and does nothing,
        if the scope has an episode of that id, deleted or not.

        :raises EpisodeChanged: when it is open, and its session has another open episode
        """

    @abstractmethod
    def import_keys(self, scope: Scope, session_id: str, keys: MessageKeys) -> int:
        """Add hashes and their salts to a session; returns how many hashes are new.

        Does nothing and returns 0 if the scope has no such session.
        """

    @abstractmethod
    def episode_facts(self, scope: Scope, episode_id: UUID | None) -> list[Fact]:
        """Every fact of one episode, or for None every fact that a caller gave, by `since` and id.

        Includes deleted facts whose slot another fact has, because they mean nothing otherwise.
        Empty for a deleted episode.
        """
