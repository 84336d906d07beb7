"""What recall searches, and the work that prepares it: recall rows, the queue, the mirror."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias, overload
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..domain.episode import Scope, Turn
from .values import IndexEntry, Lexical


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
    def finish(
        self, work: Sequence[Work | Removal], *, told: Mapping[int, int] | None = None
    ) -> None:
        """Remove finished items; unknown ones are ignored.

        `told` has, by the id of an item, the time that its turn tells of (`Lexical.told`). It is
        stored in the same transaction, unless the row is gone. A cache shows it after it has read
        the scope anew.
        """

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


class RecallState(NamedTuple):
    """The version of a scope's recall rows.

    A cache with the same scope number and `epoch` only misses newer rows. With another `epoch`,
    some of its rows are gone, and changed rows have come back with a higher `seq`.
    """

    scope_id: int
    """The scope's number in this database. A scope that is erased and created again has another."""
    version: int
    """Bumped by every write that adds, changes or removes rows."""
    epoch: int
    """Bumped by every write that removes rows. A changed row gets a new `seq`, except when only its
    vector changes."""
    newest: int = 0
    """The highest `seq` ever given in the scope, and so an upper bound of its rows."""
    has_unindexed: bool = False
    """True if the scope has turns without a recall row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRow:
    """The searched form of one turn, or of one summary (`ordinal` is `SUMMARY_ORDINAL`)."""

    seq: int
    episode_id: UUID
    ordinal: int
    role: int
    at: int
    """Microseconds since 1970, UTC."""
    lexical: Lexical
    model: str | None
    """The model of the vector; None while the row waits for one, "" if it gets none."""
    vector: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecallBlock:
    """Recall rows as columns, by `seq`. Columns, because a scope may have a million rows."""

    seq: NDArray[np.int64]
    episode_ids: Sequence[UUID]
    """Distinct values."""
    episode: NDArray[np.int32]
    """Index into `episode_ids`."""
    ordinal: NDArray[np.int32]
    role: NDArray[np.int8]
    at: NDArray[np.int64]
    flags: NDArray[np.uint8]
    told: NDArray[np.int64]
    speakers: Sequence[bytes]
    """Distinct values; empty for no speaker."""
    speaker: NDArray[np.int32]
    """Index into `speakers`."""
    terms: Sequence[bytes]
    models: Sequence[str | None]
    """Distinct values."""
    model: NDArray[np.int32]
    """Index into `models`."""
    vectors: Sequence[bytes | None]
    late: Sequence[tuple[int, bytes]] = ()
    """The `seq` and vector of known rows that were embedded since."""
    alive: NDArray[np.int64] | None = None
    """The `seq` of every known row that still exists; None if the caller did not ask."""

    def __len__(self) -> int:
        return len(self.seq)

    def rows(self) -> list[RecallRow]:
        """The same rows, one by one."""
        return [
            RecallRow(
                seq=seq,
                episode_id=self.episode_ids[episode],
                ordinal=ordinal,
                role=role,
                at=at,
                lexical=Lexical(
                    terms=terms, speaker=self.speakers[speaker], flags=flags, told=told
                ),
                model=self.models[model],
                vector=vector,
            )
            for seq, episode, ordinal, role, at, flags, told, speaker, terms, model, vector in zip(
                self.seq.tolist(),
                self.episode.tolist(),
                self.ordinal.tolist(),
                self.role.tolist(),
                self.at.tolist(),
                self.flags.tolist(),
                self.told.tolist(),
                self.speaker.tolist(),
                self.terms,
                self.model.tolist(),
                self.vectors,
                strict=True,
            )
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnindexedTurns:
    """Stored turns of one episode that have no recall row yet."""

    scope: Scope
    scope_id: int
    episode_id: UUID
    first: int
    stop: int
    """The ordinal after the last."""
    count: int
    """The number of turns of the episode: more may wait after these."""
    epoch: int
    """The scope's epoch when this was read (`RecallState`)."""


