"""Removing single turns of a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft
    from .values import NewSummary, StoredEpisode


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRemoval:
    """The turns to remove from one episode."""

    was: StoredEpisode
    """The episode as the caller read it."""
    ids: frozenset[UUID]
    """Ids of turns of `was`, at least one."""
    summary: NewSummary | None = None
    """The summary of the remaining turns, for a closed episode.

    None removes the summary, because no turn remains to make one of. An open episode has no summary
    and takes none. The ordinals of its facts are the new ones.
    """


class TurnRemovals(ABC):
    """Removing turns while their episode stays."""

    @abstractmethod
    def remove_turns(
        self, removals: Sequence[TurnRemoval], *, now: datetime, entry: AuditDraft | None = None
    ) -> None:
        """Remove turns of one or more episodes of one scope, in one transaction.

        The remaining turns are renumbered from 0, and keep their ids, times and vectors. Recall
        rows, work and facts of the removed turns go with them, pinned and deleted facts too; a
        `Removal` tells the mirror. An idempotency key that stored removed turns stands for the
        remaining ones. Counts of messages and tokens decrease. It counts as a removal, because the
        files hold the old bytes until they are rewritten.

        :raises EpisodeChanged: when an episode or its turns are not as in `was` any more, or were
            rewritten since the summary was made
        :raises EpisodeNotFound: when an episode is gone or deleted
        :raises LegalHold: when a hold applies to an episode or to its user
        :raises SettingsChanged: as `EpisodeLog.append`, by the summary's `settings`
        """
