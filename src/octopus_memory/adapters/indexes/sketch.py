"""A sketch of a very large scope: enough of each row to find candidates for a question.

It keeps the sign of each vector component and the hashed terms; a search then reads the few
candidate rows from the store. A row takes about 150 bytes instead of two thousand. Rows are stored
in segments, so that row and episode numbers fit 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search import row_format
from ...domain.search.bm25 import ScopeCounts
from ...domain.search.features import SUMMARY
from ...domain.search.row_format import vector_signs
from ...domain.search.term_lists import (
    Layers,
    TermList,
    occurrences,
    ranges,
    row_counts,
    with_newer,
)
from ...ports.index import Probe
from ...ports.recall_rows import RecallBlock, RecallRows, RecallState
from .cached_index import MAX_EPISODES, MAX_UNINDEXED, stored_cosines, view_of_rows
from .scope_views import ExactView

_ROWS = 65_536
"""Rows per segment: 16 bits number them."""
_SECOND = 1_000_000
_EPISODE_BYTES = 320
_SAMPLE_BYTES = 6_000_000
_SAMPLE_GROWTH = 1.2
_FAR = np.uint16(65_535)

Signs: TypeAlias = NDArray[np.uint64]
RowNumbers: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hits:
    """Rows found, with a weight each: more is better."""

    seq: NDArray[np.int64]
    episode_ids: Sequence[UUID]
    weight: NDArray[np.floating[Any]]

    def best(self, most: int) -> Hits:
        order = np.argsort(-self.weight, kind="stable")[:most]
        return Hits(
            seq=self.seq[order],
            episode_ids=[self.episode_ids[row] for row in order.tolist()],
            weight=self.weight[order],
        )


class Segment:
    """Up to `_ROWS` consecutive rows.

    Late vectors are written in place. A search at the same moment may or may not see them.
    """

    def __init__(self, with_turns: set[UUID]) -> None:
        """`with_turns` holds the episodes that have turns in this segment or an earlier one."""
        self.count = 0
        self.layers: Layers = ()
        self._with_turns = with_turns
        self.waiting: set[int] = set()
        self._seq = np.zeros(_ROWS, np.int64)
        self._episode = np.zeros(_ROWS, np.uint16)
        self._second = np.zeros(_ROWS, np.int64)
        self._is_turn = np.zeros(_ROWS, np.bool_)
        self._has_vector = np.zeros(_ROWS, np.bool_)
        self._signs: Signs = np.zeros((0, _ROWS), np.uint64)
        self._has_turns = np.zeros(_ROWS, np.bool_)
        self._numbers: dict[UUID, int] = {}
        self._ids: list[UUID] = []
        self._unlisted: list[TermList] = []

    def has_room_for(self, block: RecallBlock) -> bool:
        return self.count + len(block) <= _ROWS

    @property
    def episodes(self) -> int:
        return len(self._ids)

    @property
    def size(self) -> int:
        row_bytes = 8 + 2 + 8 + 1 + 1 + 8 * len(self._signs)
        words = sum(layer.size for layer in self.layers)
        return row_bytes * self.count + words + _EPISODE_BYTES * len(self._ids)

    def append(self, block: RecallBlock, model: str) -> None:
        first, end = self.count, self.count + len(block)
        numbers = np.array([self._episode_number(known) for known in block.episode_ids], np.uint16)
        self._seq[first:end] = block.seq
        self._second[first:end] = block.at // _SECOND
        self._episode[first:end] = numbers[block.episode]
        self._is_turn[first:end] = block.role != SUMMARY
        spoken = np.unique(block.episode[block.role != SUMMARY]).tolist()
        self._with_turns.update(block.episode_ids[number] for number in spoken)
        has_turns = [known in self._with_turns for known in block.episode_ids]
        self._has_turns[numbers[has_turns]] = True
        self._append_signs(block, model)
        terms, counts, row_of = row_format.unpack_all(block.terms)
        self._unlisted.append(TermList.build(terms, counts, (row_of + first).astype(np.uint16)))
        self.count = end

    def copy_alive(self, is_alive: NDArray[np.bool_], with_turns: set[UUID]) -> Segment:
        """A segment of the rows whose `seq` is marked; `with_turns` is of the segments before."""
        self.list_terms()
        rows = is_alive[self._seq[: self.count]].nonzero()[0]
        left, count = Segment(with_turns), len(rows)
        left.count = count
        left.waiting = {seq for seq in self.waiting if is_alive[seq]}
        for name in ("_seq", "_second", "_is_turn", "_has_vector"):
            getattr(left, name)[:count] = getattr(self, name)[rows]
        left._signs = np.zeros((len(self._signs), _ROWS), np.uint64)
        left._signs[:, :count] = self._signs[:, rows]
        known, episode = np.unique(self._episode[rows], return_inverse=True)
        left._ids = [self._ids[number] for number in known.tolist()]
        left._numbers = {episode_id: number for number, episode_id in enumerate(left._ids)}
        left._episode[:count] = episode
        with_turns.update(left._ids[number] for number in np.unique(episode[left._is_turn[:count]]))
        left._has_turns[: len(known)] = [episode_id in with_turns for episode_id in left._ids]
        if count == self.count:
            left.layers = self.layers
        else:
            number = np.full(_ROWS, -1, np.int32)
            number[rows] = np.arange(count)
            left.layers = tuple(layer.renumbered(number) for layer in self.layers)
        return left

    def list_terms(self) -> None:
        """Add the terms of appended rows to the term lists."""
        for newer in self._unlisted:
            self.layers = with_newer(self.layers, newer)
        self._unlisted = []

    def set_late_vectors(self, late: Sequence[tuple[int, bytes]]) -> None:
        """Write the vectors of rows that were appended without one."""
        mine = [(seq, vector) for seq, vector in late if seq in self.waiting]
        if mine:
            rows = np.searchsorted(self._seq[: self.count], [seq for seq, _ in mine])
            self._set_signs(rows, [vector for _, vector in mine])
            self.waiting.difference_update(seq for seq, _ in mine)

    def nearest(self, probe: Probe, most: int) -> Hits:
        """The rows whose vector signs differ least from the question's."""
        if probe.vector is None or not len(self._signs):
            return self._hits(np.empty(0, np.intp), np.empty(0, np.float32))
        asked = pack_signs(probe.vector[None] >= 0)[0]
        if len(asked) != len(self._signs):
            return self._hits(np.empty(0, np.intp), np.empty(0, np.float32))
        count = self.count
        apart = np.zeros(count, np.uint16)
        for mine, its in zip(self._signs[:, :count], asked, strict=True):
            apart += count_ones(mine ^ its)
        apart[~self._has_vector[:count]] = _FAR
        self._filter(apart, probe, int(_FAR))
        rows = _least(apart, most)
        rows = rows[apart[rows] < _FAR]
        return self._hits(rows, -apart[rows].astype(np.float32))

    def best_by_terms(self, probe: Probe, most: int) -> Hits:
        """The rows with the rarest of the question's terms."""
        # Read once: another thread may be appending rows.
        count, layers, terms = self.count, self.layers, np.unique(probe.terms)
        at = ranges(layers, terms)
        which, row, times = occurrences(layers, at)
        rarity = np.log1p((count + 0.5) / (row_counts(at, len(terms)) + 0.5))
        often = times.astype(np.float32)
        lacking = -np.bincount(row, rarity[which] * often / (often + 1), count)[:count]
        self._filter(lacking, probe, 0)
        rows = _least(lacking, most)
        rows = rows[lacking[rows] < 0]
        return self._hits(rows, np.abs(lacking[rows]))

    def row_counts(self, terms: NDArray[np.uint32]) -> NDArray[np.intp]:
        """Number of rows that have each term."""
        return row_counts(ranges(self.layers, terms), len(terms))

    def newest_episodes(self, probe: Probe, most: int) -> Hits:
        """The last row of each of the newest episodes."""
        left = np.ones(self.count, np.bool_)
        self._filter(left, probe, value=False)
        rows = np.flatnonzero(left)[::-1]
        _, first = np.unique(self._episode[rows], return_index=True)
        rows = rows[np.sort(first)[:most]]
        return self._hits(rows, self._seq[rows].astype(np.float32))

    def rows_of(self, episode_ids: Iterable[UUID]) -> NDArray[np.int64]:
        """The `seq` of every row of these episodes."""
        numbers = [self._numbers[known] for known in episode_ids if known in self._numbers]
        if not numbers:
            return np.empty(0, np.int64)
        wanted, count = np.zeros(_ROWS, np.bool_), self.count
        wanted[numbers] = True
        return self._seq[:count][wanted[self._episode[:count]]]

    def _episode_number(self, episode_id: UUID) -> int:
        number = self._numbers.setdefault(episode_id, len(self._ids))
        if number == len(self._ids):
            self._ids.append(episode_id)
        return number

    def _append_signs(self, block: RecallBlock, model: str) -> None:
        mine = [known == model for known in block.models]
        may_come = np.array([known not in (model, "") for known in block.models], np.bool_)
        self.waiting.update(block.seq[may_come[block.model]].tolist())
        given = [
            (self.count + row, vector)
            for row, (vector, known) in enumerate(
                zip(block.vectors, block.model.tolist(), strict=True)
            )
            if vector is not None and mine[known]
        ]
        if given:
            self._set_signs([row for row, _ in given], [vector for _, vector in given])

    def _set_signs(self, rows: list[int] | NDArray[np.intp], packed: Sequence[bytes]) -> None:
        signs = pack_signs(vector_signs(packed))
        if not len(self._signs):
            self._signs = np.zeros((signs.shape[1], _ROWS), np.uint64)
        self._signs[:, rows] = signs.T
        self._has_vector[rows] = True

    def _filter(self, values: NDArray[Any], probe: Probe, value: float) -> None:
        """Set rows to `value` that the probe's filters exclude. Times are rounded to seconds."""
        count = len(values)
        if probe.since is not None:
            values[self._second[:count] < probe.since // _SECOND] = value
        if probe.until is not None:
            values[self._second[:count] > probe.until // _SECOND] = value
        if not probe.include_archived:
            values[~self._has_turns[self._episode[:count]]] = value

    def _hits(self, rows: RowNumbers, weight: NDArray[np.floating[Any]]) -> Hits:
        episodes = self._episode[rows].tolist()
        return Hits(
            seq=self._seq[rows],
            episode_ids=[self._ids[number] for number in episodes],
            weight=weight,
        )


class Sketch:
    """Cache entry of a very large scope: its segments."""

    def __init__(self, model: str) -> None:
        self.newest = 0
        self.segments: tuple[Segment, ...] = ()
        self._model = model
        self._with_turns: set[UUID] = set()
        self._sample: ExactView | None = None
        self._sampled = 0
        """Number of rows when the sample was taken."""

    def __len__(self) -> int:
        return sum(segment.count for segment in self.segments)

    @property
    def waiting(self) -> list[int]:
        return sorted(seq for segment in self.segments for seq in segment.waiting)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments) + _SAMPLE_BYTES

    def sample(self, take: Callable[[], ExactView]) -> ExactView:
        """The sample of the scope. Calls `take` for a new one after the scope has grown."""
        sample = self._sample
        if sample is None or len(self) > self._sampled * _SAMPLE_GROWTH:
            sample = self._sample = take()
            self._sampled = len(self)
        return sample

    def reserve(self, count: int) -> None:
        """Do nothing: segments are allocated at full size."""

    def append(self, block: RecallBlock) -> None:
        for segment in self.segments if block.late else ():
            segment.set_late_vectors(block.late)
        if not len(block):
            return
        if not self.segments or not self.segments[-1].has_room_for(block):
            if self.segments:
                self.segments[-1].list_terms()
            self.segments = (*self.segments, Segment(self._with_turns))
        self.segments[-1].append(block, self._model)

    def copy_alive(self, known: Sketch, alive: NDArray[np.int64]) -> None:
        is_alive = np.zeros(known.newest + 1, np.bool_)
        is_alive[alive] = True
        left = [segment.copy_alive(is_alive, self._with_turns) for segment in known.segments]
        self.segments = tuple(segment for segment in left if segment.count)
        self.newest = known.newest

    def refreshed(self, scope: Scope, state: RecallState) -> None:  # noqa: ARG002 - the same for every scope
        for segment in self.segments[-1:]:
            segment.list_terms()


def merge_hits(hits: Sequence[Hits]) -> Hits:
    """The hits of all segments as one."""
    return Hits(
        seq=np.concatenate([some.seq for some in hits]),
        episode_ids=[known for some in hits for known in some.episode_ids],
        weight=np.concatenate([some.weight for some in hits]),
    )


def pack_signs(above: NDArray[np.bool_]) -> Signs:
    """Return one bit per component, packed in 64-bit integers."""
    packed = np.packbits(above, axis=1)
    packed = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))
    return np.ascontiguousarray(packed).view(np.uint64)


