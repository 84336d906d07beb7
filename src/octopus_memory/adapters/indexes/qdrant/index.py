"""The Qdrant index: a mirror of every vector in a Qdrant server, fed by the store's work queue.

The store stays the source of truth. Rows that are not mirrored yet, or all rows while Qdrant is
unreachable, are compared by the store's own vectors.
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
from ....ports.index import Probe, ScopeView
from ....ports.recall_rows import RecallState, Work
from ....ports.store import EpisodeStore
from ..cached_index import NO_COSINES, Cosines, RemoteIndex, partial_view
from ..exact import pack
from ..scope_cache import DEFAULT_CACHE_BYTES
from .mirror import Floats, Layout, NoCollection, QdrantClient, QdrantMirror

T = TypeVar("T")
log = logging.getLogger(__name__)

WHOLE_ROWS = 5_000
"""Maximum size of a scope that is loaded whole, because Qdrant returns one JSON object per row."""
_BACKOFF_SECONDS = 10.0
"""Pause after a failure of Qdrant, so that not every recall waits for it."""


def connect(url: str, *, api_key: str | None, timeout: int) -> QdrantClient:
    """A client that has not contacted its server yet.

    :raises InvalidSetting: for a malformed URL
    """
    try:
        return QdrantClient(
            url=url, api_key=api_key, timeout=timeout, check_compatibility=False, prefer_grpc=False
        )
    except ValueError as error:
        raise InvalidSetting("qdrant_url", f"cannot be used: {error}") from error


class QdrantIndex(RemoteIndex):
    def __init__(
        self,
        store: EpisodeStore,
        client: QdrantClient,
        *,
        layout: Layout = Layout(),  # noqa: B008 - immutable
        is_server: bool = True,
        whole_rows: int = WHOLE_ROWS,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`client` is closed with the index."""
        super().__init__(store, whole_rows=whole_rows, cache_bytes=cache_bytes)
        self._mirror = QdrantMirror(client, store.salt, layout=layout, is_server=is_server)
        self._monotonic = monotonic
        self._retry_at = 0.0

    @property
    def mirror(self) -> QdrantMirror:
        return self._mirror

    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        # The store queues each row for the mirror in the same transaction.
        self._store.put_vectors(model, pack(done))

    def count_mirrored(
        self, scope_ids: Sequence[int], episode_id: UUID | None = None
    ) -> int | None:
        try:
            return self._mirror.count(scope_ids, episode_id)
        except IndexUnavailable as error:
            log.warning("could not count the rows in Qdrant: %s", error)
            return None

    def close(self) -> None:
        super().close()
        self._mirror.close()

    def _is_searchable(self, model: str) -> bool:  # noqa: ARG002 - a missing collection is found by searching
        return not self._backs_off()

    def _search_all(
        self, scope: Scope, scope_id: int, model: str, vector: Floats, rows: int
    ) -> Cosines:
        found = self._try(lambda: self._mirror.cosines(model, scope.tenant, scope_id, vector, rows))
        return NO_COSINES if found is None else found

    def _search_part(
        self, scope: Scope, state: RecallState, model: str, probe: Probe
    ) -> ScopeView | None:
        mirror, scope_id = self._mirror, state.scope_id
        return self._try(
            lambda: partial_view(
                self._store,
                scope,
                model,
                probe,
                near=mirror.near(model, scope.tenant, scope_id, probe),
                rows_of=lambda episodes: mirror.rows_of(model, scope_id, episodes),
            )
        )

    def _backs_off(self) -> bool:
        return self._monotonic() < self._retry_at

    def _try(self, do: Callable[[], T]) -> T | None:
        """The result of `do`; None while Qdrant is unreachable."""
        if self._backs_off():
            return None
        try:
            return do()
        except NoCollection:
            return None
        except IndexUnavailable as error:
            self._retry_at = self._monotonic() + _BACKOFF_SECONDS
            log.warning("recall uses the store's own vectors: %s", error)
            return None
