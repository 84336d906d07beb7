"""Qdrant: a copy of every vector in a server of its own, fed by the store's work list.

The store stays the truth. A row that Qdrant has not got yet, or all of them while it cannot be
reached, is compared by the store's own vector.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ....domain.episode import Scope
from ....domain.errors import IndexUnavailable, InvalidSetting
from ....ports.index import AskProbe, RecallIndex, ScopeView
from ....ports.store import EpisodeStore, RecallState, Work
from ..exact import pack
from ..partial_view import nearby
from ..reading import stored_cosines
from ..scope_cache import DEFAULT_CACHE_BYTES, ScopeCache
from ..scope_columns import Columns
from ..scope_views import RemoteView, Whole
from .mirror import Floats, NoCollection, QdrantClient, QdrantMirror

T = TypeVar("T")
log = logging.getLogger(__name__)

TAKEN_WHOLE = 5_000
"""A scope of more rows than this is searched by the probe: every row of a whole one is scored, and
each score is a line of the answer."""
_REST_SECONDS = 10.0
"""How long recall does without Qdrant after it failed, so that not every call waits for it."""
_NONE_REACHED = np.empty(0, np.int64), np.empty(0, np.float32)


def connect(url: str, *, api_key: str | None, timeout: int) -> QdrantClient:
    """A client that has not spoken to its server yet: whether it is there is seen later."""
    try:
        return QdrantClient(
            url=url, api_key=api_key, timeout=timeout, check_compatibility=False, prefer_grpc=False
        )
    except ValueError as error:
        raise InvalidSetting("qdrant_url", f"cannot be used: {error}") from error


class QdrantIndex(RecallIndex):
    def __init__(
        self,
        store: EpisodeStore,
        client: QdrantClient,
        *,
        is_server: bool = True,
        taken_whole: int = TAKEN_WHOLE,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`client` is closed with the index."""
        self._store = store
        self._mirror = QdrantMirror(client, store.salt, is_server=is_server)
        self._taken_whole = taken_whole
        self._monotonic = monotonic
        self._rests_until = 0.0
        self._cache = ScopeCache(store, cache_bytes=cache_bytes)

    @property
    def mirror(self) -> QdrantMirror:
        return self._mirror

    def view(
        self,
        scope: Scope,
        model: str,
        probe: AskProbe | None = None,
        state: RecallState | None = None,
    ) -> ScopeView:
        state = state or self._store.recall_state(scope)
        if probe is not None and state is not None and state.newest > self._taken_whole:
            part = self._part(scope, state, model, probe)
            if part is not None:
                return part
        return self._cache.get(scope, state, model, self._whole).view

    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        # With the store's mirror on, this queues each row for Qdrant in the same transaction.
        self._store.put_vectors(model, pack(done))

    def clear_cache(self) -> None:
        self._cache.drop_removed()

    def count_mirrored(
        self, scope_ids: Sequence[int], episode_id: UUID | None = None
    ) -> int | None:
        try:
            return self._mirror.count(scope_ids, episode_id)
        except IndexUnavailable as error:
            log.warning("what Qdrant holds is not known now: %s", error)
            return None

    def close(self) -> None:
        self._cache.clear()
        self._mirror.close()

    def _whole(self, model: str) -> Whole[RemoteView]:
        return Whole(model, self._remote, keeps_vectors=False)

    def _remote(
        self, scope: Scope, state: RecallState, columns: Columns, before: RemoteView | None
    ) -> RemoteView:
        model, rows = columns.model, int(columns.has.sum())

        def search(vector: Floats) -> tuple[NDArray[np.int64], Floats]:
            found = self._try(
                lambda: self._mirror.cosines(model, scope.tenant, state.scope_id, vector, rows)
            )
            return _NONE_REACHED if found is None else found

        def read(seqs: Sequence[int], vector: Floats) -> Floats:
            return stored_cosines(self._store, scope, model, seqs, vector)

        return RemoteView(columns, search, read, before)

    def _part(
        self, scope: Scope, state: RecallState, model: str, ask: AskProbe
    ) -> ScopeView | None:
        if self._rests():
            return None
        probe = ask()
        if probe.filters:
            return None
        mirror, scope_id = self._mirror, state.scope_id
        return self._try(
            lambda: nearby(
                self._store,
                scope,
                model,
                probe,
                near=mirror.near(model, scope.tenant, scope_id, probe),
                rows_of=lambda episodes: mirror.rows_of(model, scope_id, episodes),
            )
        )

    def _rests(self) -> bool:
        return self._monotonic() < self._rests_until

    def _try(self, do: Callable[[], T]) -> T | None:
        """None while Qdrant cannot be reached."""
        if self._rests():
            return None
        try:
            return do()
        except NoCollection:
            return None
        except IndexUnavailable as error:
            self._rests_until = self._monotonic() + _REST_SECONDS
            log.warning("recall goes on by the store's own vectors: %s", error)
            return None