def _least(values: NDArray[Any], most: int) -> RowNumbers:
    if len(values) <= most:
        return np.arange(len(values))
    return np.argpartition(values, most)[:most]


def count_ones_by_table(numbers: Signs) -> NDArray[np.uint8]:
    """`np.bitwise_count` for numpy before 2.0."""
    table = np.array([byte.bit_count() for byte in range(256)], np.uint8)
    counted = table[numbers[:, None].view(np.uint8)]
    ones: NDArray[np.uint8] = counted.sum(axis=1, dtype=np.uint8)
    return ones


count_ones = getattr(np, "bitwise_count", count_ones_by_table)
"""Counts the bits set in each integer."""


_COMPARED = 600
"""Candidates by signs that are compared by their vectors, because signs order them only roughly."""
_STRETCHES, _STRETCH = 50, 64
_MIN_SAMPLE = 500
_MOST_ROWS = 10_000
"""Most rows read for one question, unless a long list of episodes is asked for."""


def search_sketch(
    store: RecallRows, scope: Scope, model: str, probe: Probe, sketch: Sketch, newest: int
) -> ExactView:
    """A view of the episodes near the probe and of the rows without a vector yet."""
    wanted = max(MAX_EPISODES, probe.episodes)
    found = _Candidates(probe, max(_COMPARED, 2 * wanted))
    for segment in sketch.segments:
        found.search(segment)
    meaning = _rerank(store, scope, model, probe, found.near)
    hits = _interleave(meaning, found.by_terms, wanted)
    if len(set(hits.episode_ids)) < probe.episodes:
        newest_hits = [
            segment.newest_episodes(probe, probe.episodes) for segment in sketch.segments
        ]
        hits = merge_hits([hits, merge_hits(newest_hits).best(probe.episodes)])
    chosen = frozenset(hits.episode_ids)
    rows = np.concatenate([segment.rows_of(chosen) for segment in sketch.segments])
    seqs = _around_hits(rows, hits.seq, max(_MOST_ROWS, 20 * wanted))
    view = view_of_rows(
        store, scope, model, sorted({*seqs, *sorted(found.waiting)[-MAX_UNINDEXED:]})
    )
    sample = sketch.sample(lambda: view_of_rows(store, scope, model, _stretches(newest)))
    found.normalize(view, sample)
    return view


