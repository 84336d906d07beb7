"""What a store does to forget: retention, holds, erasure, scrubbing, and their audit log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from ..domain.episode import Episode, Scope
from ..domain.message import Json
from .values import IndexEntry, NewSummary, Placeholder, RewrittenTurn, StoredEpisode

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft, AuditEntry, AuditHead
    from ..domain.erasure import ErasedCopies, Erasure, FileSearch, Subject
    from ..domain.facts import Fact
    from ..domain.forget import Chosen
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

    @abstractmethod
    def ran(self, at: datetime) -> None:
        """Record that a run of the job is complete."""


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
        """The time that the last `Lead.ran` recorded; None before the first."""


class Trace(ABC):
    """Samples of a subject's stored bytes, to search the files for after an erasure."""

    @abstractmethod
    def search(self) -> FileSearch:
        """Search every byte of the store's files."""


class Erasures(ABC):
    """Erasures and their receipts."""

    @abstractmethod
    def erase(self, subject: Subject, erasure: Erasure, entry: AuditDraft) -> Erasure:
        """Remove every row of the subject, in one transaction, and record the erasure.

        That is: turns, archived turns, recall rows, work, idempotency keys, placeholders, facts,
        episodes, sessions, scopes and a user's API keys. With a mirror, it queues a `Removal`. The
        erasure is stored as unfinished and returned with its counts and scopes; `entry` is recorded
        with the counts. An unknown subject gives an erasure of no rows.

        Where scopes have keys, a whole user or scope takes three steps, so that no copy can be read
        before a row is gone: the erasure is recorded with its keys, they are destroyed, and a
        transaction removes the rows. `shred` finishes one that was interrupted.

        :raises EpisodeNotFound: for an episode that is not in its scope
        :raises LegalHold: when a hold applies to the user or one of the episodes; nothing is erased
        """

    def shred(self, erasure: Erasure) -> tuple[Erasure, ErasedCopies | None]:
        """Destroy the keys of an erasure, and then remove its rows if they are still there.

        `erase` does both: this is for an erasure whose process was killed, or whose key store did
        not answer. A repeated call returns the time of the first. Returns the erasure as it is
        then, and what became of copies; None in a store without keys.

        :raises KeyUnavailable: when the key store does not answer; nothing is changed
        """
        return erasure, None

    def destroy_doomed(self) -> int:
        """Destroy the keys of scopes that were removed without an erasure; returns how many.

        :raises KeyUnavailable: when the key store does not answer
        """
        return 0

    @abstractmethod
    def left_of(self, erasure: Erasure) -> dict[str, int]:
        """The number of rows of the erased subject by table; all zero after `erase`."""

    def waiting_removals(self, erasure: Erasure) -> int:  # noqa: ARG002 - for stores with a mirror
        """The number of removals for the mirror that wait for the scopes of an erasure."""
        return 0

    def trace(self, subject: Subject) -> Trace | None:  # noqa: ARG002 - for stores with files
        """Samples taken before an erasure, to search the files for after it.

        None where this process cannot read the files, because a server has them.
        """
        return None

    @abstractmethod
    def erasures(
        self,
        tenant: str | None = None,
        *,
        erasure_id: UUID | None = None,
        unfinished: bool = False,
        before: UUID | None = None,
        limit: int | None = None,
    ) -> list[Erasure]:
        """Erasures of one tenant or of all with their receipts, newest first by id.

        Only those below `before`, and only the one with `erasure_id`, where they are given. With
        `unfinished`, only those whose receipt is not complete yet.
        """

    @abstractmethod
    def keep_receipt(
        self, erasure: Erasure, receipt: Mapping[str, Json], entry: AuditDraft, *, finished: bool
    ) -> bool:
        """Store an erasure's receipt and record `entry`; with `finished`, the erasure is complete.

        Returns False, and changes nothing, if the erasure was complete already.
        """


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


