"""Databases of every release open in this one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import sqlalchemy as sa

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.stores import migrate, schema
from octopus_memory.adapters.stores.sqlite.store import SqliteStore

FIRST_RELEASE = Path(__file__).parent / "data" / "first_release.sql"


def _schema(path: Path) -> set[tuple[object, ...]]:
    """Tables column by column, since an added column is written down otherwise than a first one."""
    with sqlite3.connect(path) as conn:
        found: set[tuple[object, ...]] = set(
            conn.execute(
                "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index'"
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
