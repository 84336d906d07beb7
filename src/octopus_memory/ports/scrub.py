"""Taking personal data out of what is stored already: what that needs of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.episode import Scope
from ..domain.message import Json
from .turns import Placeholder

if TYPE_CHECKING:
    from ..domain.facts import Fact
    from .carried import Rewritten, StoredEpisode
    from .store import NewSummary


class Scrubbing(ABC):
    """The part of a store that changes what was said: for personal data, and for nothing else."""

    @abstractmethod
    def stored_sessions(self, scope: Scope, *, after: str | None = None, limit: int) -> list[str]:
        """The ids of the scope's sessions, in order, those above `after`.

        Also those whose every episode is deleted.
        """

    @abstractmethod
    def stored_episodes(self, scope: Scope, session_id: str) -> list[UUID]:
        """A session's episodes by start and id, deleted or not."""

    @abstractmethod
    def stored_episode(self, scope: Scope, episode_id: UUID) -> StoredEpisode | None:
        """None where there is no such episode in the scope."""

    @abstractmethod
    def rewrite(
        self,
        was: StoredEpisode,
        *,
        turns: Sequence[Rewritten] = (),
        summary: NewSummary | None = None,
        facts: Sequence[Fact] = (),
        metadata: Mapping[str, Json] | None = None,
        placeholders: Sequence[Placeholder] = (),
        now: datetime,
    ) -> None:
        """Replace these turns, the summary, facts and the session's metadata, in one transaction.

        Of `facts`, slot and text are replaced.

        What is not given stays, and so do ids, ordinals, times, counts and stage. Of an active
        episode, recall finds the new turns by their own words at once, and they wait for a new
        vector, as the summary does: of the old ones nothing is left, here or (by a `Removal`) in a
        remote index. Other rows keep their vectors. It counts in `removals_made`, since the files
        have the old text until they are rewritten. With nothing given, nothing happens.

        :raises EpisodeChanged: when the episode is not as in `was` any more, when the metadata that
            is to be replaced is not, or when a number is taken by now
        :raises EpisodeNotFound: when it is gone
        :raises LegalHold: when a hold stands on it, on its user or, if metadata is given, on any
            episode of its session: what is held is kept as it is
        """
