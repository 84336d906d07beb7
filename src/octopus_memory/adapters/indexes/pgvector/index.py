"""pgvector: the vectors in the store's own PostgreSQL, written and removed with its rows.

A scope is searched whole and exactly, by the key of the table. Only of a very large one the best
are taken, by a graph over the vectors and an index of the words.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ....domain.episode import Scope
from ....domain.errors import InvalidSetting, StoreError
from ....ports.index import AskProbe, RecallIndex, ScopeView
from ....ports.store import EpisodeStore, RecallState, Work
from ..exact import pack
from ..partial_view import nearby
from ..reading import stored_cosines
from ..scope_cache import DEFAULT_CACHE_BYTES, ScopeCache
from ..scope_columns import Columns
from ..scope_views import RemoteView, Whole
from . import mirror as table
from . import search
from .mirror import Floats, PgVectorMirror, SqlAccess

log = logging.getLogger(__name__)

TAKEN_WHOLE = 20_000
"""A scope of more rows than this is searched by the probe; see docs/adr/0009-remote-indexes.md."""
GRAPH_FROM = 100_000
"""From so many rows on a graph is worth its making; below, comparing every row is as quick."""
_BETWEEN_TRIES = 600.0
_NONE_REACHED = np.empty(0, np.int64), np.empty(0, np.float32)


class PgVectorIndex(RecallIndex):
    """On a PostgreSQL store, whose transactions it shares."""

    def __init__(
        self,
        store: EpisodeStore,
        *,
        taken_whole: int = TAKEN_WHOLE,
        graph_from: int = GRAPH_FROM,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        """
        :raises InvalidSetting: for a store that is not PostgreSQL's
        :raises StoreUnavailable: when the table cannot be made
        """
        if not hasattr(store, "inside"):
            raise InvalidSetting("index", "pgvector needs a database_url that is PostgreSQL's")
        self._store = store
        self._sql = cast("SqlAccess", store)
        self._mirror = PgVectorMirror(self._sql, self._quicken)
        self._taken_whole = taken_whole
        self._graph_from = graph_from
        self._is_quick: set[str] = set()
        self._next_try = 0.0
        self._cache = ScopeCache(store, cache_bytes=cache_bytes)

    @property
    def mirror(self) -> PgVectorMirror:
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
        packed = pack(done)
        given = [(work.scope_id, work.seq, vector) for work, vector in packed]
        self._sql.put_vectors(model, packed, also=lambda conn: table.write(conn, model, given))
        if done:
            self._quicken(model, len(done[0][1]), max(work.seq for work, _ in done))

    def clear_cache(self) -> None:
        self._cache.drop_removed()

    def count_mirrored(self, scope_ids: Sequence[int], episode_id: UUID | None = None) -> int:
        return self._mirror.count(scope_ids, episode_id)

    def close(self) -> None:
        self._cache.clear()

    def _whole(self, model: str) -> Whole[RemoteView]:
        return Whole(model, self._remote, keeps_vectors=False)

    def _remote(
        self, scope: Scope, state: RecallState, columns: Columns, before: RemoteView | None
    ) -> RemoteView:
        model = columns.model

        def ask(vector: Floats) -> tuple[NDArray[np.int64], Floats]:
            key = self._mirror.model_id(model)
            if key is None:
                return _NONE_REACHED
            return self._sql.inside(scope.tenant, search.cosines, key, state.scope_id, vector)

        def read(seqs: Sequence[int], vector: Floats) -> Floats:
            return stored_cosines(self._store, scope, model, seqs, vector)

        return RemoteView(columns, ask, read, before)

    def _part(
        self, scope: Scope, state: RecallState, model: str, ask: AskProbe
    ) -> ScopeView | None:
        key, sql = self._mirror.model_id(model), self._sql
        if key is None:
            return None
        probe, scope_id = ask(), state.scope_id
        if probe.filters:
            return None
        rows, graph = state.newest, state.newest > self._graph_from
        near = sql.inside(
            scope.tenant,
            lambda conn: search.near(conn, key, scope_id, probe, rows, graph=graph),
        )
        return nearby(
            self._store,
            scope,
            model,
            probe,
            near=near,
            rows_of=lambda episodes: sql.inside(scope.tenant, search.rows_of, scope_id, episodes),
        )

    def _quicken(self, model: str, dimension: int, newest: int) -> None:
        """Without these indexes a very large scope is searched as truly, and more slowly."""
        if newest <= self._graph_from or model in self._is_quick:
            return
        key, now = self._mirror.model_id(model), time.monotonic()
        if key is None or now < self._next_try:
            return
        self._next_try = now + _BETWEEN_TRIES
        try:
            if not self._sql.inside(None, search.is_indexed, key):
                self._sql.inside(None, search.make_indexes, key, dimension, writes=True)
            self._is_quick.add(model)
        except StoreError as error:
            log.warning(
                "a very large scope is searched without its index (%s): octopus index rebuild, run "
                "by the owner of the tables, makes it",
                type(error).__name__,
            )
