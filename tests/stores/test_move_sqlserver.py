"""A move to SQL Server and back, with the double in the server's place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("mssql_python", reason="needs the extra sqlserver")

from octopus_memory.adapters.stores.sql import move
from octopus_memory.adapters.stores.sql.statements import move as move_statements
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.adapters.stores.sqlserver import dialect as sqlserver_dialect
from octopus_memory.adapters.stores.sqlserver.store import SqlServerStore
from octopus_memory.testing import make_append, make_closing, make_key, make_scope
from octopus_memory.testing.store.base import snapshot
from octopus_memory.testing.store.erasure import erase
from tests.support.sqlserver_double import Driver, Server

URL = "sqlserver://sa:secret@example.invalid:1433/memory?Encrypt=no"
SCOPES = [make_scope(f"user {number}") for number in range(5)]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with closing(Server()) as server:
        driver = Driver(server)
        monkeypatch.setattr(sqlserver_dialect.SqlServerDialect, "import_dbapi", lambda: driver)
        # So that every table is read in more than one page, by keys in the server's own order.
        monkeypatch.setattr(move_statements, "_ROWS", 3)
        yield server


@pytest.fixture
def source(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "source.db")) as store:
        for number, scope in enumerate(SCOPES):
            for session in ("a", "B", "a ", "b"):
                key = make_key(session)
                write = make_append(
                    scope, "x", "y", session_id=session, closing=make_closing(), idempotency=key
                )
                store.append(write)
            if number % 2:
                store.archive(scope, write.episode_id, cold=True)
        yield store


def test_a_move_to_sql_server_and_back_copies_everything(
    server: Server, source: SqliteStore, tmp_path: Path
):
    before = snapshot(source, *SCOPES)
    with closing(SqlServerStore(URL)) as there:
        report = move.move(source, there)
        ready = snapshot(there, *SCOPES)
        assert {k: v for k, v in ready.items() if k != "stats"} == {
            k: v for k, v in before.items() if k != "stats"
        }
        inserted = [said for said in server.seen if said.startswith("SET IDENTITY_INSERT")]
        for name in ("octopus_scopes", "octopus_turns", "octopus_turns_archive", "octopus_work"):
            assert f"SET IDENTITY_INSERT {name} ON" in inserted
            assert f"SET IDENTITY_INSERT {name} OFF" in inserted
            rows = next(table.rows for table in report.tables if table.name == name)
            assert any(
                said.startswith(f"DBCC CHECKIDENT ('{name}', RESEED, ")
                and int(said.rpartition(" ")[2].rstrip(")")) > rows
                for said in server.seen
            )
        with closing(SqliteStore(tmp_path / "back.db")) as back:
            again = move.move(there, back)
            assert again.tables == report.tables
            assert snapshot(back, *SCOPES) == before


def test_no_number_is_given_twice_after_two_moves(server: Server, tmp_path: Path):
    """Of a table without rows the server forgets the last number, whatever it was told."""
    with closing(SqliteStore(tmp_path / "source.db")) as source:
        for scope in SCOPES:
            source.append(make_append(scope, "x", closing=make_closing()))
            erase(source, scope)
        given = source.numbers_given()
        assert given["octopus_scopes"] == len(SCOPES)
        with closing(SqlServerStore(URL)) as there:
            move.move(source, there)
            assert server.reseeded["octopus_scopes"] == len(SCOPES) + 1
            kept = there.numbers_given()
            assert all(kept[name] >= number for name, number in given.items())
            with closing(SqliteStore(tmp_path / "back.db")) as back:
                move.move(there, back)
                again = back.numbers_given()
                assert all(again[name] >= number for name, number in given.items())
                assert back.meta_values() == source.meta_values()
