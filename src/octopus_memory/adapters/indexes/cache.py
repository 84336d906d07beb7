"""The scopes in use, kept in memory and brought up to date by what is new in each."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...domain.episode import Scope
from ...domain.errors import StoreCorrupt
from ...ports.store import EpisodeStore, RecallState
from .columns import Columns
from .views import OrderedView

V = TypeVar("V", bound=OrderedView)
DEFAULT_CACHE_BYTES = 256 * 1024 * 1024
DAMAGED = "what recall searches is damaged: restore the database from a backup"


@dataclass(slots=True)
class _Held(Generic[V]):
    state: RecallState
    columns: Columns
    view: V
    size: int

    def goes_on_in(self, state: RecallState) -> bool:
        """Whether its rows are still there, and only newer ones can be missing."""
        return (self.state.scope_id, self.state.epoch) == (state.scope_id, state.epoch)


class ScopeCache(Generic[V]):
    """An LRU of scopes, bounded in bytes."""

    def __init__(
        self,
        store: EpisodeStore,
        make: Callable[[Scope, RecallState, Columns], V],
        *,
        keeps_vectors: bool,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self._store = store
        self._make = make
        self._keeps_vectors = keeps_vectors
        self._cache_bytes = cache_bytes
        self._held: OrderedDict[tuple[Scope, str], _Held[V]] = OrderedDict()
        self._lock = threading.Lock()

    def view(self, scope: Scope, model: str) -> V:
        state = self._store.recall_state(scope)
        key = scope, model
        if state is None:
            with self._lock:
                self._held.pop(key, None)
            nothing = RecallState(scope_id=0, version=0, epoch=0)
            return self._make(scope, nothing, self._no_columns(model))
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
        if held is None or held.state != state:
            held = self._load(scope, model, held if held and held.goes_on_in(state) else None)
            self._hold(key, held)
        return held.view

    def forget(self) -> None:
        with self._lock:
            held = list(self._held.items())
        for key, known in held:
            state = self._store.recall_state(key[0])
            if state is None or not known.goes_on_in(state):
                with self._lock:
                    if self._held.get(key) is known:
                        del self._held[key]

    def clear(self) -> None:
        with self._lock:
            self._held.clear()

    def _no_columns(self, model: str) -> Columns:
        return Columns(model=model, keeps_vectors=self._keeps_vectors)

    def _load(self, scope: Scope, model: str, held: _Held[V] | None) -> _Held[V]:
        columns = held.columns if held else self._no_columns(model)
        after = columns.settled
        state, fresh = self._store.recall_rows(scope, after=after)
        if held is not None and not held.goes_on_in(state):
            return self._load(scope, model, None)
        try:
            columns = columns.with_rows(after, fresh)
            view = self._make(scope, state, columns)
        except (IndexError, OverflowError, ValueError) as error:
            raise StoreCorrupt(DAMAGED) from error
        # The columns and the view each hold the vectors.
        return _Held(state=state, columns=columns, view=view, size=2 * view.size)

    def _hold(self, key: tuple[Scope, str], held: _Held[V]) -> None:
        with self._lock:
            self._held[key] = held
            self._held.move_to_end(key)
            total = sum(other.size for other in self._held.values())
            # The newest stays even where it alone is over the bound: it is in use right now.
            while total > self._cache_bytes and len(self._held) > 1:
                _, oldest = self._held.popitem(last=False)
                total -= oldest.size
