"""The pgvector index: vectors in the store's own PostgreSQL, in the same transactions as its rows.

Search inside a scope is exact, by the table's primary key. In a very large scope, an HNSW graph
over the vectors and an index of the terms find the best rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any
from uuid import UUID

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.errors import InvalidSetting, StoreError, StoreUnavailable
from ...domain.search.row_format import dimension_of, unpack_vectors
from ...ports.index import IndexMirror, MirrorRow, Probe, ScopeView
from ...ports.recall_rows import RecallState, Removal, Work
from ...ports.store import EpisodeStore, SharedConnection, SharedDatabase
from .cached_index import NO_COSINES, Cosines, RemoteIndex, partial_view
from .exact import pack
from .scope_cache import DEFAULT_CACHE_BYTES

Floats = NDArray[np.float32]
log = logging.getLogger(__name__)

NOT_POSTGRES = "pgvector needs a PostgreSQL database_url"
_MIN_VERSION = (0, 8)
"""The first version with iterative scans, which continue a filtered search until it has enough."""
_BATCH = 500


class PgVectorMirror(IndexMirror):
    name = ""

    def __init__(self, store: SharedDatabase, on_upsert: Callable[[str, int, int], None]) -> None:
        """`on_upsert` is called with model, dimension and newest `seq` after rows were written."""
        self._store, self._on_upsert = store, on_upsert
        self._models: dict[str, int] = {}
        product = store.inside(None, lambda conn: conn.product)
        if product != "postgresql":
            raise InvalidSetting("index", NOT_POSTGRES)
        if not store.inside(None, _has_table):
            self._create_table()

    def _create_table(self) -> None:
        try:
            self._store.change_schema(_create_table)
        except StoreError as error:
            raise StoreUnavailable(
                "creating pgvector's table failed for this role: run CREATE EXTENSION vector as a "
                "superuser, then octopus index rebuild as the owner of the other tables"
            ) from error

    def model_id(self, model: str) -> int | None:
        """The model's number in the store; None before its first vector. Numbers never change."""
        if model not in self._models:
            found = self._store.inside(None, _model_id, model)
            if found is None:
                return None
            self._models[model] = found
        return self._models[model]

    def prepare(self, model: str, dimension: int) -> bool:  # noqa: ARG002 - all models share one table
        return False

    def upsert(self, model: str, rows: Sequence[MirrorRow]) -> None:
        given = [
            (row.scope_id, row.row.seq, row.row.vector)
            for row in rows
            if row.row.vector is not None
        ]
        for start in range(0, len(given), _BATCH):
            some = given[start : start + _BATCH]
            self._store.inside(None, write, model, some, writes=True)
        if given:
            newest = max(seq for _, seq, _ in given)
            self._on_upsert(model, dimension_of(given[0][2]), newest)

    def remove(self, removal: Removal) -> None:
        """Do nothing: the foreign key deleted the rows with the store's."""

    def delete(self, model: str, scope_id: int, seqs: Sequence[int]) -> None:
        given = {"model": self.model_id(model), "scope": scope_id, "seqs": list(seqs)}
        self._store.inside(None, _changed, _DELETE, given, writes=True)

    def scope_ids(self, model: str) -> set[int]:
        found = self._store.inside(None, _read, _SCOPE_IDS, {"model": self.model_id(model)})
        return {row.scope_id for row in found}

    def seqs(self, model: str, scope_id: int) -> set[int]:
        given = {"model": self.model_id(model), "scope": scope_id}
        return {row.seq for row in self._store.inside(None, _read, _SEQS, given)}

    def vectors(self, model: str, scope_id: int, seqs: Sequence[int]) -> dict[int, Floats]:
        given = {"model": self.model_id(model), "scope": scope_id, "seqs": list(seqs)}
        found = self._store.inside(None, _read, _VECTORS, given)
        return {row.seq: np.asarray(row.embedding, np.float32) for row in found}

    def drop_models(self, *, keep: str | None) -> list[str]:
        kept = None if keep is None else self.model_id(keep)
        gone = self._store.inside(None, _changed, _DROP_MODELS, {"keep": kept}, writes=True)
        return ["octopus_vectors"] if gone else []

    def count(self, scope_ids: Sequence[int], episode_id: UUID | None) -> int:
        given = {"scopes": list(scope_ids), "episode": episode_id}
        [(left,)] = self._store.inside(None, _read, _COUNT, given)
        return int(left)


