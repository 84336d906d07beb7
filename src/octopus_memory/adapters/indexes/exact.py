"""Exact search in the scope: the store's own rows, kept in memory while they are in use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search import vectors
from ...ports.index import AskProbe, RecallIndex
from ...ports.store import EpisodeStore, RecallState, Work
from .scope_cache import DEFAULT_CACHE_BYTES, ScopeCache
from .scope_views import ExactView, Whole

if TYPE_CHECKING:
    from .sketch_search import Source

EXACT_ROWS = 120_000
"""A scope of more rows than this is not taken into memory whole: with vectors of 384 components,
that would be 200 MB."""
_MOST_COUNTED = 10_000


class ExactIndex(RecallIndex):
    """A scope is taken in whole, unless it is very large: then the rows that its sketch finds."""

    def __init__(
        self,
        store: EpisodeStore,
        *,
        exact_rows: int = EXACT_ROWS,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self._store = store
        self._exact_rows = exact_rows
        self._cache_bytes = cache_bytes
        self._cache = ScopeCache(store, cache_bytes=cache_bytes)
        self._counted: dict[int, tuple[int, int]] = {}
        """Of scopes that were streamed, how many rows there are up to which `seq`."""

    def view(
        self,
        scope: Scope,
        model: str,
        probe: AskProbe | None = None,
        state: RecallState | None = None,
    ) -> ExactView:
        state = state or self._store.recall_state(scope)
        if probe is not None and state is not None and state.newest > self._exact_rows:
            from .sketch_search import part_of

            source = self._source(scope, state, model)
            if source is not None:
                return part_of(self._store, scope, model, probe(), source, state.newest)
        return self._cache.get(scope, state, model, _whole).view

    def _source(self, scope: Scope, state: RecallState, model: str) -> Source | None:
        """None where the scope had as many rows, and has not any more."""
        from .sketch import BYTES_A_ROW, Sketch
        from .sketch_search import Streamed

        newest, rows = self._counted.get(state.scope_id, (0, 0))
        if (rows + state.newest - newest) * BYTES_A_ROW > self._cache_bytes:
            return Streamed(self._store, scope, model, partial(self._count, state.scope_id))
        sketch = self._cache.get(scope, state, model, Sketch)
        return sketch if len(sketch) > self._exact_rows else None

    def _count(self, scope_id: int, newest: int, rows: int) -> None:
        """Most of the rows that a scope ever had may be gone: then it need not be streamed."""
        if len(self._counted) >= _MOST_COUNTED:
            self._counted.clear()
        self._counted[scope_id] = newest, rows

    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        self._store.put_vectors(model, pack(done))

    def clear_cache(self) -> None:
        self._cache.drop_removed()

    def close(self) -> None:
        self._cache.clear()


def _whole(model: str) -> Whole[ExactView]:
    return Whole(model, lambda _scope, _state, columns, before: ExactView(columns, before))


def pack(done: Sequence[tuple[Work, NDArray[np.float32]]]) -> list[tuple[Work, bytes]]:
    """The vectors as the store keeps them."""
    packed = vectors.pack(np.stack([vector for _, vector in done])) if done else []
    return [(work, vector) for (work, _), vector in zip(done, packed, strict=True)]