class _Candidates:
    """Candidate rows of all segments, and counts over the whole scope."""

    def __init__(self, probe: Probe, most: int) -> None:
        self._probe, self._most = probe, most
        self._terms = np.unique(probe.terms)
        self._having = np.zeros(len(self._terms), np.intp)
        self._near: list[Hits] = []
        self._by_terms: list[Hits] = []
        self._rows = self._episodes = 0
        self.waiting: list[int] = []

    def search(self, segment: Segment) -> None:
        self._near.append(segment.nearest(self._probe, self._most))
        self._by_terms.append(segment.best_by_terms(self._probe, self._most))
        self._having += segment.row_counts(self._terms)
        self._rows += segment.count
        self._episodes += segment.episodes
        self.waiting += segment.waiting

    @property
    def near(self) -> Hits:
        return merge_hits(self._near).best(self._most)

    @property
    def by_terms(self) -> Hits:
        return merge_hits(self._by_terms).best(self._most)

    def normalize(self, view: ExactView, sample: ExactView) -> None:
        """Give the view term counts of the whole scope and a sample of its rows."""
        if len(sample.rows) < _MIN_SAMPLE:
            return
        scope_counts = ScopeCounts(
            rows=self._rows,
            episodes=self._episodes,
            terms=self._terms,
            having=self._having,
            sampled=sample.rows.episodes,
            sampled_having=sample.postings.episodes_having(self._terms),
        )
        view.sample = copy(sample)
        for either in (view, view.sample):
            either.postings = replace(either.postings, scope_counts=scope_counts)


