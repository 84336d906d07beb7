"""A scope's recall rows as numpy columns that grow block by block, and their sort order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ...domain.search import row_format
from ...domain.search.features import SUMMARY
from ...domain.search.row_format import dimension_of, unpack_vectors
from ...domain.search.term_lists import Layers, with_rows
from ...domain.search.terms import Flag
from ...ports.recall_rows import RecallBlock
from ...ports.values import SUMMARY_ORDINAL

D = TypeVar("D", bound=np.generic)
_MIN_SPARE = 32


class GrowingArray(Generic[D]):
    """An append-only array with spare capacity.

    Arrays returned by `values` stay valid, because appending only writes behind their end.
    """

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        self._width = () if width is None else (width,)
        self._dtype = dtype
        self._buffer: NDArray[Any] = np.zeros((0, *self._width), dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> NDArray[D]:
        return self._buffer[: self._count]

    @property
    def size(self) -> int:
        """Bytes in use, without the spare capacity."""
        return self.values.nbytes

    def reserve(self, count: int) -> None:
        """Ensure a capacity of `count` values in all."""
        if count > len(self._buffer):
            # The operating system gives zeroed pages memory only when they are written.
            buffer = np.zeros((count, *self._width), self._dtype)
            buffer[: self._count] = self.values
            self._buffer = buffer

    def extend(self, more: ArrayLike) -> None:
        added = np.asarray(more, self._dtype)
        self.extend_zeros(len(added))
        self._buffer[self._count - len(added) : self._count] = added

    def extend_zeros(self, count: int) -> None:
        if self._count + count > len(self._buffer):
            self.reserve(self._count + max(count, self._count // 8, _MIN_SPARE))
        self._count += count


_LATEST = np.iinfo(np.int64).max
_FEW = 512
"""Below this many rows, sorting all is faster than inserting the new ones."""


class RowOrder:
    """Sorts episodes by start time, then by first appearance, and each episode's rows by position.

    `order` and `position_of` are None while the rows were appended in that order already.
    """

    def __init__(self) -> None:
        self.order: NDArray[np.intp] | None = None
        """Row numbers, sorted."""
        self.position_of: NDArray[np.int32] | None = None
        """Position of each row in `order`."""
        self._count = 0
        self._last_start = -_LATEST
        self._starts: GrowingArray[np.int64] = GrowingArray(np.int64)
        """Start time of each episode."""
        self._ends: GrowingArray[np.int64] = GrowingArray(np.int64)
        """Last row of each episode."""

    def update(
        self, episode: NDArray[np.int32], position: NDArray[np.int32], time: NDArray[np.int64]
    ) -> None:
        """Sort in the rows added since the last call. The arguments are columns of all rows."""
        before, self._count = self._count, len(episode)
        if before == self._count:
            return
        fresh, known = episode[before:], len(self._starts)
        old = fresh < known
        seen = int(fresh.max()) + 1 - known
        if seen > 0:
            self._starts.extend(np.full(seen, _LATEST))
            self._ends.extend_zeros(seen)
        starts = self._starts.values
        at_the_end = (
            before > _FEW
            and bool((time[before:] >= starts[fresh])[old].all())
            and bool((position[before:] > position[self._ends.values[fresh]])[old].all())
        )
        np.minimum.at(starts, fresh, time[before:])
        if at_the_end and bool((starts[known:] >= self._last_start).all()):
            order = np.lexsort((position[before:], fresh, starts[fresh]))
            self._insert(before, fresh, old, order)
        else:
            order = np.lexsort((position, episode, starts[episode]))
            self._ends.values[episode[order]] = order
            self._set(order)
        self._last_start = int(starts.max())

    def _insert(
        self,
        before: int,
        fresh: NDArray[np.int32],
        old: NDArray[np.bool_],
        order: NDArray[np.intp],
    ) -> None:
        """Insert new rows behind the last row of their episode, and new episodes at the end."""
        ends = self._ends.values
        last = ends[fresh] if self.position_of is None else self.position_of[ends[fresh]]
        after = np.where(old, last + 1, before)[order]
        ends[fresh[order]] = before + order
        in_order = bool((after == before).all()) and bool((np.diff(order) > 0).all())
        if self.order is None and in_order:
            return
        known = np.arange(before) if self.order is None else self.order
        self._set(np.insert(known, after, before + order))

    def _set(self, order: NDArray[np.intp]) -> None:
        identity = np.arange(len(order), dtype=np.int32)
        if bool((order == identity).all()):
            self.order = self.position_of = None
            return
        self.order = order
        self.position_of = np.empty(len(order), np.int32)
        self.position_of[order] = identity


T = TypeVar("T")
FlatTerms: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int32]]
"""Terms, how often each occurs in its row, and the row."""
_LAST_POSITION = np.iinfo(np.int32).max
_SCOPE_BYTES = 12_000
"""Fixed bytes of a scope: objects and nearly empty arrays."""
_ROW_BYTES = 47
"""Bytes of a row without its vector."""
_EPISODE_BYTES = 250
"""Approximate bytes of an episode's id and number."""
_SUMMARY_BYTES = 300
"""Approximate bytes of a summary's packed terms."""
_COPIED = (
    "_seq",
    "_ordinal",
    "_position",
    "_role",
    "_flags",
    "_told",
    "_time",
    "_has_vector",
    "_lengths",
)
"""Columns that do not depend on other rows, so that `copy_alive` copies them as they are."""


