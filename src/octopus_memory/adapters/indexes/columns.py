"""A scope's recall rows as columns, taken in as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain import vectors
from ...ports.store import SUMMARY_ORDINAL, RecallRow

D = TypeVar("D", bound=np.generic)
K = TypeVar("K", UUID, bytes)


@dataclass(slots=True, eq=False)
class Columns:
    """Rows in `seq` order. Growing makes new arrays: whoever holds the old ones keeps them."""

    model: str
    keeps_vectors: bool = True
    """Without, only which rows have one is known."""
    dimension: int = 0
    """0 before the first vector."""
    episode_ids: list[UUID] = field(default_factory=list)
    speakers: list[bytes] = field(default_factory=list)
    seq: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    episode: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    ordinal: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    role: NDArray[np.int8] = field(default_factory=lambda: np.empty(0, np.int8))
    speaker: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    flags: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, np.uint8))
    time: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    awaits: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    has: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    terms: list[bytes] = field(default_factory=list)
    vectors: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))

    @property
    def settled(self) -> int:
        """The `seq` up to which nothing can change any more by getting its vector."""
        if not len(self.seq):
            return 0
        waiting = self.seq[self.awaits]
        return int(waiting[0]) - 1 if len(waiting) else int(self.seq[-1])

    def with_rows(self, after: int, fresh: Sequence[RecallRow]) -> Columns:
        """These rows up to `after`, then `fresh`."""
        keep = int(np.searchsorted(self.seq, after, side="right"))
        episode_ids, speakers = list(self.episode_ids), list(self.speakers)
        episodes = _numbers(episode_ids, [row.episode_id for row in fresh])
        said_by = _numbers(speakers, [row.lexical.speaker for row in fresh], none=b"")
        mine = [row.vector if row.model == self.model else None for row in fresh]
        dimension = next((len(vector) for vector in mine if vector), self.dimension)
        return Columns(
            model=self.model,
            keeps_vectors=self.keeps_vectors,
            dimension=dimension,
            episode_ids=episode_ids,
            speakers=speakers,
            seq=_join(self.seq[:keep], [row.seq for row in fresh]),
            episode=_join(self.episode[:keep], episodes),
            ordinal=_join(self.ordinal[:keep], [row.ordinal for row in fresh]),
            role=_join(self.role[:keep], [row.role for row in fresh]),
            speaker=_join(self.speaker[:keep], said_by),
            flags=_join(self.flags[:keep], [row.lexical.flags for row in fresh]),
            time=_join(self.time[:keep], [row.at for row in fresh]),
            awaits=_join(self.awaits[:keep], [self._awaits(row) for row in fresh]),
            has=_join(self.has[:keep], [vector is not None for vector in mine]),
            terms=self.terms[:keep] + [row.lexical.terms for row in fresh],
            vectors=self._vectors(keep, mine, dimension if self.keeps_vectors else 0),
        )

    def order(self) -> NDArray[np.intp]:
        """The rows by start of their episode, then by place in it, the summary last."""
        starts = np.full(len(self.episode_ids), np.iinfo(np.int64).max)
        np.minimum.at(starts, self.episode, self.time)
        place = np.where(self.ordinal == SUMMARY_ORDINAL, np.iinfo(np.int32).max, self.ordinal)
        return np.lexsort((place, self.episode, starts[self.episode]))

    def _awaits(self, row: RecallRow) -> bool:
        return row.model not in (self.model, "")

    def _vectors(
        self, keep: int, fresh: Sequence[bytes | None], dimension: int
    ) -> NDArray[np.float32]:
        """One row each, NaN where there is no vector of this model."""
        block = np.full((len(fresh), dimension), np.nan, np.float32)
        packed = [vector for vector in fresh if vector] if dimension else []
        if packed:
            block[[vector is not None for vector in fresh]] = vectors.unpack(packed, dimension)
        kept = self.vectors[:keep]
        if kept.shape[1] != dimension:
            kept = np.full((keep, dimension), np.nan, np.float32)
        return np.concatenate([kept, block])


def _join(old: NDArray[D], new: Sequence[int]) -> NDArray[D]:
    return np.concatenate([old, np.asarray(new, dtype=old.dtype)])


def _numbers(known: list[K], values: Sequence[K], none: K | None = None) -> list[int]:
    """The number of each value, those not known yet added at the end; -1 for `none`."""
    numbers = {value: number for number, value in enumerate(known)}
    found = []
    for value in values:
        if none is not None and value == none:
            found.append(-1)
            continue
        if value not in numbers:
            numbers[value] = len(known)
            known.append(value)
        found.append(numbers[value])
    return found