def _stretches(newest: int) -> list[int]:
    """The `seq` of rows in stretches from all over the scope."""
    starts = range(1, newest + 1, max(_STRETCH, newest // _STRETCHES))
    return [seq for start in starts for seq in range(start, start + _STRETCH)]


def _rerank(store: RecallRows, scope: Scope, model: str, probe: Probe, near: Hits) -> Hits:
    """Hits weighted by the cosine of their stored vectors, without rows that have none."""
    if probe.vector is None or not len(near.seq):
        return near
    cosines = stored_cosines(store, scope, model, near.seq.tolist(), probe.vector)
    known = int(np.count_nonzero(~np.isnan(cosines)))
    return replace(near, weight=np.nan_to_num(cosines, nan=-2.0)).best(known)


def _interleave(meaning: Hits, words: Hits, episodes: int) -> Hits:
    """Hits of both lists taken alternately, best first, until they cover `episodes` episodes."""
    ranks = [
        np.arange(len(meaning.seq)) * 2.0,
        np.arange(len(words.seq)) * 2.0 + 1,
    ]
    both = replace(merge_hits([meaning, words]), weight=-np.concatenate(ranks).astype(np.float32))
    both = both.best(len(both.seq))
    seen: set[UUID] = set()
    for i, episode_id in enumerate(both.episode_ids):
        seen.add(episode_id)
        if len(seen) == episodes:
            return both.best(i + 1)
    return both


def _around_hits(rows: NDArray[np.int64], hits: NDArray[np.int64], most: int) -> list[int]:
    """At most `most` of these rows: those closest to a hit."""
    if len(rows) > most:
        found = np.sort(hits)
        after = np.searchsorted(found, rows).clip(1, len(found) - 1)
        apart = np.minimum(abs(rows - found[after - 1]), abs(rows - found[after]))
        rows = rows[np.argsort(apart, kind="stable")[:most]]
    near: list[int] = rows.tolist()
    return near
