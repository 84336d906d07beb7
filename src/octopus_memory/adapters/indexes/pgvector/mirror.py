"""The vectors in PostgreSQL: a table beside the store's own, written in the same transactions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from uuid import UUID

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from ....domain.errors import InvalidSetting, StoreError, StoreUnavailable
from ....domain.search import vectors
from ....ports.index import IndexMirror, MirrorRow
from ....ports.recall_rows import Removal
from ....ports.store import SharedConnection, SharedDatabase

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
            self._on_upsert(model, vectors.dimension_of(given[0][2]), newest)

    def remove(self, removal: Removal) -> None:
        """Do nothing: the foreign key deleted the rows with the store's."""

    def delete(self, model: str, scope_id: int, seqs: Sequence[int]) -> None:
        self._store.inside(None, _delete, self.model_id(model), scope_id, list(seqs), writes=True)

    def scope_ids(self, model: str) -> set[int]:
        return set(self._store.inside(None, _scope_ids, self.model_id(model)))

    def seqs(self, model: str, scope_id: int) -> set[int]:
        return set(self._store.inside(None, _seqs, self.model_id(model), scope_id))

    def vectors(self, model: str, scope_id: int, seqs: Sequence[int]) -> dict[int, Floats]:
        return self._store.inside(None, _vectors, self.model_id(model), scope_id, list(seqs))

    def drop_models(self, *, keep: str | None) -> list[str]:
        kept = None if keep is None else self.model_id(keep)
        return self._store.inside(None, _drop_models, kept, writes=True)

    def count(self, scope_ids: Sequence[int], episode_id: UUID | None) -> int:
        return self._store.inside(None, _left_of, list(scope_ids), episode_id)


def write(conn: SharedConnection, model: str, given: Iterable[tuple[int, int, bytes]]) -> None:
    """Upsert (scope, seq, packed vector) of rows that the store has with that model."""
    key = _model_id(conn, model)
    rows = [
        {
            "scope": scope_id,
            "seq": seq,
            "model": key,
            "embedding": as_text(vectors.unpack([packed], vectors.dimension_of(packed))[0]),
        }
        for scope_id, seq, packed in given
    ]
    if rows:
        conn.execute(_WRITE, rows)


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
_WRITE = sa.text(f"""
    INSERT INTO octopus_vectors
        (scope_id, seq, tenant, model_id, episode_id, ordinal, terms, embedding)
    SELECT r.scope_id, r.seq, r.tenant, r.model_id, r.episode_id, r.ordinal, {_TERMS},
        CAST(:embedding AS halfvec)
    FROM octopus_recall AS r
    WHERE r.scope_id = :scope AND r.seq = :seq AND r.model_id = :model
    ON CONFLICT (scope_id, seq) DO UPDATE
        SET model_id = EXCLUDED.model_id, embedding = EXCLUDED.embedding, terms = EXCLUDED.terms
""")  # noqa: S608 - built from constants
_HAS_TABLE = sa.text("SELECT to_regclass('octopus_vectors') IS NOT NULL").columns(sa.column("has"))
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
    conn.exec_driver_sql(script, execution_options={"no_parameters": True})


def _model_id(conn: SharedConnection, model: str) -> int | None:
    found = conn.execute(_MODEL, {"name": model}).scalar()
    return None if found is None else int(found)


def _delete(conn: SharedConnection, model: int | None, scope_id: int, seqs: list[int]) -> None:
    conn.execute(_DELETE, {"model": model, "scope": scope_id, "seqs": seqs})


def _scope_ids(conn: SharedConnection, model: int | None) -> list[int]:
    return list(conn.execute(_SCOPE_IDS, {"model": model}).scalars())


def _seqs(conn: SharedConnection, model: int | None, scope_id: int) -> list[int]:
    return list(conn.execute(_SEQS, {"model": model, "scope": scope_id}).scalars())


def _vectors(
    conn: SharedConnection, model: int | None, scope_id: int, seqs: list[int]
) -> dict[int, Floats]:
    read = conn.execute(_VECTORS, {"model": model, "scope": scope_id, "seqs": seqs})
    return {row.seq: np.asarray(row.embedding, np.float32) for row in read}


def _drop_models(conn: SharedConnection, keep: int | None) -> list[str]:
    return ["octopus_vectors"] if conn.execute(_DROP_MODELS, {"keep": keep}).rowcount else []


def _left_of(conn: SharedConnection, scope_ids: list[int], episode_id: UUID | None) -> int:
    given = {"scopes": scope_ids, "episode": episode_id}
    return int(conn.execute(_COUNT, given).scalar_one())
