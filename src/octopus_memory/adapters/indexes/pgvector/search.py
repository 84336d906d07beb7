"""Statements that search pgvector's table: a whole scope, or the best rows of a very large one."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ....ports.index import Probe
from ....ports.store import SharedConnection
from .mirror import Floats, as_text

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
_SEQ: sa.ColumnClause[int] = sa.column("seq")
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
        conn.execute(_USE_GRAPH, {"searched": str(max(_MIN_EF_SEARCH, 2 * limit))})
    given = {"scope": scope_id, "vector": as_text(vector), "limit": limit}
    for exactly in ways:
        statement = _NEAREST.format(model=model, dimension=len(vector), exactly=exactly)
        found = conn.execute(sa.text(statement).columns(_SEQ, _EPISODE), given).all()
        if len(found) >= limit:
            break
    conn.execute(_END_GRAPH)
    return [row.episode_id for row in found]


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
