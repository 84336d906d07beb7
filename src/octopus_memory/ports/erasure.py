"""Erasure and its proof: what they need of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.episode import Scope
from ..domain.message import Json

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft, AuditEntry, AuditHead
    from ..domain.erasure import Erasure, FileSearch, Subject


class Trace(ABC):
    """Knows some of what is stored of somebody, to look for it when it should be gone."""

    @abstractmethod
    def look(self) -> FileSearch:
        """Read every byte of the store's files."""


class Forgetting(ABC):
    """The part of a store that erases, and keeps the log that says so."""

    @abstractmethod
    def user_scopes(self, tenant: str, user: str | None = None) -> list[Scope]:
        """The scopes of one user, or of all, that anything was ever written in."""

    @abstractmethod
    def erase(self, subject: Subject, erasure: Erasure, entry: AuditDraft) -> Erasure:
        """Remove every row of the subject, in one transaction, and record that it was done.

        Turns, archived turns, recall rows, work, idempotency keys, placeholders, episodes,
        sessions and scopes; with a mirror, a `Removal` is queued. The erasure is remembered as
        unfinished and returned with its counts and scopes; `entry` is recorded with the counts.
        A subject that nothing is known of gives an erasure with no rows.

        :raises EpisodeNotFound: for an episode that is not in its scope
        :raises LegalHold: when a hold stands on the user or one of the episodes; nothing is gone
        """

    @abstractmethod
    def left_of(self, erasure: Erasure) -> dict[str, int]:
        """How many rows of what was erased are found, by place; all zero after `erase`."""

    def trace(self, subject: Subject) -> Trace | None:  # noqa: ARG002 - for stores with files
        """Taken before an erasure, it finds what the files keep after it.

        None where the files are not this program's to read: a server's.
        """
        return None

    @abstractmethod
    def unfinished(self) -> list[Erasure]:
        """Erasures of every tenant whose receipt is not complete yet, oldest first."""

    @abstractmethod
    def erasures(
        self, tenant: str, *, before: UUID | None = None, limit: int = 100
    ) -> list[Erasure]:
        """The tenant's erasures, finished or not, newest first by id, those below `before`."""

    @abstractmethod
    def receipt(self, tenant: str, erasure_id: UUID) -> Mapping[str, Json] | None:
        """The last receipt kept of an erasure; None where there is none yet."""

    @abstractmethod
    def keep_receipt(
        self, erasure: Erasure, receipt: Mapping[str, Json], entry: AuditDraft, *, finished: bool
    ) -> bool:
        """Keep an erasure's receipt and record `entry`; finished, it is unfinished no more.

        False, and nothing changes, when a finished receipt is kept already.
        """

    @abstractmethod
    def waiting_removals(self, erasure: Erasure) -> int:
        """How many removals from the remote index wait for what was erased."""

    @abstractmethod
    def compacted(self) -> int:
        """Up to which of `removals_made` the files were rewritten since."""

    def owes_compaction(self) -> bool:
        """Whether rows were removed since the files were last rewritten."""
        return self.removals_made() > self.compacted()

    @abstractmethod
    def compact(self) -> bool:
        """Rewrite the files, so that nothing removed before this call can be read from them.

        False when somebody's use of the database, or a right that is not given, stands in the way:
        try again later. What is removed while it runs is still owed afterwards.
        """

    @abstractmethod
    def record(self, entry: AuditDraft) -> AuditEntry:
        """Append to the tenant's audit log."""

    @abstractmethod
    def audit(self, tenant: str, *, after: int = 0, limit: int = 1_000) -> list[AuditEntry]:
        """The tenant's entries with a `seq` above `after`, in order."""

    @abstractmethod
    def audit_head(self, tenant: str) -> AuditHead:
        """Where the tenant's log ended when it was last written to."""

    @abstractmethod
    def audited(self) -> list[str]:
        """The tenants that have a log, "" for the installation's own."""

    @abstractmethod
    def removals_made(self) -> int:
        """A number that grows whenever rows are removed: caches look at it to know of erasures."""
