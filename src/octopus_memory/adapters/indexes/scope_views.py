"""A scope's columns as recall wants them: in order, with postings."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search.bm25 import Postings
from ...domain.search.features import Rows
from ...ports.index import ScopeView
from ...ports.store import RecallState
from .scope_columns import Columns

Floats = NDArray[np.float32]
Seqs = NDArray[np.int64]
Search: TypeAlias = Callable[[Floats], tuple[Seqs, Floats]]
"""A question's vector to the rows that were reached and their cosines."""
D = TypeVar("D", bound=np.generic)
V = TypeVar("V", bound="OrderedView")
_QUESTIONS_KEPT = 4
_FEW = 512
"""Rows that are looked at anew in less time than joining what is new to what is known."""
_MANY = 8_192
"""Rows that are multiplied faster by all cores, where numpy's library may use them."""
_OF_A_ROW, _OF_A_MOVED_ROW = 72, 118
"""Bytes of a row in `Rows`, `Postings` and, where rows do not stand as they came, the order."""


class OrderedView(ScopeView):
    """Everything but the vectors."""

    def __init__(self, columns: Columns, before: OrderedView | None = None) -> None:
        """`before` is the view of these columns when there were fewer rows, or as many."""
        if before is not None and len(before.ordinals) == len(columns):
            for name in ("_order", "episode_ids", "ordinals", "speakers", "rows", "postings"):
                setattr(self, name, getattr(before, name))
            return
        columns.arrange()
        self._order = columns.order
        episode = self._ordered(columns.episode)
        self.episode_ids = list(columns.episode_ids)
        if self._order is not None:
            # Numbered in the order they stand in, which the numbers by first sight are not.
            starts = np.flatnonzero(np.diff(episode, prepend=-1))
            self.episode_ids = [self.episode_ids[number] for number in episode[starts].tolist()]
            sizes = np.diff(starts, append=len(episode))
            episode = np.repeat(np.arange(len(starts), dtype=np.int32), sizes)
        self.ordinals = self._ordered(columns.ordinal)
        self.speakers = list(columns.speakers)
        goes_on = len(episode) > _FEW and self.as_they_came
        make = before.rows.extended if before and goes_on and before.as_they_came else Rows.build
        self.rows = make(
            episode=episode,
            role=self._ordered(columns.role),
            speaker=self._ordered(columns.speaker),
            time=self._ordered(columns.time),
            flags=self._ordered(columns.flags),
        )
        self.postings = Postings.of(
            columns.layers, self._ordered(columns.words), self.rows, columns.place_of
        )

    @property
    def as_they_came(self) -> bool:
        """Whether the rows stand in the order in which they were stored."""
        return self._order is None

    def _ordered(self, column: NDArray[D]) -> NDArray[D]:
        return column if self._order is None else column[self._order]

    @property
    def size(self) -> int:
        """About how many bytes it keeps in memory, besides the columns."""
        return (_OF_A_ROW if self._order is None else _OF_A_MOVED_ROW) * len(self.ordinals)


class ExactView(OrderedView):
    """With the vectors themselves."""

    def __init__(self, columns: Columns, before: OrderedView | None = None) -> None:
        super().__init__(columns, before)
        self._vectors = columns.vectors
        self._lacking = np.flatnonzero(~columns.has)

    def cosine(self, vector: Floats) -> Floats:
        if self._vectors.shape[1] != len(vector):
            return np.full(len(self.ordinals), np.nan, np.float32)
        cosines = _dot_products(self._vectors, vector)
        cosines[self._lacking] = np.nan
        return self._ordered(cosines)


def _dot_products(vectors: Floats, vector: Floats) -> Floats:
    """Of each row with `vector`."""
    if len(vectors) > _MANY:
        many: Floats = vectors @ vector
        return many
    # `@` wakes a thread on every core, and each then spins for longer than a whole recall takes.
    few: Floats = np.einsum("ij,j->i", vectors, vector)
    return few


class RemoteView(OrderedView):
    """The vectors are elsewhere. What is not found there is asked of the store."""

    def __init__(
        self,
        columns: Columns,
        search: Search,
        read: Callable[[Sequence[int], Floats], Floats],
        before: OrderedView | None = None,
    ) -> None:
        """`read` gives the cosines of these rows by the store's own vectors, NaN for those gone."""
        super().__init__(columns, before)
        self._dimension = columns.dimension
        self._has = self._ordered(columns.has)
        self._seq = self._ordered(columns.seq)
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


Look: TypeAlias = Callable[[Scope, RecallState, Columns, V | None], V]
"""Makes a view of columns; the last is the view of when they were fewer."""


class Whole(Columns, Generic[V]):
    """A scope in the cache: its columns, and the view of them."""

    def __init__(
        self,
        model: str,
        look: Look[V],
        *,
        keeps_vectors: bool = True,
    ) -> None:
        super().__init__(model, keeps_vectors=keeps_vectors)
        self._look = look
        self.view: V
        self._before: V | None = None

    def settle(self, scope: Scope, state: RecallState) -> None:
        self.view = self._before = self._look(scope, state, self, self._before)

    @property
    def size(self) -> int:
        return super().size + self.view.size
