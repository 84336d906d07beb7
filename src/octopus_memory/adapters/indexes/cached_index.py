"""Common part of all indexes: cached whole scopes, and partial views of very large ones."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from ...domain.episode import Scope
from ...ports.index import AskProbe, RecallIndex, ScopeView
from ...ports.recall_rows import RecallRows, RecallState
from .scope_cache import ScopeCache
from .scope_views import CachedScope, OrderedView

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
