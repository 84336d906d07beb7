"""Exact search inside a scope: the store's own rows, cached in memory as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search import vectors
from ...ports.index import AskProbe, RecallIndex
from ...ports.recall_rows import RecallRows, RecallState
from ...ports.work import Work
from .scope_cache import DEFAULT_CACHE_BYTES, ScopeCache
from .scope_views import CachedScope, ExactView

if TYPE_CHECKING:
    from .sketch import Sketch

EXACT_ROWS = 120_000
"""Larger scopes are searched by a sketch: exact search would need 200 MB at 384 dimensions."""


class ExactIndex(RecallIndex):
    """Compares every row of a scope. In a very large scope, compares the rows its sketch finds."""

    def __init__(
        self,
        store: RecallRows,
        *,
        exact_rows: int = EXACT_ROWS,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self._store = store
        self._exact_rows = exact_rows
        self._cache = ScopeCache(store, cache_bytes=cache_bytes)

    def view(
        self,
        scope: Scope,
        model: str,
        probe: AskProbe | None = None,
        state: RecallState | None = None,
    ) -> ExactView:
        state = state or self._store.recall_state(scope)
        if probe is not None and state is not None and state.newest > self._exact_rows:
            from .sketch_search import search_sketch

            sketch = self._sketch(scope, state, model)
            if sketch is not None:
                return search_sketch(self._store, scope, model, probe(), sketch, state.newest)
        return self._cache.get(scope, state, model, _cached_scope).view

    def _sketch(self, scope: Scope, state: RecallState, model: str) -> Sketch | None:
        """The scope's sketch; None if so many rows were removed that exact search is possible."""
        from .sketch import Sketch

        sketch = self._cache.get(scope, state, model, Sketch)
        return sketch if len(sketch) > self._exact_rows else None

    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        self._store.put_vectors(model, pack(done))

    def clear_cache(self) -> None:
        self._cache.drop_removed()

    def close(self) -> None:
        self._cache.clear()


def _cached_scope(model: str) -> CachedScope[ExactView]:
    return CachedScope(model, lambda _scope, _state, columns, before: ExactView(columns, before))


def pack(done: Sequence[tuple[Work, NDArray[np.float32]]]) -> list[tuple[Work, bytes]]:
    """Work items with their vectors in the store's format."""
    packed = vectors.pack(np.stack([vector for _, vector in done])) if done else []
    return [(work, vector) for (work, _), vector in zip(done, packed, strict=True)]
