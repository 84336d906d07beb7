"""Exact search in the scope: the store's own rows, kept in memory while they are in use."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...domain import vectors
from ...domain.episode import Scope
from ...ports.index import AskProbe, RecallIndex
from ...ports.store import EpisodeStore, Work
from .cache import DEFAULT_CACHE_BYTES, ScopeCache
from .views import ExactView


class ExactIndex(RecallIndex):
    """Every scope is taken in whole, so that a probe is never asked for."""

    def __init__(self, store: EpisodeStore, *, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._store = store
        self._cache = ScopeCache(
            store,
            lambda _scope, _state, columns: ExactView(columns),
            keeps_vectors=True,
            cache_bytes=cache_bytes,
        )

    def view(self, scope: Scope, model: str, probe: AskProbe | None = None) -> ExactView:  # noqa: ARG002 - the port's signature
        return self._cache.view(scope, model)

    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        self._store.put_vectors(model, pack(done))

    def forget(self) -> None:
        self._cache.forget()

    def close(self) -> None:
        self._cache.clear()


def pack(done: Sequence[tuple[Work, NDArray[np.float32]]]) -> list[tuple[Work, bytes]]:
    """The vectors as the store keeps them."""
    packed = vectors.pack(np.stack([vector for _, vector in done])) if done else []
    return [(work, vector) for (work, _), vector in zip(done, packed, strict=True)]
