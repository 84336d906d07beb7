"""A scope's columns as recall wants them: in order, with postings."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...domain import hashing
from ...domain.bm25 import Postings
from ...domain.rows import Rows
from ...ports.index import ScopeView
from .columns import Columns

Floats = NDArray[np.float32]
Seqs = NDArray[np.int64]
Search: TypeAlias = Callable[[Floats], tuple[Seqs, Floats]]
"""A question's vector to the rows that were reached and their cosines."""
_QUESTIONS_KEPT = 4


class OrderedView(ScopeView):
    """Everything but the vectors."""

    def __init__(self, columns: Columns) -> None:
        order = columns.order()
        # Episodes are numbered in the order they stand in, which numbers by first sight are not.
        seen = columns.episode[order]
        starts = np.flatnonzero(np.diff(seen, prepend=-1))
        episode = np.repeat(
            np.arange(len(starts), dtype=np.int32), np.diff(starts, append=len(seen))
        )
        self.episode_ids = [columns.episode_ids[number] for number in seen[starts]]
        self.ordinals = columns.ordinal[order]
        self.speakers = columns.speakers
        self.rows = Rows.build(
            episode=episode,
            role=columns.role[order],
            speaker=columns.speaker[order],
            time=columns.time[order],
            flags=columns.flags[order],
        )
        terms, counts, row_of = hashing.unpack_all([columns.terms[row] for row in order])
        self.postings = Postings.build(terms=terms, counts=counts, row_of=row_of, rows=self.rows)
        self._order = order

    @property
    def size(self) -> int:
        """About how many bytes it keeps in memory."""
        return 64 * len(self.ordinals) + 16 * len(self.postings)


class ExactView(OrderedView):
    """With the vectors themselves."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        self._vectors = columns.vectors[self._order]

    def cosine(self, vector: Floats) -> Floats:
        if self._vectors.shape[1] != len(vector):
            return np.full(len(self._vectors), np.nan, np.float32)
        return self._vectors @ vector

    @property
    def size(self) -> int:
        return self._vectors.nbytes + super().size


class RemoteView(OrderedView):
    """The vectors are elsewhere. What is not found there is asked of the store."""

    def __init__(
        self, columns: Columns, search: Search, read: Callable[[Sequence[int], Floats], Floats]
    ) -> None:
        """`read` gives the cosines of these rows by the store's own vectors, NaN for those gone."""
        super().__init__(columns)
        self._dimension = columns.dimension
        self._has = columns.has[self._order]
        self._seq = columns.seq[self._order]
        self._by_seq = np.argsort(self._seq)
        self._search, self._read = search, read
        # The same question to the same view has the same answer, whatever was removed since.
        self._answers: OrderedDict[bytes, Floats] = OrderedDict()
        self._lock = threading.Lock()

    def cosine(self, vector: Floats) -> Floats:
        if self._dimension != len(vector) or not self._has.any():
            return np.full(len(self._seq), np.nan, np.float32)
        question = vector.tobytes()
        with self._lock:
            known = self._answers.get(question)
        if known is None:
            known = self._ask(vector)
            with self._lock:
                self._answers[question] = known
                if len(self._answers) > _QUESTIONS_KEPT:
                    self._answers.popitem(last=False)
        return known.copy()

    def _ask(self, vector: Floats) -> Floats:
        found = np.full(len(self._seq), np.nan, np.float32)
        seqs, cosines = self._search(vector)
        if len(seqs):
            in_order = self._seq[self._by_seq]
            at = np.minimum(np.searchsorted(in_order, seqs), len(in_order) - 1)
            mine = in_order[at] == seqs
            found[self._by_seq[at[mine]]] = cosines[mine]
            found[~self._has] = np.nan
        missing = np.flatnonzero(self._has & np.isnan(found))
        if len(missing):
            found[missing] = self._read(self._seq[missing].tolist(), vector)
        return found