class ScopeColumns:
    """Append-only columns; one thread at a time appends. Views of fewer rows stay valid.

    A row changes in one way only: it may get its vector later. A view remembers which rows had one
    when it was made. After removals, new columns copy the remaining rows.
    """

    def __init__(self, model: str, *, keeps_vectors: bool = True) -> None:
        """`keeps_vectors=False` remembers only which rows have a vector."""
        self.model = model
        self.newest = 0
        """The `seq` of the last row."""
        self.dimension = 0
        """Length of the vectors; 0 before the first one."""
        self.layers: Layers = ()
        self.episode_ids: list[UUID] = []
        self.speakers: list[bytes] = []
        self._keeps_vectors = keeps_vectors
        self._expected = 0
        self._episode_numbers: dict[UUID, int] = {}
        self._speaker_numbers: dict[bytes, int] = {b"": -1}
        self._waiting: set[int] = set()
        self._seq: GrowingArray[np.int64] = GrowingArray(np.int64)
        self._episode: GrowingArray[np.int32] = GrowingArray(np.int32)
        self._ordinal: GrowingArray[np.int32] = GrowingArray(np.int32)
        self._position: GrowingArray[np.int32] = GrowingArray(np.int32)
        """Position in the episode: the ordinal, or `_LAST_POSITION` for a summary."""
        self._role: GrowingArray[np.int8] = GrowingArray(np.int8)
        self._speaker: GrowingArray[np.int32] = GrowingArray(np.int32)
        self._flags: GrowingArray[np.uint8] = GrowingArray(np.uint8)
        self._told: GrowingArray[np.int64] = GrowingArray(np.int64)
        self._time: GrowingArray[np.int64] = GrowingArray(np.int64)
        self._has_vector: GrowingArray[np.bool_] = GrowingArray(np.bool_)
        self._lengths: GrowingArray[np.int32] = GrowingArray(np.int32)
        self._vectors: GrowingArray[np.float32] = GrowingArray(np.float32, 0)
        self._row_order = RowOrder()
        self._unlisted: list[FlatTerms] = []
        """Terms that are not in `layers` yet."""
        self._listed = 0
        """Number of rows whose terms are in `layers`."""
        self._has_turns: GrowingArray[np.bool_] = GrowingArray(np.bool_)
        """True by number of an episode that has turns."""
        self._lone: NDArray[np.intp] = np.empty(0, np.intp)
        """Rows of summaries whose episodes have no turns."""
        self._summary_terms: dict[int, bytes] = {}
        """Packed terms of each summary by its `seq`, for when the episode's turns are removed."""

    def __len__(self) -> int:
        return len(self._seq)

    @property
    def waiting(self) -> list[int]:
        """The `seq` of each row that has no vector of this model but may get one."""
        return sorted(self._waiting)

    @property
    def size(self) -> int:
        """Approximate bytes in memory."""
        return (
            _SCOPE_BYTES
            + _ROW_BYTES * len(self)
            + self._vectors.size
            + sum(layer.size for layer in self.layers)
            + _EPISODE_BYTES * len(self.episode_ids)
            + _SUMMARY_BYTES * len(self._summary_terms)
        )

    def reserve(self, count: int) -> None:
        """Prepare for at most `count` more rows."""
        self._expected = len(self) + count

    def append(self, block: RecallBlock) -> None:
        """Add rows with a higher `seq` than all before, and late vectors."""
        self._append_late_vectors(block)
        if not len(block):
            return
        first = len(self)
        episode = np.array([self._episode_number(known) for known in block.episode_ids], np.int32)
        speaker = np.array([self._speaker_number(known) for known in block.speakers], np.int32)
        self._seq.extend(block.seq)
        self._episode.extend(episode[block.episode])
        self._ordinal.extend(block.ordinal)
        self._position.extend(
            np.where(block.ordinal == SUMMARY_ORDINAL, _LAST_POSITION, block.ordinal)
        )
        self._role.extend(block.role)
        self._speaker.extend(speaker[block.speaker])
        self._flags.extend(block.flags)
        self._told.extend(block.told)
        self._time.extend(block.at)
        terms, counts, row_of = row_format.unpack_all(block.terms)
        self._lengths.extend(np.bincount(row_of, weights=counts, minlength=len(block)))
        self._unlisted.append((terms, counts, row_of + np.int32(first)))
        for row in (block.role == SUMMARY).nonzero()[0].tolist():
            self._summary_terms[int(block.seq[row])] = block.terms[row]
        self._has_turns.values[self._episode.values[first:][block.role != SUMMARY]] = True
        self._append_vectors(block)
        self.newest = int(block.seq[-1])

    def copy_alive(self, known: ScopeColumns, alive: NDArray[np.int64]) -> None:
        """Start with the rows of `known` whose `seq` is in `alive`."""
        if known._unlisted:
            known._list_terms()
        is_alive = np.zeros(known.newest + 1, np.bool_)
        is_alive[alive] = True
        rows = is_alive[known.seq].nonzero()[0]
        number = np.full(len(known), -1, np.int32)
        number[rows] = np.arange(len(rows))
        self.newest, self.dimension = known.newest, known.dimension
        for name in _COPIED:
            getattr(self, name).extend(getattr(known, name).values[rows])
        episode, self.episode_ids = _renumber(known.episode[rows], known.episode_ids)
        speaker, self.speakers = _renumber(known.speaker[rows], known.speakers)
        self._episode.extend(episode)
        self._speaker.extend(speaker)
        self._episode_numbers = {
            episode_id: number for number, episode_id in enumerate(self.episode_ids)
        }
        self._speaker_numbers |= {name: number for number, name in enumerate(self.speakers)}
        self._waiting = {seq for seq in known._waiting if is_alive[seq]}
        if self.dimension and self._keeps_vectors:
            self._vectors = GrowingArray(np.float32, self.dimension)
            self._vectors.reserve(len(rows) * 9 // 8)
            self._vectors.extend_zeros(len(rows))
            # `clip` lets numpy write to `out` without a buffer; no row is out of range.
            known.vectors.take(rows, axis=0, out=self._vectors.values, mode="clip")
        self.layers = tuple(layer.renumbered(number) for layer in known.layers)
        self._listed = len(self)
        self._has_turns.extend_zeros(len(self.episode_ids))
        self._has_turns.values[episode[self.role != SUMMARY]] = True
        self._summary_terms = {
            seq: terms for seq, terms in known._summary_terms.items() if is_alive[seq]
        }
        self._list_lone_summaries(number[known._lone])

    def _repeating(self) -> NDArray[np.bool_]:
        """Mask of summaries that only repeat words of their episode's turns."""
        repeating: NDArray[np.bool_] = (self.role == SUMMARY) & (self.flags & Flag.OWN_WORDS == 0)
        return repeating

    def _list_lone_summaries(self, listed: NDArray[np.int32]) -> None:
        """List the terms of summaries whose turns are gone, except rows already `listed`."""
        summaries = self._repeating().nonzero()[0]
        self._lone = summaries[~self._has_turns.values[self.episode[summaries]]]
        # One more element, so that -1 in `listed` marks no row.
        is_listed = np.zeros(len(self) + 1, np.bool_)
        is_listed[listed] = True
        again = self._lone[~is_listed[self._lone]]
        if len(again):
            packed = [self._summary_terms[seq] for seq in self.seq[again].tolist()]
            terms, counts, which = row_format.unpack_all(packed)
            self._lengths.values[again] = np.bincount(which, weights=counts, minlength=len(again))
            self._unlisted = [(terms, counts, again[which].astype(np.int32))]

    def update_order(self) -> None:
        """Update the sort order and the term lists with the rows appended since the last call."""
        if self._unlisted:
            self._list_terms()
        self._row_order.update(self.episode, self._position.values, self.time)

    @property
    def order(self) -> NDArray[np.intp] | None:
        """Rows sorted by start of episode, then by position; None if appended in that order."""
        return self._row_order.order

    @property
    def position_of(self) -> NDArray[np.int32] | None:
        """Position of each row in `order`; None if `order` is."""
        return self._row_order.position_of

    @property
    def seq(self) -> NDArray[np.int64]:
        return self._seq.values

    @property
    def episode(self) -> NDArray[np.int32]:
        """Episode numbers, given in order of first appearance."""
        return self._episode.values

    @property
    def ordinal(self) -> NDArray[np.int32]:
        return self._ordinal.values

    @property
    def role(self) -> NDArray[np.int8]:
        return self._role.values

    @property
    def speaker(self) -> NDArray[np.int32]:
        return self._speaker.values

    @property
    def flags(self) -> NDArray[np.uint8]:
        return self._flags.values

    @property
    def told(self) -> NDArray[np.int64]:
        return self._told.values

    @property
    def time(self) -> NDArray[np.int64]:
        return self._time.values

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Number of terms that each row has in `layers`."""
        return self._lengths.values

    @property
    def has_vector(self) -> NDArray[np.bool_]:
        """Mask of the rows that have a vector now; a copy."""
        return self._has_vector.values.copy()

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Unit vectors; undefined for rows without one."""
        return self._vectors.values

    def _episode_number(self, episode_id: UUID) -> int:
        number = self._episode_numbers.setdefault(episode_id, len(self.episode_ids))
        if number == len(self.episode_ids):
            self.episode_ids.append(episode_id)
            self._has_turns.extend_zeros(1)
        return number

    def _speaker_number(self, speaker: bytes) -> int:
        number = self._speaker_numbers.setdefault(speaker, len(self.speakers))
        if number == len(self.speakers):
            if len(speaker) % row_format.NUMBER:
                raise ValueError("the packed terms of a speaker's name are truncated")
            self.speakers.append(speaker)
        return number

    def _append_late_vectors(self, block: RecallBlock) -> None:
        late = [(seq, vector) for seq, vector in block.late if seq in self._waiting]
        if late:
            rows = np.searchsorted(self.seq, [seq for seq, _ in late])
            self._set_vectors(rows, [vector for _, vector in late])
            self._waiting.difference_update(seq for seq, _ in late)

    def _append_vectors(self, block: RecallBlock) -> None:
        is_mine = np.array([model == self.model for model in block.models], np.bool_)
        mine = is_mine[block.model].tolist()
        may_come = [model not in (self.model, "") for model in block.models]
        self._waiting.update(block.seq[np.array(may_come, np.bool_)[block.model]].tolist())
        first = len(self._has_vector)
        self._has_vector.extend_zeros(len(block))
        if self.dimension and self._keeps_vectors:
            self._vectors.extend_zeros(len(block))
        given = [
            (first + row, vector)
            for row, vector in enumerate(block.vectors)
            if vector is not None and mine[row]
        ]
        if given:
            self._set_vectors([row for row, _ in given], [vector for _, vector in given])

    def _set_vectors(self, rows: list[int] | NDArray[np.intp], packed: Sequence[bytes]) -> None:
        found = unpack_vectors(packed, self.dimension or dimension_of(packed[0]))
        self._has_vector.values[rows] = True
        if not self.dimension:
            self.dimension = found.shape[1]
            if self._keeps_vectors:
                self._vectors = GrowingArray(np.float32, self.dimension)
                # Spare capacity, so that the next row appended does not copy the whole array.
                self._vectors.reserve(max(self._expected, len(self)) * 9 // 8)
                self._vectors.extend_zeros(len(self._has_vector))
        if self._keeps_vectors:
            self._vectors.values[rows] = found

    def _list_terms(self) -> None:
        """Add unlisted terms to `layers`, but not those of summaries that repeat their turns."""
        terms, counts, row_of = (np.concatenate(flat) for flat in zip(*self._unlisted, strict=True))
        new = self._repeating()[self._listed :].nonzero()[0]
        if len(new) or len(self._lone):
            summaries = np.concatenate([self._lone, self._listed + new])
            spoken = self._has_turns.values[self.episode[summaries]]
            self._lone, wordless = summaries[~spoken], summaries[spoken]
            self._lengths.values[wordless] = 0
            has_words = np.ones(len(self), np.bool_)
            has_words[wordless] = False
            keep = has_words[row_of]
            terms, counts, row_of = terms[keep], counts[keep], row_of[keep]
            if len(wordless) and wordless[0] < self._listed:
                # An episode that had only a summary has turns again.
                number = np.arange(len(self), dtype=np.int32)
                number[wordless] = -1
                self.layers = tuple(layer.renumbered(number) for layer in self.layers)
        self.layers = with_rows(self.layers, terms, counts, row_of)
        self._unlisted, self._listed = [], len(self)


def _renumber(numbers: NDArray[np.int32], values: list[T]) -> tuple[NDArray[np.int32], list[T]]:
    """Numbers in order of first appearance, and the values they stand for; -1 stays -1."""
    seen = [number for number in dict.fromkeys(numbers.tolist()) if number >= 0]
    new = np.full(len(values) + 1, -1, np.int32)
    new[seen] = np.arange(len(seen))
    return new[numbers], [values[number] for number in seen]
