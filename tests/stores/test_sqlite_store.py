"""The store suite on SQLite, in a file and in memory."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from octopus_memory.adapters.stores.sql.statements import close
from octopus_memory.adapters.stores.sqlite.compiled import compile_statement
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.ports.recall_rows import RowPart
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.ports.values import SUMMARY_ORDINAL
from octopus_memory.testing import StoreSuite
from octopus_memory.testing.fakes import make_append, make_closing, make_scope
from octopus_memory.testing.store.base import Reopen


class TestSqliteFile(StoreSuite):
    @pytest.fixture
    def path(self, tmp_path: Path, blank_file: Path) -> Path:
        return Path(shutil.copy(blank_file, tmp_path / "memory.db"))

    @pytest.fixture
    def store(self, path: Path) -> Iterator[EpisodeStore]:
        store = SqliteStore(path)
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, path: Path, store: EpisodeStore) -> Iterator[Reopen]:
        opened: list[EpisodeStore] = [store]

        def again() -> EpisodeStore:
            opened[-1].close()
            opened.append(SqliteStore(path))
            return opened[-1]

        yield again
        opened[-1].close()


class TestSqliteInMemory(StoreSuite):
    @pytest.fixture
    def store(self) -> Iterator[EpisodeStore]:
        store = SqliteStore(":memory:")
        yield store
        store.close()


def test_each_database_has_its_own_salt(tmp_path: Path) -> None:
    salts = set()
    for path in (tmp_path / "a.db", tmp_path / "b.db", ":memory:"):
        store = SqliteStore(path)
        salts.add(store.salt)
        store.close()
    assert len(salts) == 3


def test_a_new_file_is_its_owners_alone(tmp_path: Path):
    store = SqliteStore(tmp_path / "memory.db")
    for file in tmp_path.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file.name
    store.close()


def test_a_commit_waits_for_the_disk(blank_file: Path) -> None:
    """Looks at the product's own settings, because the tests' stores do not wait."""
    prepare = SqliteStore._prepare.__wrapped__  # type: ignore[attr-defined]
    with closing(SqliteStore(blank_file)) as store, closing(sqlite3.connect(blank_file)) as conn:
        conn.execute("PRAGMA synchronous=OFF")
        prepare(store, conn)
        [level] = conn.execute("PRAGMA synchronous").fetchone()
    assert level == 2  # FULL


@pytest.mark.parametrize("count", [1, 3])
def test_values_are_stored_as_what_they_are(tmp_path: Path, count: int):
    store = SqliteStore(tmp_path / "memory.db")
    store.append(make_append(make_scope("ana"), *["said"] * count))
    store.close()
    with closing(sqlite3.connect(tmp_path / "memory.db")) as conn:
        kinds = conn.execute(
            "SELECT typeof(episode_id), typeof(ordinal), typeof(has_pii), typeof(agent),"
            " typeof(tool_calls), typeof(message) FROM octopus_turns"
        ).fetchall()
    assert kinds == [("blob", "integer", "integer", "null", "null", "blob")] * count


@pytest.mark.parametrize("part", RowPart)
def test_an_episodes_rows_are_found_without_reading_its_whole_scope(
    blank_file: Path, part: RowPart
) -> None:
    with closing(sqlite3.connect(blank_file)) as conn:
        for drop in (close._drop_recall, close._drop_work):
            made, _ = compile_statement(drop(part)(), ("episode_", "scope_"))
            asked = conn.execute(f"EXPLAIN QUERY PLAN {made.text[0]}", [0] * len(made.names))
            assert "(scope_id=? AND seq>? AND seq<?)" in asked.fetchone()[3]


def test_an_episode_that_an_older_octopus_began_loses_all_its_rows(
    tmp_path: Path, blank_file: Path
) -> None:
    file = Path(shutil.copy(blank_file, tmp_path / "memory.db"))
    ana = make_scope()
    write = make_append(ana, "a", "b", closing=make_closing())
    with closing(SqliteStore(file)) as store, closing(sqlite3.connect(file)) as conn:
        store.append(write)
        with conn:
            conn.execute("UPDATE octopus_episodes SET first_seq = NULL, last_seq = NULL")
        store.archive(ana, write.episode_id)
        assert [row.ordinal for row in store.recall_rows(ana, after=0)[1]] == [SUMMARY_ORDINAL]
