"""Exact search inside a scope: the store's own rows, cached in memory as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search.row_format import pack_vectors
from ...ports.index import AskProbe
from ...ports.recall_rows import RecallRows, RecallState, Work
from .cached_index import CachedIndex
from .scope_cache import DEFAULT_CACHE_BYTES
from .scope_columns import ScopeColumns
from .scope_views import CachedScope, ExactView

if TYPE_CHECKING:
    from .sketch import Sketch

EXACT_ROWS = 120_000
"""Larger scopes are searched by a sketch: exact search would need 200 MB at 384 dimensions."""


class ExactIndex(CachedIndex[ExactView]):
    """Compares every row of a scope. In a very large scope, compares the rows its sketch finds."""

    def __init__(
        self,
        store: RecallRows,
        *,
        exact_rows: int = EXACT_ROWS,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        super().__init__(store, whole_rows=exact_rows, cache_bytes=cache_bytes)

    def _partial_view(
        self, scope: Scope, state: RecallState, model: str, ask: AskProbe
    ) -> ExactView | None:
        from .sketch import search_sketch

        sketch = self._sketch(scope, state, model)
        if sketch is None:
            return None
        return search_sketch(self._store, scope, model, ask(), sketch, state.newest)

    def _sketch(self, scope: Scope, state: RecallState, model: str) -> Sketch | None:
        """The scope's sketch; None if so many rows were removed that exact search is possible."""
        from .sketch import Sketch

        sketch = self._cache.get(scope, state, model, Sketch)
        return sketch if len(sketch) > self._whole_rows else None

    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        self._store.put_vectors(model, pack(done))

    def _cached_scope(self, model: str) -> CachedScope[ExactView]:
        return CachedScope(model, _make_view)


def _make_view(
    _scope: Scope, _state: RecallState, columns: ScopeColumns, before: ExactView | None
) -> ExactView:
    return ExactView(columns, before)


def pack(done: Sequence[tuple[Work, NDArray[np.float32]]]) -> list[tuple[Work, bytes]]:
    """Work items with their vectors in the store's format."""
    packed = pack_vectors(np.stack([vector for _, vector in done])) if done else []
    return [(work, vector) for (work, _), vector in zip(done, packed, strict=True)]
