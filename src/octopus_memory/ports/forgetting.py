"""Erasure and its proof: what they need of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from ..domain.audit import AuditDraft, AuditEntry
from ..domain.episode import Scope
from ..domain.erasure import Subject
from ..domain.message import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """An erasure that has begun: its rows are gone, the rest of its work is known. Names nobody."""

    id: UUID
    tenant: str
    at: datetime
    subject: str
    """As `domain.audit.subject_hash` makes it."""
    removed: Mapping[str, int] = field(default_factory=dict)
    scope_ids: tuple[int, ...] = ()
    episode_id: UUID | None = None
    """Given, only this episode of the scope was erased."""


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

    @abstractmethod
    def unfinished(self) -> list[Erasure]:
        """Erasures of every tenant whose receipt is not complete yet, oldest first."""

    @abstractmethod
    def receipt(self, tenant: str, erasure_id: UUID) -> Mapping[str, Json] | None:
        """The last receipt kept of an erasure."""

    @abstractmethod
    def keep_receipt(
        self, erasure: Erasure, receipt: Mapping[str, Json], entry: AuditDraft, *, finished: bool
    ) -> None:
        """Keep an erasure's receipt and record `entry`; finished, it is unfinished no more."""

    @abstractmethod
    def waiting_removals(self, erasure: Erasure) -> int:
        """How many removals from the remote index wait for what was erased."""

    @abstractmethod
    def owes_compaction(self) -> bool:
        """Whether rows were removed since the files were last rewritten."""

    @abstractmethod
    def compact(self) -> bool:
        """Rewrite the files, so that nothing removed before this call can be read from them.

        False when somebody's use of the database stands in the way: try again later. What is
        removed while it runs is still owed afterwards.
        """

    @abstractmethod
    def record(self, entry: AuditDraft) -> AuditEntry:
        """Append to the tenant's audit log."""

    @abstractmethod
    def audit(self, tenant: str, *, after: int = 0, limit: int = 1_000) -> list[AuditEntry]:
        """The tenant's entries with a `seq` above `after`, in order."""

    @abstractmethod
    def audited(self) -> list[str]:
        """The tenants that have a log, "" for the installation's own."""

    @abstractmethod
    def removals_made(self) -> int:
        """A number that grows whenever rows are removed: caches look at it to know of erasures."""
