"""Retention: what the nightly run needs of a store, legal holds, and who may run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from ..domain.episode import Episode, Scope
from .turns import Findable

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft
    from ..domain.retention import Aged, Hold, Stage


class Schedule(Protocol):
    """When a job is to run."""

    def next_after(self, moment: datetime) -> datetime:
        """The first time after this one."""


class Lead(ABC):
    """The right to be the only runner of a job, while it lasts."""

    @abstractmethod
    def renew(self) -> bool:
        """Say that the job still runs; False when the right was lost, and the job must stop."""


class Keeping(ABC):
    """The part of a store that retention works on.

    Archiving, deleting and purging are refused while a hold stands. Who gives `since` means the
    episode as `aged` showed it: if it was restored or went on meanwhile, nothing happens to it.
    An `entry` for the audit log is recorded in the same transaction, if anything changed.
    """

    @abstractmethod
    def aged(
        self,
        stage: Stage,
        *,
        before: datetime,
        after: tuple[datetime, UUID] | None = None,
        limit: int,
        held: bool = False,
    ) -> list[Aged]:
        """Ended episodes of every tenant in this stage whose `since` is not after `before`.

        By `since`, then id, those above `after`. Episodes under a hold are left out; with `held`
        they are the only ones.
        """

    @abstractmethod
    def archive(
        self,
        scope: Scope,
        episode_id: UUID,
        *,
        cold: bool = False,
        at: datetime | None = None,
        since: datetime | None = None,
    ) -> Episode:
        """Clear a closed episode's turns, their recall rows and keys; the summary stays findable.

        With `cold` the turns are kept where `stored_episode` reads them. An archived episode cannot
        be resumed; archiving it again changes nothing.

        :raises EpisodeChanged: when its days do not count from `since`
        :raises EpisodeNotFound: when it is not in the scope, is still open, or is deleted
        :raises LegalHold: when a hold stands on it or on its user
        """

    @abstractmethod
    def delete(
        self,
        scope: Scope,
        episode_id: UUID,
        *,
        at: datetime,
        since: datetime | None = None,
        entry: AuditDraft | None = None,
    ) -> None:
        """Mark an ended episode: it is gone from every read and index at once.

        Its turns, summary and idempotency keys stay until `purge`; recall rows and work go. A
        session that has no other episode is gone too. Deleting it again changes nothing.

        :raises EpisodeChanged: when its days do not count from `since`
        :raises EpisodeNotFound: when it is not in the scope, or is still open
        :raises LegalHold: when a hold stands on it or on its user
        """

    @abstractmethod
    def deleted(self, scope: Scope) -> list[Episode]:
        """The episodes that are marked and not yet purged, newest first by end."""

    @abstractmethod
    def restore(
        self,
        scope: Scope,
        episode_id: UUID,
        findable: list[Findable],
        *,
        at: datetime,
        entry: AuditDraft | None = None,
        epoch: int | None = None,
    ) -> Episode:
        """Undo `delete`, and a cold `archive`, giving back what recall finds it by.

        `findable` has one for each turn that `stored_episode` gives, and one for the
        summary, if there is one. Its days count from `at` on. Restoring an active episode changes
        nothing. One that was deleted after it was archived to its summary is archived again.

        :raises EpisodeChanged: when it has other turns than `findable` is for, or text of its scope
            was removed or replaced since the scope's `epoch` was this one
        :raises EpisodeNotFound: when it is not in the scope
        :raises EpisodeArchived: when it is archived, not deleted, and its turns were not kept
        """

    @abstractmethod
    def purge(
        self, scope: Scope, episode_id: UUID, *, since: datetime | None = None
    ) -> dict[str, int]:
        """Remove a deleted episode: rows by place, and its session and scope if nothing is left.

        Nothing happens to an episode that is not deleted, or is not since `since`; what is
        returned is empty then.

        :raises LegalHold: when a hold stands on it or on its user
        """

    @abstractmethod
    def place_hold(self, hold: Hold, *, entry: AuditDraft | None = None) -> None:
        """Placing the same id again changes nothing.

        :raises EpisodeNotFound: when it names an episode that is not its tenant's
        """

    @abstractmethod
    def lift_hold(self, tenant: str, hold_id: UUID, *, entry: AuditDraft | None = None) -> bool:
        """Whether there was one."""

    @abstractmethod
    def holds(self, tenant: str) -> list[Hold]:
        """The tenant's holds, oldest first."""

    @abstractmethod
    def lead(self, job: str, *, owner: str) -> AbstractContextManager[Lead | None]:
        """Be the only runner of a job while the block lasts; None when somebody else is.

        A runner that asks again is somebody else. It ends with the process, at once or when its
        lease does.
        """

    @abstractmethod
    def last_run(self, job: str) -> datetime | None:
        """When the job last ran to its end, by the time it was given then; None if it never did."""

    @abstractmethod
    def set_last_run(self, job: str, at: datetime) -> None: ...
