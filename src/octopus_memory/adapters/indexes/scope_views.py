"""Views of a scope's columns for recall: rows sorted, with BM25 postings and cosines."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search.bm25 import Postings
from ...domain.search.features import RowColumns, RowFeatures
from ...ports.index import ScopeView
from ...ports.recall_rows import RecallState
from .scope_columns import ScopeColumns

Floats = NDArray[np.float32]
Seqs = NDArray[np.int64]
Search: TypeAlias = Callable[[Floats], tuple[Seqs, Floats]]
"""Maps a question's vector to the `seq` and the cosine of each row found."""
D = TypeVar("D", bound=np.generic)
V = TypeVar("V", bound="OrderedView")
_CACHED_ANSWERS = 4
_FEW = 512
"""Below this many rows, computing features anew is faster than extending them."""
_MANY = 8_192
"""Above this many rows, a matrix product on all cores is faster than on one."""
_ROW_BYTES, _SORTED_ROW_BYTES = 72, 118
"""Bytes of a row in `RowFeatures` and `Postings`; more if the rows had to be sorted."""


class OrderedView(ScopeView):
    """A view without its vectors: base of `ExactView` and `RemoteView`."""

    def __init__(self, columns: ScopeColumns, before: OrderedView | None = None) -> None:
        """`before` is an earlier view of the same columns, reused as far as it is still valid."""
        if before is not None and len(before.ordinals) == len(columns):
            for name in ("_order", "episode_ids", "ordinals", "speakers", "rows", "postings"):
                setattr(self, name, getattr(before, name))
            return
        columns.update_order()
        self._order = columns.order
        episode = self._ordered(columns.episode)
        self.episode_ids = list(columns.episode_ids)
        if self._order is not None:
            # Renumber episodes in sort order; the columns number them by first appearance.
            starts = np.flatnonzero(np.diff(episode, prepend=-1))
            self.episode_ids = [self.episode_ids[number] for number in episode[starts].tolist()]
            sizes = np.diff(starts, append=len(episode))
            episode = np.repeat(np.arange(len(starts), dtype=np.int32), sizes)
        self.ordinals = self._ordered(columns.ordinal)
        self.speakers = list(columns.speakers)
        extends = len(episode) > _FEW and self.is_stored_order
        make = (
            before.rows.extended
            if before and extends and before.is_stored_order
            else RowFeatures.build
        )
        names = ("role", "speaker", "time", "flags", "told")
        others = {name: self._ordered(getattr(columns, name)) for name in names}
        self.rows = make(RowColumns(episode=episode, **others))
        self.postings = Postings.of(
            columns.layers, self._ordered(columns.lengths), self.rows, columns.position_of
        )

    @property
    def is_stored_order(self) -> bool:
        """True if the sort order is the order in which the rows were stored."""
        return self._order is None

    def _ordered(self, column: NDArray[D]) -> NDArray[D]:
        return column if self._order is None else column[self._order]

    @property
    def size(self) -> int:
        """Approximate bytes in memory, besides the columns."""
        return (_ROW_BYTES if self._order is None else _SORTED_ROW_BYTES) * len(self.ordinals)


class ExactView(OrderedView):
    """A view that computes cosines from vectors in memory."""

    def __init__(self, columns: ScopeColumns, before: OrderedView | None = None) -> None:
        super().__init__(columns, before)
        self._vectors = columns.vectors
        self._without_vector = np.flatnonzero(~columns.has_vector)

    def cosine(self, vector: Floats) -> Floats:
        if self._vectors.shape[1] != len(vector):
            return np.full(len(self.ordinals), np.nan, np.float32)
        cosines = _dot_products(self._vectors, vector)
        cosines[self._without_vector] = np.nan
        return self._ordered(cosines)


def _dot_products(vectors: Floats, vector: Floats) -> Floats:
    """Dot product of each row with `vector`."""
    if len(vectors) > _MANY:
        many: Floats = vectors @ vector
        return many
    # `@` starts a thread on every core, which then spins for longer than a whole recall takes.
    few: Floats = np.einsum("ij,j->i", vectors, vector)
    return few


class RemoteView(OrderedView):
    """A view whose cosines come from a remote index, or from the store for rows not found there."""

    def __init__(
        self,
        columns: ScopeColumns,
        search: Search,
        read: Callable[[Sequence[int], Floats], Floats],
        before: OrderedView | None = None,
    ) -> None:
        """`read` computes the cosines of rows from the store's vectors, NaN for removed rows."""
        super().__init__(columns, before)
        self._dimension = columns.dimension
        self._has_vector = self._ordered(columns.has_vector)
        self._seq = self._ordered(columns.seq)
        self._by_seq = np.argsort(self._seq)
        self._search, self._read = search, read
        # A view is immutable: the same question gets the same answer, whatever was removed since.
        self._answers: OrderedDict[bytes, Floats] = OrderedDict()
        self._lock = threading.Lock()

    def cosine(self, vector: Floats) -> Floats:
        if self._dimension != len(vector) or not self._has_vector.any():
            return np.full(len(self._seq), np.nan, np.float32)
        question = vector.tobytes()
        with self._lock:
            known = self._answers.get(question)
        if known is None:
            known = self._ask(vector)
            with self._lock:
                self._answers[question] = known
                if len(self._answers) > _CACHED_ANSWERS:
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
            found[~self._has_vector] = np.nan
        missing = np.flatnonzero(self._has_vector & np.isnan(found))
        if len(missing):
            found[missing] = self._read(self._seq[missing].tolist(), vector)
        return found


MakeView: TypeAlias = Callable[[Scope, RecallState, ScopeColumns, V | None], V]
"""Makes a view of columns. The last argument is the previous view of the same columns."""


class CachedScope(ScopeColumns, Generic[V]):
    """Cache entry of a whole scope: its columns and the current view of them."""

    def __init__(
        self,
        model: str,
        make_view: MakeView[V],
        *,
        keeps_vectors: bool = True,
    ) -> None:
        super().__init__(model, keeps_vectors=keeps_vectors)
        self._make_view = make_view
        self.view: V
        self._before: V | None = None

    def refreshed(self, scope: Scope, state: RecallState) -> None:
        self.view = self._before = self._make_view(scope, state, self, self._before)

    @property
    def size(self) -> int:
        return super().size + self.view.size
