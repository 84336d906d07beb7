"""Retention: the stages of an episode, legal holds, and the lead of a job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from ..domain.episode import Episode, Scope
from .values import IndexEntry

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft
    from ..domain.retention import Aged, Hold, Stage


class Schedule(Protocol):
    """The times at which a job runs."""

    def next_after(self, moment: datetime) -> datetime:
        """The first time after this one."""


class Lead(ABC):
    """The exclusive right to run a job, for as long as it is renewed."""

    @abstractmethod
    def renew(self) -> bool:
        """Extend the lead; False when it was lost, so that the job must stop."""


class Lifecycle(ABC):
    """The stages of an episode: active, archived, deleted, purged.

    A legal hold refuses archiving, deleting and purging. A caller that passes `since` means the
    episode as `aged` returned it: if it was restored or resumed since, nothing happens. An `entry`
    for the audit log is recorded in the same transaction, if anything changed.
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

        By `since`, then id, those above `after`. Leaves out episodes under a hold; with `held`,
        returns only those.
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
        """Remove a closed episode's turns, their recall rows and keys; the summary stays indexed.

        With `cold` the turns move to the archive, where `stored_episode` reads them. An archived
        episode cannot be resumed. Idempotent.

        :raises EpisodeChanged: when its age does not count from `since`
        :raises EpisodeNotFound: when it is not in the scope, is still open, or is deleted
        :raises LegalHold: when a hold applies to it or to its user
        """

    @abstractmethod
    def delete(
        self,
        scope: Scope,
        episode_id: UUID,
        *,
        at: datetime,
        since: datetime | None = None,
        keep_facts: Collection[UUID] = (),
        entry: AuditDraft | None = None,
    ) -> None:
        """Mark an ended episode as deleted: no read and no index finds it from then on.

        Its turns, summary and idempotency keys stay until `purge`; recall rows and work go. Reads
        do not find a session whose episodes are all deleted. Its pinned facts and those of
        `keep_facts` lose their source and stay; the others share its fate. Idempotent.

        :raises EpisodeChanged: when its age does not count from `since`
        :raises EpisodeNotFound: when it is not in the scope, or is still open
        :raises LegalHold: when a hold applies to it or to its user
        """

    @abstractmethod
    def restore(
        self,
        scope: Scope,
        episode_id: UUID,
        entries: list[IndexEntry],
        *,
        at: datetime,
        entry: AuditDraft | None = None,
        epoch: int | None = None,
    ) -> Episode:
        """Undo `delete`, and a cold `archive`, and index the episode again.

        `entries` has one entry for each turn of `stored_episode`, and one for the summary if there
        is one. The episode's age counts from `at`. Restoring an active episode changes nothing. An
        episode that was deleted after it was archived to its summary is archived again.

        :raises EpisodeChanged: when `entries` do not match the episode's turns, or text of its
            scope was removed or replaced since `epoch`
        :raises EpisodeNotFound: when it is not in the scope
        :raises EpisodeArchived: when it is archived, not deleted, and its turns were not kept
        """

    @abstractmethod
    def purge(
        self, scope: Scope, episode_id: UUID, *, since: datetime | None = None
    ) -> dict[str, int]:
        """Remove a deleted episode for good, and its session and scope if they are empty then.

        Facts that were kept of earlier episodes go with the scope's last episode, unless they are
        pinned or a caller gave them.

        Returns the number of rows by table. Does nothing, and returns an empty mapping, if the
        episode is not deleted, or not since `since`.

        :raises LegalHold: when a hold applies to it or to its user
        """

    @abstractmethod
    def place_hold(self, hold: Hold, *, entry: AuditDraft | None = None) -> None:
        """Place a hold; placing the same id again changes nothing.

        :raises EpisodeNotFound: when it names an episode that is not its tenant's
        """

    @abstractmethod
    def lift_hold(self, tenant: str, hold_id: UUID, *, entry: AuditDraft | None = None) -> bool:
        """Remove a hold; False if there was none."""

    @abstractmethod
    def holds(self, tenant: str) -> list[Hold]:
        """The tenant's holds, oldest first."""

    @abstractmethod
    def lead(self, job: str, *, worker_id: str) -> AbstractContextManager[Lead | None]:
        """Lead a job while the `with` block lasts; None when another process or thread leads it.

        A worker that asks twice competes with itself. If the process dies, its lead ends at once or
        with its lease.
        """

    @abstractmethod
    def last_run(self, job: str) -> datetime | None:
        """The time of `set_last_run`; None before the first."""

    @abstractmethod
    def set_last_run(self, job: str, at: datetime) -> None:
        """Record that a run of the job is complete."""
