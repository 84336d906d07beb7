"""A scope's recall rows as columns, in the order they came, taken in block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.search import term_hashing, vectors
from ...domain.search.features import SUMMARY
from ...domain.search.term_lists import Layers, with_rows
from ...domain.search.terms import Flag
from ...ports.recall_rows import SUMMARY_ORDINAL, RecallBlock
from .array_buffer import Growing
from .row_order import Ordering

T = TypeVar("T")
Flat: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int32]]
"""Terms, how often each is in its row, and the row."""
_LAST_PLACE = np.iinfo(np.int32).max
_OF_A_SCOPE = 12_000
"""Bytes that a scope takes however little is in it: objects, and arrays with a place or two."""
_OF_A_ROW = 39
"""Bytes of a row in the columns, without its vector."""
_OF_AN_EPISODE = 250
"""About how many bytes an episode's id and number take."""
_OF_A_SUMMARY = 300
"""About how many its words take, as they were read."""
_AS_THEY_ARE = ("_seq", "_ordinal", "_place", "_role", "_flags", "_time", "_has", "_words")
"""The columns that say the same whatever other rows there are."""


class Columns:
    """Rows are only added, so that a view of fewer of them stays true; one thread does so.

    Of the rows that are there only one thing changes: some get their vector later. A view knows
    which had one when it was made. Where rows are gone, other columns take over the rest.
    """

    def __init__(self, model: str, *, keeps_vectors: bool = True) -> None:
        """Without `keeps_vectors`, only which rows have one is known."""
        self.model = model
        self.newest = 0
        """The `seq` up to which rows were taken in."""
        self.dimension = 0
        """0 before the first vector."""
        self.layers: Layers = ()
        self.episode_ids: list[UUID] = []
        self.speakers: list[bytes] = []
        self._keeps_vectors = keeps_vectors
        self._expected = 0
        self._numbers: dict[UUID, int] = {}
        self._names: dict[bytes, int] = {b"": -1}
        self._waiting: set[int] = set()
        self._seq: Growing[np.int64] = Growing(np.int64)
        self._episode: Growing[np.int32] = Growing(np.int32)
        self._ordinal: Growing[np.int32] = Growing(np.int32)
        self._place: Growing[np.int32] = Growing(np.int32)
        """The ordinal, but for a summary, which stands last."""
        self._role: Growing[np.int8] = Growing(np.int8)
        self._speaker: Growing[np.int32] = Growing(np.int32)
        self._flags: Growing[np.uint8] = Growing(np.uint8)
        self._time: Growing[np.int64] = Growing(np.int64)
        self._has: Growing[np.bool_] = Growing(np.bool_)
        self._words: Growing[np.int32] = Growing(np.int32)
        self._vectors: Growing[np.float32] = Growing(np.float32, 0)
        self._ordering = Ordering()
        self._unlisted: list[Flat] = []
        """Terms that are not in the layers yet."""
        self._listed = 0
        """How many rows are."""
        self._has_turns: Growing[np.bool_] = Growing(np.bool_)
        """By episode."""
        self._lone: NDArray[np.intp] = np.empty(0, np.intp)
        """Summaries whose episodes have no turns."""
        self._summaries: dict[int, bytes] = {}
        """The words of each summary by its `seq`: they count when the turns are gone."""

    def __len__(self) -> int:
        return len(self._seq)

    @property
    def waiting(self) -> list[int]:
        """The `seq` of each row that may still get a vector of this model."""
        return sorted(self._waiting)

    @property
    def size(self) -> int:
        """About how many bytes they keep in memory."""
        return (
            _OF_A_SCOPE
            + _OF_A_ROW * len(self)
            + self._vectors.size
            + sum(layer.size for layer in self.layers)
            + _OF_AN_EPISODE * len(self.episode_ids)
            + _OF_A_SUMMARY * len(self._summaries)
        )

    def reserve(self, count: int) -> None:
        """At most so many rows more are going to be taken in."""
        self._expected = len(self) + count

    def take_in(self, block: RecallBlock) -> None:
        """Rows with a `seq` above all that are there."""
        self._take_late(block)
        if not len(block):
            return
        first = len(self)
        episode = np.array([self._number(known) for known in block.episode_ids], np.int32)
        speaker = np.array([self._name(known) for known in block.speakers], np.int32)
        self._seq.extend(block.seq)
        self._episode.extend(episode[block.episode])
        self._ordinal.extend(block.ordinal)
        self._place.extend(np.where(block.ordinal == SUMMARY_ORDINAL, _LAST_PLACE, block.ordinal))
        self._role.extend(block.role)
        self._speaker.extend(speaker[block.speaker])
        self._flags.extend(block.flags)
        self._time.extend(block.at)
        terms, counts, row_of = term_hashing.unpack_all(block.terms)
        self._words.extend(np.bincount(row_of, weights=counts, minlength=len(block)))
        self._unlisted.append((terms, counts, row_of + np.int32(first)))
        for row in (block.role == SUMMARY).nonzero()[0].tolist():
            self._summaries[int(block.seq[row])] = block.terms[row]
        self._has_turns.values[self._episode.values[first:][block.role != SUMMARY]] = True
        self._take_vectors(block)
        self.newest = int(block.seq[-1])

    def take_over(self, known: Columns, alive: NDArray[np.int64]) -> None:
        """Begin with the rows of `known` that have one of these `seq`, as if it had no other."""
        if known._unlisted:
            known._list_terms()
        is_alive = np.zeros(known.newest + 1, np.bool_)
        is_alive[alive] = True
        rows = is_alive[known.seq].nonzero()[0]
        number = np.full(len(known), -1, np.int32)
        number[rows] = np.arange(len(rows))
        self.newest, self.dimension = known.newest, known.dimension
        for name in _AS_THEY_ARE:
            getattr(self, name).extend(getattr(known, name).values[rows])
        episode, self.episode_ids = _by_first_sight(known.episode[rows], known.episode_ids)
        speaker, self.speakers = _by_first_sight(known.speaker[rows], known.speakers)
        self._episode.extend(episode)
        self._speaker.extend(speaker)
        self._numbers = {episode_id: number for number, episode_id in enumerate(self.episode_ids)}
        self._names |= {name: number for number, name in enumerate(self.speakers)}
        self._waiting = {seq for seq in known._waiting if is_alive[seq]}
        if self.dimension and self._keeps_vectors:
            self._vectors = Growing(np.float32, self.dimension)
            self._vectors.reserve(len(rows) * 9 // 8)
            self._vectors.lengthen(len(rows))
            # With `clip` it goes straight there: no row is out of range.
            known.vectors.take(rows, axis=0, out=self._vectors.values, mode="clip")
        self.layers = tuple(layer.renumbered(number) for layer in known.layers)
        self._listed = len(self)
        self._has_turns.lengthen(len(self.episode_ids))
        self._has_turns.values[episode[self.role != SUMMARY]] = True
        self._summaries = {seq: said for seq, said in known._summaries.items() if is_alive[seq]}
        self._list_alone(number[known._lone])

    def _repeating(self) -> NDArray[np.bool_]:
        """Which rows are summaries that only repeat their episode's turns."""
        repeating: NDArray[np.bool_] = (self.role == SUMMARY) & (self.flags & Flag.OWN_WORDS == 0)
        return repeating

    def _list_alone(self, listed: NDArray[np.int32]) -> None:
        """Summaries whose turns are gone have words again; those that were `listed` have theirs."""
        summaries = self._repeating().nonzero()[0]
        self._lone = summaries[~self._has_turns.values[self.episode[summaries]]]
        # A place more, for those below zero.
        is_listed = np.zeros(len(self) + 1, np.bool_)
        is_listed[listed] = True
        again = self._lone[~is_listed[self._lone]]
        if len(again):
            said = [self._summaries[seq] for seq in self.seq[again].tolist()]
            terms, counts, which = term_hashing.unpack_all(said)
            self._words.values[again] = np.bincount(which, weights=counts, minlength=len(again))
            self._unlisted = [(terms, counts, again[which].astype(np.int32))]

    def arrange(self) -> None:
        """Take what came since the last time into the order and the lists of terms."""
        if self._unlisted:
            self._list_terms()
        self._ordering.take_in(self.episode, self._place.values, self.time)

    @property
    def order(self) -> NDArray[np.intp] | None:
        """The rows by start of their episode, then by place in it, the summary last.

        None where they came in that order.
        """
        return self._ordering.order

    @property
    def place_of(self) -> NDArray[np.int32] | None:
        """Where each row stands in that order; None where they came in it."""
        return self._ordering.place_of

    @property
    def seq(self) -> NDArray[np.int64]:
        return self._seq.values

    @property
    def episode(self) -> NDArray[np.int32]:
        """Numbers by first sight."""
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
    def time(self) -> NDArray[np.int64]:
        return self._time.values

    @property
    def words(self) -> NDArray[np.int32]:
        """How many words each row has in the lists of terms."""
        return self._words.values

    @property
    def has(self) -> NDArray[np.bool_]:
        """Which rows have a vector now."""
        return self._has.values.copy()

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Unit vectors; of a row that has none whatever."""
        return self._vectors.values

    def _number(self, episode_id: UUID) -> int:
        number = self._numbers.setdefault(episode_id, len(self.episode_ids))
        if number == len(self.episode_ids):
            self.episode_ids.append(episode_id)
            self._has_turns.lengthen(1)
        return number

    def _name(self, speaker: bytes) -> int:
        number = self._names.setdefault(speaker, len(self.speakers))
        if number == len(self.speakers):
            if len(speaker) % term_hashing.NUMBER:
                raise ValueError("a name is of whole numbers")
            self.speakers.append(speaker)
        return number

    def _take_late(self, block: RecallBlock) -> None:
        late = [(seq, vector) for seq, vector in block.late if seq in self._waiting]
        if late:
            rows = np.searchsorted(self.seq, [seq for seq, _ in late])
            self._put(rows, [vector for _, vector in late])
            self._waiting.difference_update(seq for seq, _ in late)

    def _take_vectors(self, block: RecallBlock) -> None:
        is_mine = np.array([model == self.model for model in block.models], np.bool_)
        mine = is_mine[block.model].tolist()
        may_come = [model not in (self.model, "") for model in block.models]
        self._waiting.update(block.seq[np.array(may_come, np.bool_)[block.model]].tolist())
        first = len(self._has)
        self._has.lengthen(len(block))
        if self.dimension and self._keeps_vectors:
            self._vectors.lengthen(len(block))
        given = [
            (first + row, vector)
            for row, vector in enumerate(block.vectors)
            if vector is not None and mine[row]
        ]
        if given:
            self._put([row for row, _ in given], [vector for _, vector in given])

    def _put(self, rows: list[int] | NDArray[np.intp], packed: Sequence[bytes]) -> None:
        found = vectors.unpack(packed, self.dimension or vectors.dimension_of(packed[0]))
        self._has.values[rows] = True
        if not self.dimension:
            self.dimension = found.shape[1]
            if self._keeps_vectors:
                self._vectors = Growing(np.float32, self.dimension)
                # Room for what comes later, so that the first row to come need not make it.
                self._vectors.reserve(max(self._expected, len(self)) * 9 // 8)
                self._vectors.lengthen(len(self._has))
        if self._keeps_vectors:
            self._vectors.values[rows] = found

    def _list_terms(self) -> None:
        """A summary that repeats its turns has no words while its episode has them."""
        terms, counts, row_of = (np.concatenate(flat) for flat in zip(*self._unlisted, strict=True))
        new = self._repeating()[self._listed :].nonzero()[0]
        if len(new) or len(self._lone):
            summaries = np.concatenate([self._lone, self._listed + new])
            spoken = self._has_turns.values[self.episode[summaries]]
            self._lone, wordless = summaries[~spoken], summaries[spoken]
            self._words.values[wordless] = 0
            has_words = np.ones(len(self), np.bool_)
            has_words[wordless] = False
            keep = has_words[row_of]
            terms, counts, row_of = terms[keep], counts[keep], row_of[keep]
            if len(wordless) and wordless[0] < self._listed:
                # An episode that was only a summary has turns again.
                number = np.arange(len(self), dtype=np.int32)
                number[wordless] = -1
                self.layers = tuple(layer.renumbered(number) for layer in self.layers)
        self.layers = with_rows(self.layers, terms, counts, row_of)
        self._unlisted, self._listed = [], len(self)


def _by_first_sight(
    numbers: NDArray[np.int32], values: list[T]
) -> tuple[NDArray[np.int32], list[T]]:
    """Numbers given anew, in the order they are met in, and what they stand for; -1 stays."""
    met = [number for number in dict.fromkeys(numbers.tolist()) if number >= 0]
    new = np.full(len(values) + 1, -1, np.int32)
    new[met] = np.arange(len(met))
    return new[numbers], [values[number] for number in met]