def write(conn: SharedConnection, model: str, given: Iterable[tuple[int, int, bytes]]) -> None:
    """Upsert (scope, seq, packed vector) of rows that the store has with that model."""
    key = _model_id(conn, model)
    rows = [
        {
            "scope": scope_id,
            "seq": seq,
            "model": key,
            "embedding": as_text(unpack_vectors([packed], dimension_of(packed))[0]),
        }
        for scope_id, seq, packed in given
    ]
    if rows:
        conn.execute(_WRITE_PLACED if conn.is_placed else _WRITE, rows)


def as_text(vector: Floats) -> str:
    """The vector as a literal of pgvector's types."""
    return f"[{','.join(f'{value:.6g}' for value in vector.tolist())}]"


# The store packs a row's terms as little-endian integers of three bytes, after a zero byte.
_TERMS = r"""
    ARRAY(
        SELECT get_byte(t.packed, 3 * i) | (get_byte(t.packed, 3 * i + 1) << 8)
            | (get_byte(t.packed, 3 * i + 2) << 16)
        FROM substring(r.terms FROM position(CAST('\x00' AS bytea) IN r.terms) + 1) AS t (packed),
            generate_series(0, length(t.packed) / 3 - 1) AS i
    )
"""
_INTO = f"""
    INSERT INTO octopus_vectors
        (scope_id, seq, tenant, model_id, episode_id, ordinal, terms, embedding{{bucket}})
    SELECT r.scope_id, r.seq, r.tenant, r.model_id, r.episode_id, r.ordinal, {_TERMS},
        CAST(:embedding AS halfvec){{bucket_of_row}}
    FROM octopus_recall AS r
    WHERE r.scope_id = :scope AND r.seq = :seq AND r.model_id = :model
    ON CONFLICT (scope_id, seq{{bucket}}) DO UPDATE
        SET model_id = EXCLUDED.model_id, embedding = EXCLUDED.embedding, terms = EXCLUDED.terms
"""  # noqa: S608 - built from constants
_WRITE = sa.text(_INTO.format(bucket="", bucket_of_row=""))
_WRITE_PLACED = sa.text(_INTO.format(bucket=", bucket", bucket_of_row=", r.bucket"))
_HAS_TABLE = sa.text("SELECT to_regclass('octopus_vectors') IS NOT NULL").columns(sa.column("has"))
_IS_PLACED = sa.text(
    "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('octopus_recall') "
    "AND attname = 'bucket' AND NOT attisdropped)"
)
# A distributed database adds it when it places the table.
_HOLD = """
    ALTER TABLE octopus_vectors ADD FOREIGN KEY (scope_id, seq)
        REFERENCES octopus_recall (scope_id, seq) ON DELETE CASCADE
"""
_VERSION = sa.text("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
_MODEL = sa.text("SELECT id FROM octopus_models WHERE name = :name").columns(sa.column("id"))
_DELETE = sa.text("""
    DELETE FROM octopus_vectors
    WHERE model_id = :model AND scope_id = :scope AND seq = ANY(CAST(:seqs AS bigint[]))
""")
_SEQ: sa.ColumnClause[int] = sa.column("seq")
_SCOPE_IDS = sa.text(
    "SELECT DISTINCT scope_id FROM octopus_vectors WHERE model_id = :model"
).columns(sa.column("scope_id"))
_SEQS = sa.text(
    "SELECT seq FROM octopus_vectors WHERE model_id = :model AND scope_id = :scope"
).columns(_SEQ)
_VECTORS = sa.text("""
    SELECT seq, CAST(embedding AS real[]) AS embedding FROM octopus_vectors
    WHERE model_id = :model AND scope_id = :scope AND seq = ANY(CAST(:seqs AS bigint[]))
""").columns(_SEQ, sa.column("embedding"))
_DROP_MODELS = sa.text("""
    DELETE FROM octopus_vectors WHERE CAST(:keep AS bigint) IS NULL OR model_id <> :keep
""")
_COUNT = sa.text("""
    SELECT count(*) FROM octopus_vectors
    WHERE scope_id = ANY(CAST(:scopes AS bigint[]))
        AND (CAST(:episode AS uuid) IS NULL OR episode_id = :episode)
""").columns(sa.column("count"))


def _has_table(conn: SharedConnection | sa.Connection) -> bool:
    return bool(conn.execute(_HAS_TABLE).scalar_one())


def _create_table(conn: sa.Connection) -> None:
    conn.exec_driver_sql("SELECT pg_advisory_xact_lock(hashtext('octopus_vectors'))")
    if _has_table(conn):
        return
    if conn.execute(_VERSION).scalar() is None:
        conn.exec_driver_sql("CREATE EXTENSION vector")
    version = str(conn.execute(_VERSION).scalar_one())
    if tuple(int(part) for part in version.split(".")[:2]) < _MIN_VERSION:
        raise InvalidSetting(
            "index",
            f"pgvector {version} is too old: install 0.8 or newer, then run ALTER EXTENSION vector "
            "UPDATE",
        )
    script = files(__package__).joinpath("pgvector.sql").read_text(encoding="utf-8")
    script += "" if conn.execute(_IS_PLACED).scalar() else _HOLD
    conn.exec_driver_sql(script, execution_options={"no_parameters": True})


def _model_id(conn: SharedConnection, model: str) -> int | None:
    found = conn.execute(_MODEL, {"name": model}).scalar()
    return None if found is None else int(found)


def _read(conn: SharedConnection, statement: Any, given: Mapping[str, Any]) -> list[Any]:
    return list(conn.execute(statement, given))


def _changed(conn: SharedConnection, statement: Any, given: Mapping[str, Any]) -> int:
    return int(conn.execute(statement, given).rowcount)


ROWS_PER_LEG = 200
"""Rows found by vector, and as many by terms."""

# One aggregated value for all rows: fetching them one by one would cost more than the search.
_COSINES = sa.text("""
    SELECT string_agg(
        int8send(seq) || float8send(1 - (embedding <=> CAST(:vector AS halfvec))), CAST('' AS bytea)
    ) FROM octopus_vectors
    WHERE scope_id = :scope AND model_id = :model
""").columns(sa.column("packed"))
_COSINE = np.dtype([("seq", ">i8"), ("cosine", ">f8")])
# The model's number is a literal, because the planner uses a partial index only if it sees that the
# condition matches.
_NEAREST = """
    SELECT seq, episode_id FROM octopus_vectors
    WHERE scope_id = :scope AND model_id = {model:d}
    ORDER BY
        (embedding::halfvec({dimension:d}) <=> CAST(:vector AS halfvec({dimension:d}))){exactly}
    LIMIT :limit
"""
_EPISODE: sa.ColumnClause[UUID] = sa.column("episode_id")
_WORDS = sa.text("""
    WITH hit AS (
        SELECT v.seq, v.episode_id, term
        FROM octopus_vectors AS v, unnest(CAST(:terms AS integer[])) AS term
        WHERE v.scope_id = :scope AND v.model_id = :model
            AND v.terms && CAST(:terms AS integer[]) AND term = ANY(v.terms)
    ), rarity AS (
        SELECT term, ln(1 + CAST(:rows AS float8) / count(*)) AS weight FROM hit GROUP BY term
    )
    SELECT seq, episode_id FROM hit JOIN rarity USING (term)
    GROUP BY seq, episode_id ORDER BY sum(weight) DESC, seq DESC LIMIT :limit
""").columns(_SEQ, _EPISODE)
_ROWS_OF = sa.text("""
    SELECT seq FROM octopus_vectors
    WHERE scope_id = :scope AND episode_id = ANY(CAST(:episodes AS uuid[]))
""").columns(_SEQ)
_ALL_ROWS = sa.text(
    "SELECT reltuples FROM pg_class WHERE oid = to_regclass('octopus_vectors')"
).columns(sa.column("rows"))
_MIN_SHARE = 0.05
"""The graph scans 20,000 rows at most. In a scope with this share of all rows, it then finds 1,000
of the scope's, five times the limit."""
# With row-level security the planner expects almost no rows and would never choose the graph.
_USE_GRAPH = sa.text("""
    SELECT set_config('hnsw.iterative_scan', 'strict_order', true),
        set_config('hnsw.ef_search', :searched, true), set_config('enable_sort', 'off', true)
""")
_END_GRAPH = sa.text("SELECT set_config('enable_sort', 'on', true)")
# Of a distributed database, only SET LOCAL reaches the node that searches.
_GRAPH_ON_NODE = {"hnsw.iterative_scan": "strict_order", "enable_sort": "off"}
_END_GRAPH_ON_NODE = sa.text("SET LOCAL enable_sort TO on")
_MIN_EF_SEARCH = 100
_INDEXED = sa.text("SELECT to_regclass(:name) IS NOT NULL").columns(sa.column("is_indexed"))


def cosines(
    conn: SharedConnection, model: int, scope_id: int, vector: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """The `seq` and exact cosine of every row of the scope."""
    given = {"model": model, "scope": scope_id, "vector": as_text(vector)}
    found = np.frombuffer(conn.execute(_COSINES, given).scalar() or b"", _COSINE)
    return found["seq"].astype(np.int64), found["cosine"].astype(np.float32)


def near(
    conn: SharedConnection, model: int, scope_id: int, probe: Probe, rows: int, *, graph: bool
) -> list[UUID]:
    """Episodes near the probe by vector and by terms, best first."""
    meaning: list[UUID] = []
    if probe.vector is not None:
        meaning = nearest(conn, model, scope_id, probe.vector, rows=rows, graph=graph)
    words = _by_terms(conn, model, scope_id, probe, rows) if len(probe.terms) else []
    found: dict[UUID, None] = {}
    for i in range(max(len(meaning), len(words))):
        for leg in (meaning, words):
            if i < len(leg):
                found[leg[i]] = None
    return list(found)


def nearest(
    conn: SharedConnection,
    model: int,
    scope_id: int,
    vector: Floats,
    *,
    rows: int,
    graph: bool = True,
    limit: int = ROWS_PER_LEG,
) -> list[UUID]:
    """Episodes of the nearest rows, in a scope of about `rows` rows.

    Uses the graph only if the scope has a large share of all rows, because the graph skips rows of
    other scopes one by one and stops after a number of them. Otherwise, and if the graph found too
    few, compares every row of the scope.
    """
    all_rows = float(conn.execute(_ALL_ROWS).scalar() or 0)
    ways = [" + 0"]
    if graph and all_rows * _MIN_SHARE <= rows:
        ways.insert(0, "")
        _use_graph(conn, max(_MIN_EF_SEARCH, 2 * limit))
    given = {"scope": scope_id, "vector": as_text(vector), "limit": limit}
    for exactly in ways:
        statement = _NEAREST.format(model=model, dimension=len(vector), exactly=exactly)
        found = conn.execute(sa.text(statement).columns(_SEQ, _EPISODE), given).all()
        if len(found) >= limit:
            break
    conn.execute(_END_GRAPH_ON_NODE if conn.is_placed else _END_GRAPH)
    return [row.episode_id for row in found]


def _use_graph(conn: SharedConnection, searched: int) -> None:
    if not conn.is_placed:
        conn.execute(_USE_GRAPH, {"searched": str(searched)})
        return
    for name, value in {**_GRAPH_ON_NODE, "hnsw.ef_search": str(searched)}.items():
        conn.execute(sa.text(f"SET LOCAL {name} TO {value}"))


def _by_terms(
    conn: SharedConnection, model: int, scope_id: int, probe: Probe, rows: int
) -> list[UUID]:
    terms = np.unique(probe.terms).view(np.int32).tolist()
    given = {"model": model, "scope": scope_id, "terms": terms, "rows": rows, "limit": ROWS_PER_LEG}
    return [row.episode_id for row in conn.execute(_WORDS, given)]


def rows_of(conn: SharedConnection, scope_id: int, episodes: Sequence[UUID]) -> list[int]:
    given = {"scope": scope_id, "episodes": list(episodes)}
    return list(conn.execute(_ROWS_OF, given).scalars())


def index_name(model: int) -> str:
    return f"octopus_vectors_near_{model:d}"


def is_indexed(conn: SharedConnection, model: int) -> bool:
    return bool(conn.execute(_INDEXED, {"name": index_name(model)}).scalar_one())


def make_indexes(conn: sa.Connection, model: int, dimension: int) -> None:
    """Create the HNSW and term indexes for large scopes. Blocks vector writes while it runs."""
    conn.exec_driver_sql(
        f"CREATE INDEX IF NOT EXISTS {index_name(model)} ON octopus_vectors USING hnsw "
        f"((embedding::halfvec({dimension:d})) halfvec_cosine_ops) WHERE model_id = {model:d}"
    )
    conn.exec_driver_sql(
        "CREATE INDEX IF NOT EXISTS octopus_vectors_words ON octopus_vectors USING gin (terms)"
    )


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
            lambda conn, some: write(
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
        return self._sql.inside(scope, cosines, key, scope_id, vector)

    def _search_part(
        self, scope: Scope, state: RecallState, model: str, probe: Probe
    ) -> ScopeView | None:
        key, sql, scope_id = self._mirror.model_id(model), self._sql, state.scope_id
        if key is None:
            return None
        rows, graph = state.newest, state.newest > self._graph_rows
        episodes = sql.inside(
            scope,
            lambda conn: near(conn, key, scope_id, probe, rows, graph=graph),
        )
        return partial_view(
            self._store,
            scope,
            model,
            probe,
            near=episodes,
            rows_of=lambda episodes: sql.inside(scope, rows_of, scope_id, episodes),
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
            if not self._sql.inside(None, is_indexed, key):
                self._sql.change_schema(make_indexes, key, dimension)
            self._indexed_models.add(model)
        except StoreError as error:
            log.warning(
                "searching a very large scope without an HNSW index, creating it failed: %s. Run "
                "octopus index rebuild as the owner of the tables",
                type(error).__name__,
            )
