"""Erasure: removing everything of a user, an agent's user or an episode, and proving it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.message import Json

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft
    from ..domain.erasure import Erasure, FileSearch, Subject


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

        :raises EpisodeNotFound: for an episode that is not in its scope
        :raises LegalHold: when a hold applies to the user or one of the episodes; nothing is erased
        """

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
