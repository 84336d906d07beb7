"""The pgvector index: vectors in the store's own PostgreSQL, in the same transactions as its rows.

Search inside a scope is exact, by the table's primary key. In a very large scope, an HNSW graph
over the vectors and an index of the terms find the best rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ....domain.episode import Scope
from ....domain.errors import InvalidSetting, StoreError
from ....ports.index import Probe, ScopeView
from ....ports.recall_rows import RecallState, Work
from ....ports.store import EpisodeStore, SharedDatabase
from ..exact import pack
from ..partial_view import partial_view
from ..remote_index import NO_COSINES, Cosines, RemoteIndex
from ..scope_cache import DEFAULT_CACHE_BYTES
from . import mirror as table
from . import search
from .mirror import NOT_POSTGRES, Floats, PgVectorMirror

log = logging.getLogger(__name__)

WHOLE_ROWS = 20_000
"""Maximum size of a scope that is loaded whole; see docs/adr/0009-remote-indexes.md."""
GRAPH_ROWS = 100_000
"""Minimum size of a scope for an HNSW graph; below, comparing every row is as fast."""
_RETRY_SECONDS = 600.0


class PgVectorIndex(RemoteIndex):
    """A recall index for a PostgreSQL store, sharing its transactions."""

    def __init__(
        self,
        store: EpisodeStore,
        *,
        whole_rows: int = WHOLE_ROWS,
        graph_rows: int = GRAPH_ROWS,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        """
        :raises InvalidSetting: if the store is not PostgreSQL
        :raises StoreUnavailable: if the table cannot be created
        """
        super().__init__(store, whole_rows=whole_rows, cache_bytes=cache_bytes)
        if not isinstance(store, SharedDatabase):
            raise InvalidSetting("index", NOT_POSTGRES)
        self._sql: SharedDatabase = store
        self._mirror = PgVectorMirror(self._sql, self._create_indexes)
        self._graph_rows = graph_rows
        self._indexed_models: set[str] = set()
        self._next_try = 0.0

    @property
    def mirror(self) -> PgVectorMirror:
        return self._mirror

    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        self._sql.put_vectors_and(
            model,
            pack(done),
            lambda conn, some: table.write(
                conn, model, [(work.scope_id, work.seq, vector) for work, vector in some]
            ),
        )
        if done:
            self._create_indexes(model, len(done[0][1]), max(work.seq for work, _ in done))

    def count_mirrored(self, scope_ids: Sequence[int], episode_id: UUID | None = None) -> int:
        return self._mirror.count(scope_ids, episode_id)

    def _is_searchable(self, model: str) -> bool:
        return self._mirror.model_id(model) is not None

    def _search_all(
        self,
        scope: Scope,
        scope_id: int,
        model: str,
        vector: Floats,
        rows: int,  # noqa: ARG002 - the statement has no limit
    ) -> Cosines:
        key = self._mirror.model_id(model)
        if key is None:
            return NO_COSINES
        return self._sql.inside(scope.tenant, search.cosines, key, scope_id, vector)

    def _search_part(
        self, scope: Scope, state: RecallState, model: str, probe: Probe
    ) -> ScopeView | None:
        key, sql, scope_id = self._mirror.model_id(model), self._sql, state.scope_id
        if key is None:
            return None
        rows, graph = state.newest, state.newest > self._graph_rows
        near = sql.inside(
            scope.tenant,
            lambda conn: search.near(conn, key, scope_id, probe, rows, graph=graph),
        )
        return partial_view(
            self._store,
            scope,
            model,
            probe,
            near=near,
            rows_of=lambda episodes: sql.inside(scope.tenant, search.rows_of, scope_id, episodes),
        )

    def _create_indexes(self, model: str, dimension: int, newest: int) -> None:
        """Create the indexes for very large scopes once there is one.

        Failure is only logged: without them search is as exact, but slower.
        """
        if newest <= self._graph_rows or model in self._indexed_models:
            return
        key, now = self._mirror.model_id(model), time.monotonic()
        if key is None or now < self._next_try:
            return
        self._next_try = now + _RETRY_SECONDS
        try:
            if not self._sql.inside(None, search.is_indexed, key):
                self._sql.change_schema(search.make_indexes, key, dimension)
            self._indexed_models.add(model)
        except StoreError as error:
            log.warning(
                "searching a very large scope without an HNSW index, creating it failed: %s. Run "
                "octopus index rebuild as the owner of the tables",
                type(error).__name__,
            )
