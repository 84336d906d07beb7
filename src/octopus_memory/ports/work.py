"""The work still to be done, kept with what it is about: vectors, summaries, a remote index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from ..domain.episode import Scope, Turn
from .turns import Findable


class WorkKind(StrEnum):
    EMBED = "embed"
    SUMMARIZE = "summarize"
    INDEX = "index"
    """Give a row, which has its vector here, to the remote index."""
    UNINDEX = "unindex"
    """Take rows that are gone here out of the remote index: a `Removal`."""


class Work(NamedTuple):
    """One thing still to be done, claimed by one worker until its lease ends."""

    id: int
    kind: WorkKind
    scope: Scope
    scope_id: int
    """The scope's number in this database, never used twice."""
    episode_id: UUID
    ordinal: int
    seq: int
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfindable:
    """Turns of one episode that are stored, and that recall cannot find yet."""

    scope: Scope
    scope_id: int
    episode_id: UUID
    first: int
    stop: int
    """The ordinal after the last."""
    count: int
    """How many turns the episode has: there may be more to be made findable after these."""
    epoch: int
    """The scope's, when this was read (`RecallState`)."""


class RowPart(StrEnum):
    """Which of an episode's recall rows."""

    ALL = "all"
    TURNS = "turns"
    SUMMARY = "summary"


class Removal(NamedTuple):
    """Rows that are gone here and must go from the remote index. It names nobody."""

    id: int
    tenant: str
    scope_id: int
    episode_id: UUID | None
    """None for every row of the scope."""
    part: RowPart
    before_seq: int
    """Only rows with a smaller `seq`: newer ones came after what was removed."""
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How much work of one kind waits, and since when."""

    waiting: int
    oldest: datetime | None


class WorkList(ABC):
    """The part of a store that is its queue."""

    @abstractmethod
    def model(self) -> str | None:
        """The model that new vectors are of; None before the first."""

    @abstractmethod
    def use_model(self, model: str) -> int:
        """Make `model` the one new vectors are of; rows with another's are queued again.

        Returns how many were queued. Calling it with the model in use does nothing.
        """

    @abstractmethod
    def mirror(self) -> str | None:
        """The remote index that is fed from this store; None where there is none."""

    @abstractmethod
    def use_mirror(self, name: str | None) -> None:
        """Feed the remote index of this name from now on, or none.

        With one, every vector that is put queues its row as INDEX work, and whatever removes rows
        queues a `Removal`, in the same transaction. A new name queues every row that has a vector
        of the model in use; with None what was queued for the old one is dropped.
        """

    @abstractmethod
    def unfindable(
        self, scope: Scope | None = None, *, episode_id: UUID | None = None, limit: int
    ) -> list[Unfindable]:
        """What was appended without its words, of one scope or of all, up to `limit` episodes."""

    @abstractmethod
    def unfindable_turns(self, found: Sequence[Unfindable]) -> list[Turn]:
        """The turns that these are, and maybe newer ones of the same episodes; in no order.

        None of an episode that is gone, or that somebody else was faster with.

        :raises StoreCorrupt: when one of them cannot be read
        """

    @abstractmethod
    def make_findable(
        self,
        done: Sequence[tuple[Unfindable, Sequence[Findable]]],
        *,
        patience: float | None = None,
    ) -> int:
        """Give recall the rows of these turns, each of them, and queue those that are embedded.

        Returns of how many episodes. One is passed over that is gone, that somebody else was faster
        with, or in whose scope rows were removed or replaced since it was read.

        :raises StoreBusy: when others write for longer than `patience` seconds, in a store where
            that can be long
        """

    @abstractmethod
    def put_vectors(self, model: str, done: Sequence[tuple[Work, bytes]]) -> None:
        """Keep vectors (as `domain.vectors` packs them) and finish their work, all at once.

        A row that is gone by now is passed over. Doing it twice changes nothing. Of a model that
        is not in use any more nothing is kept, and the work stays.
        """

    @abstractmethod
    def claim(
        self, kind: WorkKind, *, owner: str, limit: int, now: datetime, until: datetime
    ) -> list[Work]:
        """Take up to `limit` pieces of waiting work, oldest first, until the lease ends.

        No piece is handed to two claimants while a lease lasts. Not for UNINDEX.
        """

    @abstractmethod
    def turns_of(self, work: Sequence[Work]) -> list[Turn]:
        """The turns that claimed work is about, and the one before each; in no order.

        Those that are gone, or whose work is, are left out.

        :raises StoreCorrupt: when one of them cannot be read
        """

    @abstractmethod
    def claim_removals(
        self, *, owner: str, limit: int, now: datetime, until: datetime
    ) -> list[Removal]:
        """`claim`, for UNINDEX."""

    @abstractmethod
    def queue_index(self, scope_id: int | None = None) -> int:
        """Queue every row with a vector of the model in use, of one scope or of all, as INDEX work.

        Rows that wait already are passed over. Returns how many were queued.
        """

    @abstractmethod
    def unindexed(self, scope: Scope, *, limit: int) -> list[int]:
        """The `seq` of the scope's rows that wait as EMBED or INDEX work, up to `limit`."""

    @abstractmethod
    def scopes(self, *, after: int = 0, limit: int) -> list[tuple[int, Scope]]:
        """Scopes of every tenant, by their numbers, those above `after`."""

    @abstractmethod
    def finish(self, work: Sequence[Work | Removal]) -> None:
        """The work is done; unknown pieces are passed over."""

    @abstractmethod
    def postpone(
        self, work: Sequence[Work | Removal], *, until: datetime, owner: str | None = None
    ) -> None:
        """Give claimed work back, to be taken again after `until`; counts an attempt.

        With `owner`, what somebody else has claimed since then is left to them.
        """

    @abstractmethod
    def owners(self) -> list[str]:
        """Who holds leases now, of work or of a job."""

    @abstractmethod
    def release(self, owner: str) -> None:
        """End every lease of an owner that is gone."""

    @abstractmethod
    def release_stale(self, *, now: datetime, latest: datetime) -> int:
        """Make work claimable from `now` on that would wait, or be leased, beyond `latest`.

        Nothing waits for so long unless a clock was ahead. Returns how many pieces.
        """

    @abstractmethod
    def backlog(self) -> dict[WorkKind, Backlog]:
        """What is still to be done, claimed or not."""
