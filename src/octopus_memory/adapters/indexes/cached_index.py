"""Common parts of the indexes: cached whole scopes, and partial views of very large ones.

A remote index that must not load a large scope names the episodes near a question. Their rows are
read from the store and ranked exactly. Of a smaller scope all columns but the vectors are cached in
memory; rows that the remote index does not return are compared by the store's own vectors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Generic, TypeAlias, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search.row_format import unpack_vectors, vector_size
from ...ports.index import AskProbe, Probe, RecallIndex, ScopeView
from ...ports.recall_rows import RecallRows, RecallState
from ...ports.store import EpisodeStore
from ...ports.values import EpisodeQuery
from .scope_cache import ScopeCache, corrupt_rows_raise
from .scope_columns import ScopeColumns
from .scope_views import CachedScope, ExactView, Floats, OrderedView, RemoteView

MAX_UNINDEXED = 5_000
"""Maximum number of unindexed rows with which a partial view is useful."""
MAX_EPISODES = 100
_GAP = 8
"""Up to this many rows between two rows of an episode are read along."""
_END = 2**62
"""A `seq` above that of every row."""


def partial_view(
    store: EpisodeStore,
    scope: Scope,
    model: str,
    probe: Probe,
    *,
    near: Sequence[UUID],
    rows_of: Callable[[Sequence[UUID]], Sequence[int]],
) -> ExactView | None:
    """A view of the episodes in `near` and of unindexed rows; None if that would be too few.

    `rows_of` gives the `seq` of every mirrored row of some episodes. On None, the caller loads the
    whole scope.
    """
    unindexed = store.waiting_rows(scope, limit=MAX_UNINDEXED + 1)
    if len(unindexed) > MAX_UNINDEXED:
        return None
    episodes, wanted = list(near[: max(MAX_EPISODES, probe.episodes)]), probe.episodes
    if len(episodes) < probe.episodes:
        newest, count = store.list_episodes(EpisodeQuery(of=scope, limit=probe.episodes))
        episodes = list(dict.fromkeys([*near, *(episode.id for episode in newest)]))
        wanted = min(wanted, count)
    seqs = _fill_gaps(sorted({*rows_of(episodes), *unindexed}))
    view = view_of_rows(store, scope, model, seqs)
    return view if len(view.episode_ids) >= wanted else None


def view_of_rows(store: RecallRows, scope: Scope, model: str, seqs: Sequence[int]) -> ExactView:
    columns = ScopeColumns(model)
    with corrupt_rows_raise():
        columns.append(store.recall_block(scope, seqs=seqs)[1])
        return ExactView(columns)


def stored_cosines(
    store: RecallRows,
    scope: Scope,
    model: str,
    seqs: Sequence[int],
    vector: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Cosine of each row by its vector in the store; NaN if the row or its vector is gone."""
    _, block = store.recall_block(scope, after=_END, late=seqs, model=model)
    index_of = {seq: i for i, seq in enumerate(seqs)}
    fits = vector_size(len(vector))
    held = [(index_of[seq], packed) for seq, packed in block.late if len(packed) == fits]
    cosines = np.full(len(seqs), np.nan, np.float32)
    if held:
        found = unpack_vectors([packed for _, packed in held], len(vector))
        cosines[[i for i, _ in held]] = found @ vector
    return cosines


def _fill_gaps(seqs: Sequence[int]) -> list[int]:
    """Add the rows between: turns without a vector are not mirrored."""
    filled = list(seqs[:1])
    for before, after in pairwise(seqs):
        filled += range(before + 1, after) if after - before <= _GAP else ()
        filled.append(after)
    return filled


V = TypeVar("V", bound=OrderedView)


class CachedIndex(RecallIndex, Generic[V]):
    """Loads a scope of up to `whole_rows` rows into the cache, and only part of a larger one."""

    def __init__(self, store: RecallRows, *, whole_rows: int, cache_bytes: int) -> None:
        self._store = store
        self._whole_rows = whole_rows
        self._cache = ScopeCache(store, cache_bytes=cache_bytes)

    def view(
        self,
        scope: Scope,
        model: str,
        probe: AskProbe | None = None,
        state: RecallState | None = None,
    ) -> ScopeView:
        state = state or self._store.recall_state(scope)
        if probe is not None and state is not None and state.newest > self._whole_rows:
            part = self._partial_view(scope, state, model, probe)
            if part is not None:
                return part
        return self._cache.get(scope, state, model, self._cached_scope).view

    def clear_cache(self) -> None:
        self._cache.drop_removed()

    def close(self) -> None:
        self._cache.clear()

    @abstractmethod
    def _partial_view(
        self, scope: Scope, state: RecallState, model: str, ask: AskProbe
    ) -> ScopeView | None:
        """A view of the episodes near the probe; None if the whole scope must be loaded."""

    @abstractmethod
    def _cached_scope(self, model: str) -> CachedScope[V]:
        """An empty cache entry for a whole scope."""


Cosines: TypeAlias = tuple[NDArray[np.int64], Floats]
"""The `seq` and the cosine of each row found."""
NO_COSINES: Cosines = np.empty(0, np.int64), np.empty(0, np.float32)


class RemoteIndex(CachedIndex[RemoteView]):
    """Loads all columns of a scope but the vectors."""

    _store: EpisodeStore

    def __init__(self, store: EpisodeStore, *, whole_rows: int, cache_bytes: int) -> None:
        super().__init__(store, whole_rows=whole_rows, cache_bytes=cache_bytes)

    def _partial_view(
        self, scope: Scope, state: RecallState, model: str, ask: AskProbe
    ) -> ScopeView | None:
        if not self._is_searchable(model):
            return None
        probe = ask()
        return None if probe.filters else self._search_part(scope, state, model, probe)

    @abstractmethod
    def _is_searchable(self, model: str) -> bool:
        """False if the remote index has no rows of the model, or is unreachable."""

    @abstractmethod
    def _search_part(
        self, scope: Scope, state: RecallState, model: str, probe: Probe
    ) -> ScopeView | None:
        """A view of the episodes near a probe without filters; None if that fails."""

    @abstractmethod
    def _search_all(
        self, scope: Scope, scope_id: int, model: str, vector: Floats, rows: int
    ) -> Cosines:
        """Cosines of the scope's rows, of which `rows` have a vector; none if that fails."""

    def _cached_scope(self, model: str) -> CachedScope[RemoteView]:
        return CachedScope(model, self._remote_view, keeps_vectors=False)

    def _remote_view(
        self, scope: Scope, state: RecallState, columns: ScopeColumns, before: RemoteView | None
    ) -> RemoteView:
        model, rows = columns.model, int(columns.has_vector.sum())

        def search(vector: Floats) -> Cosines:
            return self._search_all(scope, state.scope_id, model, vector, rows)

        def read(seqs: Sequence[int], vector: Floats) -> Floats:
            return stored_cosines(self._store, scope, model, seqs, vector)

        return RemoteView(columns, search, read, before)
