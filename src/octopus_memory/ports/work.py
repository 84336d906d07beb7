"""The work queue: rows that wait for a vector, a better summary, or the mirror."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias, overload
from uuid import UUID

from ..domain.episode import Scope


class WorkKind(StrEnum):
    EMBED = "embed"
    SUMMARIZE = "summarize"
    INDEX = "index"
    """Send an embedded row to the mirror."""
    UNINDEX = "unindex"
    """Delete removed rows from the mirror: a `Removal`."""
    TIMES = "times"
    """Resolve the times that a turn tells of, which an earlier release indexed without them."""


RowWork: TypeAlias = Literal[WorkKind.EMBED, WorkKind.SUMMARIZE, WorkKind.INDEX, WorkKind.TIMES]
"""The kinds of work on one recall row: a `Work`."""


class Work(NamedTuple):
    """A work item, leased to one worker."""

    id: int
    kind: WorkKind
    scope: Scope
    scope_id: int
    """The scope's number in this database, which is never reused."""
    episode_id: UUID
    ordinal: int
    seq: int
    attempts: int


class RowPart(StrEnum):
    """A part of an episode's recall rows."""

    ALL = "all"
    TURNS = "turns"
    SUMMARY = "summary"


class Removal(NamedTuple):
    """Rows that were removed here and must be deleted from the mirror. It holds no user's name."""

    id: int
    tenant: str
    scope_id: int
    episode_id: UUID | None
    """None for every row of the scope."""
    part: RowPart
    before_seq: int
    """Only rows with a smaller `seq`, because newer ones were added after the removal."""
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The number of waiting items of one kind, and the time of the oldest."""

    waiting: int
    oldest: datetime | None


class WorkQueue(ABC):
    """Work items, claimed under a lease."""

    @overload
    def claim(
        self,
        kind: Literal[WorkKind.UNINDEX],
        *,
        worker_id: str,
        limit: int,
        now: datetime,
        until: datetime,
    ) -> list[Removal]: ...

    @overload
    def claim(
        self, kind: RowWork, *, worker_id: str, limit: int, now: datetime, until: datetime
    ) -> list[Work]: ...

    @abstractmethod
    def claim(
        self, kind: WorkKind, *, worker_id: str, limit: int, now: datetime, until: datetime
    ) -> list[Removal] | list[Work]:
        """Lease up to `limit` waiting items until `until`, oldest first.

        Items of UNINDEX are `Removal`s. No item is leased to two workers at a time.
        """

    @abstractmethod
    def finish(self, work: Sequence[Work | Removal]) -> None:
        """Remove finished items; unknown ones are ignored."""

    @abstractmethod
    def postpone(
        self, work: Sequence[Work | Removal], *, until: datetime, worker_id: str | None = None
    ) -> None:
        """Release claimed items, to be claimed again after `until`; counts an attempt.

        With `worker_id`, leaves alone items that another worker has claimed since.
        """

    @abstractmethod
    def release_leases(
        self, is_gone: Callable[[str], bool], *, now: datetime, latest: datetime
    ) -> int:
        """End the leases that no worker will finish, on items and jobs.

        That is: every lease of a worker for whose id `is_gone` returns True. Items that would wait,
        or be leased, beyond `latest` become claimable at `now`, because such times come from a
        clock that was ahead; returns how many of these there were.
        """

    @abstractmethod
    def backlog(self) -> dict[WorkKind, Backlog]:
        """The items of each kind, claimed or not."""
