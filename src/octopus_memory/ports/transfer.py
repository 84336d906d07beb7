"""Taking everything of a user out of a store, and bringing it into one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.episode import Scope, Session, Turn

if TYPE_CHECKING:
    from ..domain.transfer.export_format import KeptEpisode
    from .carried import Brought


class Portable(ABC):
    """The part of a store that exports and imports."""

    @abstractmethod
    def kept_sessions(self, scope: Scope, *, after: str | None = None, limit: int) -> list[Session]:
        """The sessions that have an episode which is not deleted, by id, those above `after`."""

    @abstractmethod
    def kept_episodes(
        self,
        scope: Scope,
        session_id: str,
        *,
        after: tuple[datetime, UUID] | None = None,
        limit: int,
    ) -> list[KeptEpisode]:
        """A session's episodes that are not deleted, by start and id, those above `after`."""

    @abstractmethod
    def kept_turns(
        self, scope: Scope, episode_id: UUID, *, start: int = 0, limit: int
    ) -> tuple[KeptEpisode | None, list[Turn]]:
        """An episode that is not deleted, and its turns from ordinal `start`, as they are together.

        Those of a cold archive too. Fewer than `limit` where they are large, but one at the least
        while there are any. None where there is no such episode in the scope.
        """

    @abstractmethod
    def holders(self, episode_ids: Sequence[UUID]) -> dict[UUID, Scope]:
        """Whose these episodes are, deleted or not, of every tenant; unknown ones are left out."""

    @abstractmethod
    def bring(self, brought: Brought) -> bool:
        """Make an episode with its turns as they are, in one transaction.

        Ids, ordinals, times, counts, stage and the age that retention counts are kept. What is
        active becomes findable at once and waits for its vectors; of an archived episode, its
        summary does. Turns of a cold archive go there. False, and nothing done, where the scope
        has an episode of that id, deleted or not.

        :raises EpisodeChanged: when it is open, and its session has another that is
        """

    def is_being_filled(self) -> bool:
        """Whether a move into this database is not finished: nobody may use it until then."""
        return False
