"""Databases of every release open in this one."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from octopus_memory import EpisodicMemory, StoreError
from octopus_memory.adapters.stores.sql import migrate, schema
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.search import row_format
from octopus_memory.domain.search.row_format import dimension_of, unpack_vectors
from octopus_memory.ports.recall_rows import RecallRow, WorkKind
from tests.support.older_database import make_older
from tests.support.paths import DATA

_LATER = datetime(2100, 1, 1, tzinfo=UTC)
FIRST_RELEASE = DATA / "first_release.sql"


def _schema(path: Path) -> set[tuple[object, ...]]:
    """Tables column by column, since an added column is written down otherwise than a first one."""
    with sqlite3.connect(path) as conn:
        found: set[tuple[object, ...]] = set(
            conn.execute(
                "SELECT name, tbl_name, sql FROM sqlite_master WHERE type IN ('index', 'view')"
                " AND sql IS NOT NULL"
            )
        )
        for name, columns, without_rowid in conn.execute(
            "SELECT name, ncol, wr FROM pragma_table_list WHERE schema = 'main'"
        ).fetchall():
            if name != migrate.VERSION_TABLE:
                found.add((name, columns, without_rowid))
                shown = conn.execute("SELECT * FROM pragma_table_xinfo(?)", (name,))
                found |= {(name, *column) for column in shown}
                keys = conn.execute("SELECT * FROM pragma_index_list(?)", (name,))
                found |= {(name, *key[1:]) for key in keys}
    conn.close()
    return found


def test_migrating_ends_where_creating_does(tmp_path: Path):
    SqliteStore(tmp_path / "created.db").close()
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    migrate.upgrade(engine)
    engine.dispose()
    assert _schema(tmp_path / "created.db") == _schema(tmp_path / "migrated.db")


REVISIONS = sorted(
    path.name.partition("_")[0]
    for path in (Path(migrate.__file__).parent / "migrations" / "versions").glob("0*.py")
)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_database_of_every_revision_opens(tmp_path: Path, revision: str):
    path = tmp_path / "older.db"
    engine = sa.create_engine(f"sqlite:///{path}")
    migrate.upgrade(engine, revision)
    engine.dispose()

    SqliteStore(path).close()

    SqliteStore(tmp_path / "created.db").close()
    assert _schema(path) == _schema(tmp_path / "created.db")


def test_the_newest_migration_is_the_head(tmp_path: Path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    migrate.upgrade(engine)
    with engine.connect() as conn:
        version = conn.execute(sa.text(f"SELECT version_num FROM {migrate.VERSION_TABLE}")).scalar()
        assert version == migrate.HEAD
        found = set(sa.inspect(conn).get_table_names())
    engine.dispose()
    assert found == {*schema.metadata.tables, migrate.VERSION_TABLE}


def test_a_database_of_the_first_release_opens(tmp_path: Path):
    with sqlite3.connect(tmp_path / "old.db") as conn:
        conn.executescript(FIRST_RELEASE.read_text())
    conn.close()
    with EpisodicMemory.open(f"sqlite:///{tmp_path / 'old.db'}", embedder="hashing") as memory:
        scope = memory.scope(tenant="acme", agent="hr", user="user-17")
        assert [turn.text for turn in scope.session("s-1").turns] == [
            "How many leave days do I have left? Please be formal with me.",
            "You have 12 days remaining.",
        ]
        assert scope.recall("leave days", limit=1)[0].session_id == "s-1"
        scope.add("s-2", ("user", "And how many will be left next year?"))
        memory.flush()
        assert len(scope.episodes()) == 2
        said = "How many leave days do I have left? Please be formal with me."
        scope.add("s-3", ("user", said))
        memory.flush()
        _, rows = memory.runtime.store.recall_rows(scope.scope, after=0)
        before, now = rows[0], rows[-1]
        assert before.lexical.terms == now.lexical.terms
        assert _unit(before) @ _unit(now) > 0.999


@pytest.mark.both_databases(as_owner=True)
def test_what_is_recalled_by_is_rewritten(database_url: str):
    """Names, terms and vectors mean what they meant; a remote index is given all of them again."""
    with EpisodicMemory.open(database_url, embedder="hashing", background=False) as memory:
        scope = memory.scope(user="ana")
        for number in range(3):
            said = f"Box {number} holds felt, felt and more felt; box {number} is blue."
            scope.add("s", {"role": "user", "content": said, "name": "Ana Ng"})
        memory.flush()
        scope.add("s", ("user", "This one has no vector yet."))
        scope.recall("felt")
        store = memory.runtime.store
        _, now = store.recall_rows(scope.scope, after=0)
        store.use_mirror("somewhere/else")
        claimed = store.claim(
            WorkKind.INDEX, worker_id="me", limit=1, now=_LATER, until=_LATER + timedelta(days=1)
        )
        assert len(claimed) == 1
        older: list[bytes | None] = []

        def go_back(conn: sa.Connection) -> None:
            make_older(conn)
            kept = sa.select(schema.recall.c.vector).order_by(schema.recall.c.seq)
            older.extend(conn.execute(kept).scalars())

        store.change_schema(go_back)
    assert {len(vector or b"") for vector in older} == {256, 0}
    with EpisodicMemory.open(database_url, embedder="hashing", background=False) as memory:
        store = memory.runtime.store
        _, found = memory.runtime.store.recall_rows(scope.scope, after=0)
        assert [_words(row) for row in found] == [_words(row) for row in now]
        assert [row.lexical.speaker for row in found] == [row.lexical.speaker for row in now]
        for row, was in zip(found[:3], older, strict=False):
            coarse = np.frombuffer(was or b"", np.int8).astype(np.float32)
            assert np.allclose(_unit(row), coarse / np.linalg.norm(coarse), atol=1e-6)
        assert found[3].vector is None
        assert store.backlog()[WorkKind.INDEX].waiting == 3
        assert memory.scope(user="ana").recall("felt in a blue box", limit=1)


@pytest.mark.both_databases(as_owner=True)
def test_times_that_turns_tell_of_are_resolved_in_the_background(database_url: str):
    with EpisodicMemory.open(database_url, embedder="hashing", background=False) as memory:
        scope = memory.scope(user="ana")
        scope.add("s", [("user", "Yesterday we baked bread."), ("user", "Bread is good.")])
        memory.flush()
        _, now = memory.runtime.store.recall_rows(scope.scope, after=0)
        assert [bool(row.lexical.told) for row in now] == [True, False]
        memory.runtime.store.change_schema(make_older)
    with EpisodicMemory.open(database_url, embedder="hashing", background=False) as memory:
        store = memory.runtime.store
        assert store.backlog()[WorkKind.TIMES].waiting == 1
        memory.run_pending()
        assert store.backlog()[WorkKind.TIMES].waiting == 0
        _, found = store.recall_rows(scope.scope, after=0)
        assert [row.lexical.told for row in found] == [row.lexical.told for row in now]


@pytest.mark.both_databases(as_owner=True)
def test_a_migration_that_breaks_off_changes_nothing(database_url: str):
    """Rows that were rewritten twice would mean nothing."""
    in_the_way = sa.Index(
        "octopus_holds_episode", sa.Table("octopus_holds", sa.MetaData(), sa.Column("id")).c.id
    )
    with EpisodicMemory.open(database_url, embedder="hashing", background=False) as memory:
        scope = memory.scope(user="ana")
        scope.add("s", ("user", "Box 1 holds felt, felt and more felt."))
        memory.flush()
        store = memory.runtime.store
        _, now = store.recall_rows(scope.scope, after=0)
        store.change_schema(make_older)
    engine = _engine(database_url)
    with engine.begin() as conn:
        in_the_way.create(conn)
    for _ in range(2):
        with pytest.raises(StoreError):
            EpisodicMemory.open(database_url, embedder="hashing", background=False)
    with engine.begin() as conn:
        version = sa.text(f"SELECT version_num FROM {migrate.VERSION_TABLE}")
        assert conn.execute(version).scalar_one() == "0003"
        in_the_way.drop(conn)
    engine.dispose()
    with EpisodicMemory.open(database_url, embedder="hashing", background=False) as memory:
        _, found = memory.runtime.store.recall_rows(scope.scope, after=0)
        assert [_words(row) for row in found] == [_words(row) for row in now]
        assert dimension_of(found[0].vector or b"") == 256


def _engine(url: str) -> sa.Engine:
    if url.startswith("sqlserver:"):
        from octopus_memory.adapters.stores.sqlserver.engine import Engines

        return Engines(url, pool_size=1, statement_seconds=30, connect_seconds=30).writing()
    return sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))


def _unit(row: RecallRow) -> np.ndarray:
    assert row.vector is not None
    return unpack_vectors([row.vector], dimension_of(row.vector))[0]


def _words(row: RecallRow) -> set[tuple[int, int]]:
    terms, counts, _ = row_format.unpack_all([row.lexical.terms])
    return set(zip(terms.tolist(), counts.tolist(), strict=True))
