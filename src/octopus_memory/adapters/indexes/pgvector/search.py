"""The statements that search pgvector's table: all of a scope, or the best of a very large one."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ....ports.index import Probe
from .mirror import Floats, as_text

FROM_EACH = 200
"""How many rows meaning brings, and words."""
_UNHURRIED = "SET LOCAL statement_timeout = 0"

# One value for all rows: taking in a row each would cost more than the search.
_COSINES = sa.text("""
    SELECT string_agg(
        int8send(seq) || float8send(1 - (embedding <=> CAST(:vector AS halfvec))), CAST('' AS bytea)
    ) FROM octopus_vectors
    WHERE scope_id = :scope AND model_id = :model
""")
_COSINE = np.dtype([("seq", ">i8"), ("cosine", ">f8")])
# The model's number is written out: the planner takes an index of one model only where it sees
# which model is asked for.
_NEAREST = """
    SELECT seq, episode_id FROM octopus_vectors
    WHERE scope_id = :scope AND model_id = {model:d}
    ORDER BY
        (embedding::halfvec({dimension:d}) <=> CAST(:vector AS halfvec({dimension:d}))){exactly}
    LIMIT :limit
"""
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
""")
_ROWS_OF = sa.text("""
    SELECT seq FROM octopus_vectors
    WHERE scope_id = :scope AND episode_id = ANY(CAST(:episodes AS uuid[]))
""")
_ALL_ROWS = sa.text("SELECT reltuples FROM pg_class WHERE oid = to_regclass('octopus_vectors')")
_LEAST_PART = 0.05
"""The graph looks at 20,000 rows at most: of a scope with this part of all, five times enough."""
# The planner takes row-level security to leave almost nothing, and then would never take the graph.
_GRAPH = """
    SET LOCAL hnsw.iterative_scan = strict_order; SET LOCAL hnsw.ef_search = {searched:d};
    SET LOCAL enable_sort = off
"""
_LEAST_SEARCHED = 100
_INDEXED = sa.text("SELECT to_regclass(:name) IS NOT NULL")


def cosines(
    conn: sa.Connection, model: int, scope_id: int, vector: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """Of every row of the scope, exactly, by the table's key."""
    given = {"model": model, "scope": scope_id, "vector": as_text(vector)}
    found = np.frombuffer(conn.execute(_COSINES, given).scalar() or b"", _COSINE)
    return found["seq"].astype(np.int64), found["cosine"].astype(np.float32)


def near(
    conn: sa.Connection, model: int, scope_id: int, probe: Probe, rows: int, *, graph: bool
) -> list[UUID]:
    """The episodes that the probe's vector and words bring near, best first."""
    meaning: list[UUID] = []
    if probe.vector is not None:
        meaning = nearest(conn, model, scope_id, probe.vector, rows=rows, graph=graph)
    words = _by_words(conn, model, scope_id, probe, rows) if len(probe.terms) else []
    found: dict[UUID, None] = {}
    for place in range(max(len(meaning), len(words))):
        for leg in (meaning, words):
            if place < len(leg):
                found[leg[place]] = None
    return list(found)


def nearest(
    conn: sa.Connection,
    model: int,
    scope_id: int,
    vector: Floats,
    *,
    rows: int,
    graph: bool = True,
    limit: int = FROM_EACH,
) -> list[UUID]:
    """The episodes of the nearest of about so many rows.

    By the graph only where the scope is a large part of it: it passes over the rows of others one
    by one, and gives up after a number of them. Then, and wherever it gave up all the same, every
    row of the scope is compared.
    """
    everything = float(conn.execute(_ALL_ROWS).scalar() or 0)
    ways = [" + 0"]
    if graph and everything * _LEAST_PART <= rows:
        ways.insert(0, "")
        conn.exec_driver_sql(_GRAPH.format(searched=max(_LEAST_SEARCHED, 2 * limit)))
    given = {"scope": scope_id, "vector": as_text(vector), "limit": limit}
    for exactly in ways:
        statement = _NEAREST.format(model=model, dimension=len(vector), exactly=exactly)
        found = conn.execute(sa.text(statement), given).all()
        if len(found) >= limit:
            break
    conn.exec_driver_sql("SET LOCAL enable_sort = on")
    return [row.episode_id for row in found]


def _by_words(
    conn: sa.Connection, model: int, scope_id: int, probe: Probe, rows: int
) -> list[UUID]:
    terms = np.unique(probe.terms).view(np.int32).tolist()
    given = {"model": model, "scope": scope_id, "terms": terms, "rows": rows, "limit": FROM_EACH}
    return [row.episode_id for row in conn.execute(_WORDS, given)]


def rows_of(conn: sa.Connection, scope_id: int, episodes: Sequence[UUID]) -> list[int]:
    given = {"scope": scope_id, "episodes": list(episodes)}
    return list(conn.execute(_ROWS_OF, given).scalars())


def index_name(model: int) -> str:
    return f"octopus_vectors_near_{model:d}"


def is_indexed(conn: sa.Connection, model: int) -> bool:
    return bool(conn.execute(_INDEXED, {"name": index_name(model)}).scalar_one())


def make_indexes(conn: sa.Connection, model: int, dimension: int) -> None:
    """What the search of a very large scope is quick by. Nobody can put vectors meanwhile."""
    conn.exec_driver_sql(_UNHURRIED)
    conn.exec_driver_sql(
        f"CREATE INDEX IF NOT EXISTS {index_name(model)} ON octopus_vectors USING hnsw "
        f"((embedding::halfvec({dimension:d})) halfvec_cosine_ops) WHERE model_id = {model:d}"
    )
    conn.exec_driver_sql(
        "CREATE INDEX IF NOT EXISTS octopus_vectors_words ON octopus_vectors USING gin (terms)"
    )