class RecallRows(ABC):
    """The rows that recall searches."""

    @abstractmethod
    def recall_state(self, scope: Scope) -> RecallState | None:
        """None for a scope that was never written to."""

    @abstractmethod
    def recall_block(
        self,
        scope: Scope,
        *,
        after: int = 0,
        up_to: int | None = None,
        seqs: Sequence[int] | None = None,
        late: Sequence[int] = (),
        model: str = "",
        alive: bool = False,
    ) -> tuple[RecallState, RecallBlock]:
        """The rows with a `seq` above `after`, as columns, and the state of the same snapshot.

        With `up_to`, only rows up to that `seq`, for callers that read a large scope in parts. With
        `seqs`, the rows with these instead, whatever `after` and `up_to` are.
        `late` names known rows without a vector of `model`: the block brings the vectors that they
        have by now. With `alive`, the block names the rows up to `after` that still exist.
        """

    def recall_rows(
        self, scope: Scope, *, after: int = 0, seqs: Sequence[int] | None = None
    ) -> tuple[RecallState, list[RecallRow]]:
        """As `recall_block`, row by row."""
        state, block = self.recall_block(scope, after=after, seqs=seqs)
        return state, block.rows()

    @abstractmethod
    def unindexed_turns(
        self, scope: Scope | None = None, *, episode_id: UUID | None = None, limit: int
    ) -> list[UnindexedTurns]:
        """Turns that were appended without a `lexical`, of one scope or of all.

        At most `limit` episodes.
        """

    @abstractmethod
    def turns_of(self, waiting: Sequence[UnindexedTurns | Work]) -> list[Turn]:
        """The turns that wait to be indexed or, as claimed work, to be embedded, in any order.

        With maybe newer turns of an unindexed episode, and the turn before that of a work item.
        Leaves out turns that are gone, and those that another worker finished first.

        :raises StoreCorrupt: when one of them cannot be decoded
        """

    @abstractmethod
    def index_turns(
        self,
        done: Sequence[tuple[UnindexedTurns, Sequence[IndexEntry]]],
        *,
        patience: float | None = None,
    ) -> int:
        """Insert the recall rows of these turns with their facts, and queue those that are to be
        embedded.

        Facts are left out if the episode has facts of these turns already, because it was imported
        with them or a model found them. A fact that was deleted does not come back.

        Returns the number of episodes. Skips an episode that is gone, that another worker indexed
        first, or in whose scope rows were removed or replaced since it was read.

        :raises StoreBusy: when other writers block a single-writer store for `patience` seconds
        """

    @abstractmethod
    def put_vectors(self, model: str, done: Sequence[tuple[Work, bytes]]) -> None:
        """Store vectors (as `domain.search.vectors` packs them) and finish their items, atomically.

        Skips rows that are gone. Idempotent. If `model` is not in use any more, stores nothing and
        leaves the items in the queue.
        """

    @abstractmethod
    def use_model(self, model: str) -> int:
        """Make `model` the model of new vectors, and queue the rows with another model's vector.

        Returns how many were queued; 0 if the model is in use already.
        """

    @abstractmethod
    def waiting_rows(self, scope: Scope, *, limit: int) -> list[int]:
        """The `seq` of rows of the scope that wait for a vector or the mirror, up to `limit`."""


class Mirror(ABC):
    """Work items that keep a mirror (`ports.index.IndexMirror`) up to date."""

    @abstractmethod
    def use_mirror(self, name: str | None) -> None:
        """Feed the mirror of this name from now on, or none.

        With a mirror, every stored vector queues its row as INDEX work, and every removal of rows
        queues a `Removal`, in the same transaction. A new name queues every row with a vector of
        the model in use. None drops what was queued for the old mirror.
        """

    @abstractmethod
    def queue_for_mirror(self, scope_id: int | None = None) -> int:
        """Queue every row with a vector of the model in use, of one scope or of all.

        Skips rows that wait already. Returns how many were queued.
        """