class Scrub(ABC):
    """The only methods that change the text of an episode, or remove single turns of it."""

    @abstractmethod
    def rewrite(
        self,
        was: StoredEpisode,
        *,
        turns: Sequence[RewrittenTurn] = (),
        summary: NewSummary | None = None,
        facts: Sequence[Fact] = (),
        metadata: Mapping[str, Json] | None = None,
        placeholders: Sequence[Placeholder] = (),
        now: datetime,
    ) -> None:
        """Replace turns, the summary, facts (slot and text) and the session's metadata, atomically.

        Anything that is not given stays, and so do ids, ordinals, times, counts and stage. The new
        turns and summary of an active episode are indexed at once and wait for new vectors; nothing
        of the old text is left here or, by a `Removal`, in the mirror. Other rows keep their
        vectors. A turn that is not `indexed` any more loses its recall row. It counts as a
        removal, because the files hold the old text until they are rewritten. With nothing given,
        it does nothing.

        :raises EpisodeChanged: when the episode, or metadata that is to be replaced, is not as in
            `was` any more, when it has unindexed turns, or when a placeholder's number is taken
        :raises EpisodeNotFound: when it is gone
        :raises LegalHold: when a hold applies to the episode, to its user or, if metadata is given,
            to any episode of its session
        """

    @abstractmethod
    def rewrite_scope(
        self,
        scope: Scope,
        *,
        facts: Sequence[Fact] = (),
        queries: Mapping[UUID, str] | None = None,
    ) -> None:
        """Replace text that belongs to no episode, in one transaction.

        That is: slot and text of facts that a caller gave, and queries of entries of the ledger, by
        the entry's id. Those that are gone are skipped. It counts as a removal. With nothing given,
        it does nothing.

        :raises LegalHold: when facts are given and a hold applies to the user
        """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenEpisode:
    """What one episode loses, and what it has in its place."""

    was: StoredEpisode
    """The episode as the caller read it."""
    turns: Sequence[RewrittenTurn] = ()
    """New text of turns that stay, with those whose vector was made with a turn that changes."""
    removed: frozenset[UUID] = frozenset()
    """Ids of turns that go whole. Empty for a deleted episode, whose turns are rewritten."""
    summary: NewSummary | None = None
    """None leaves the summary, unless turns are removed: then it goes, too."""


class Forgetting(ABC):
    """Previews of what is to be forgotten, and its removal."""

    @abstractmethod
    def keep_preview(
        self, scope: Scope, token: str, chosen: Chosen, *, expires_at: datetime, now: datetime
    ) -> None:
        """Store the items of a preview; deletes those of the scope that expired before `now`.

        A scope that does not exist gets none. An erasure of the scope, and a removal of any of its
        episodes, delete them.
        """

    @abstractmethod
    def preview(self, scope: Scope, token: str, *, now: datetime) -> Chosen | None:
        """The items of a preview; None if the scope has none of that token, or it expired."""

    @abstractmethod
    def prune_previews(self, *, before: datetime) -> int:
        """Delete the previews of every scope that expired before then; returns how many."""

    @abstractmethod
    def forget(
        self,
        scope: Scope,
        token: str,
        chosen: Chosen,
        episodes: Sequence[ForgottenEpisode],
        erasure: Erasure,
        entry: AuditDraft,
    ) -> Erasure:
        """Remove the items of a preview, in one transaction, and record the erasure.

        Turns are removed or rewritten as by `Scrub`. Facts lose their text and
        stay empty, as `Facts.delete_fact` leaves them, or go with their turn. The ledger loses its
        items of these turns and facts, and the queries that are named. The preview is deleted. The
        erasure is stored as unfinished and returned with its counts; `entry` is recorded with them.

        :raises NotFound: when the preview is not there any more
        :raises EpisodeChanged: when an episode is not as in `was` any more
        :raises EpisodeNotFound: when one is gone
        :raises LegalHold: when a hold applies to the user or to one of the episodes
        """


class AuditLog(ABC):
    """Entries by tenant; the tenant "" is the installation's own log."""

    @abstractmethod
    def record(self, entry: AuditDraft) -> AuditEntry:
        """Append to the tenant's log."""

    @abstractmethod
    def audit(self, tenant: str, *, after: int = 0, limit: int = 1_000) -> list[AuditEntry]:
        """The tenant's entries with a `seq` above `after`, in order."""

    @abstractmethod
    def audit_head(self, tenant: str) -> AuditHead:
        """The end of the tenant's log, stored apart from it to detect missing entries."""
