"""Common part of the indexes whose vectors are searched outside this process.

A scope's other columns are cached in memory. Rows that the remote index does not return are
compared by the store's own vectors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...ports.index import AskProbe, Probe, ScopeView
from ...ports.recall_rows import RecallState
from ...ports.store import EpisodeStore
from .cached_index import CachedIndex
from .partial_view import stored_cosines
from .scope_columns import ScopeColumns
from .scope_views import CachedScope, Floats, RemoteView

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
