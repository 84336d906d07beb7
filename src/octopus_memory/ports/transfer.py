"""Export and import: reading a user's episodes whole, and storing them elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ..domain.episode import Scope, Session

if TYPE_CHECKING:
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
