"""Removing single turns of a session: what that needs of a store."""

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
    """The turns that one episode is to lose."""

    was: StoredEpisode
    """The episode as the caller read it."""
    ids: frozenset[UUID]
    """Ids of turns of `was`, at least one."""
    summary: NewSummary | None = None
    """The summary of the turns that are left, for an episode that has ended.

    None removes the summary, because nothing is left that it could be made of. An episode that is
    open has no summary and takes none. Ordinals of its facts are those that the turns get.
    """


class TurnRemovals(ABC):
    """The part of a store that removes turns and keeps their episode."""

    @abstractmethod
    def remove_turns(
        self, removals: Sequence[TurnRemoval], *, now: datetime, entry: AuditDraft | None = None
    ) -> None:
        """Remove turns of one or more episodes of one scope, in one transaction.

        The turns that are left are numbered anew from 0, and keep their ids, times and vectors.
        Recall rows, work and facts of the removed turns go with them, pinned and deleted facts too,
        and a remote index is told by a `Removal`. An idempotency key that stored some of the
        removed turns stands for those that are left. Counts of messages and tokens go down. It
        counts in `removals_made`, because the files hold the old bytes until they are rewritten.

        :raises EpisodeChanged: when an episode or its turns are not as in `was` any more, or were
            rewritten since the summary was made of them
        :raises EpisodeNotFound: when an episode is gone or deleted
        :raises LegalHold: when a hold stands on an episode or on its user
        :raises SettingsChanged: as `EpisodeStore.append`, by the summary's `settings`
        """
