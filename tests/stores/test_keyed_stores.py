"""The store suite where every scope is sealed with a key of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="needs the extra keys")
pytest.importorskip("mssql_python", reason="needs the extra sqlserver")

from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.adapters.stores.sql.statements import meta
from octopus_memory.adapters.stores.sql.transactions import Every
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.adapters.stores.sqlserver.dialect import SqlServerDialect
from octopus_memory.adapters.stores.sqlserver.store import SqlServerStore
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import StoreSuite
from octopus_memory.testing.store.base import Reopen
from tests.support.keyed_stores import make_ring
from tests.support.postgres_installation import Installation
from tests.support.sqlserver_double import Driver, Server

pytestmark = pytest.mark.slow
SQL_SERVER = "sqlserver://sa:secret@example.invalid:1433/memory?Encrypt=no"


BY_NAME = (
    "test_people_are_in_order_and_in_pages",
    "test_people_are_found_by_the_beginning_agent_and_name",
    "test_people_are_searched_in_any_case",
    "test_a_search_is_in_pages_and_bounded",
    "test_all_that_is_taken_out_can_be_brought_elsewhere",
    "test_sessions_come_in_order_page_by_page",
    "test_every_session_is_listed_in_order",
)
"""Tests that need names in their order, or by a part of them."""
LONGEST = ("TestSealedSqlServer::test_sessions", "TestSealedSqlServer::test_idempotency_keys")
"""Tests of names of more than 750 bytes, for which SQL Server has no room once they are sealed."""


@pytest.fixture(autouse=True)
def names_have_no_order(request: pytest.FixtureRequest) -> None:
    if request.function.__name__ in BY_NAME:
        reason = "sealed names have no order, and are found only whole"
        request.applymarker(pytest.mark.xfail(reason=reason, strict=False))
    if request.node.nodeid.endswith(LONGEST):
        reason = "SQL Server's columns have no room for the longest names once they are sealed"
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


class TestSealedSqlite(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[EpisodeStore]:
        store = SqliteStore(tmp_path / "memory.db", ring=make_ring(tmp_path / "keys"))
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, tmp_path: Path, store: EpisodeStore) -> Iterator[Reopen]:
        opened: list[EpisodeStore] = [store]

        def again() -> EpisodeStore:
            opened[-1].close()
            opened.append(SqliteStore(tmp_path / "memory.db", ring=make_ring(tmp_path / "keys")))
            return opened[-1]

        yield again
        opened[-1].close()


@pytest.fixture(scope="module")
def on_postgres(
    postgres: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, PostgresStore, Installation, str]]:
    folder = tmp_path_factory.mktemp("keys")
    with postgres.database() as database:
        store = PostgresStore(database.url, ring=make_ring(folder))
        yield database.url, folder, store, postgres, database.name
        store.close()


class TestSealedPostgres(StoreSuite):
    @pytest.fixture
    def store(self, on_postgres) -> Iterator[EpisodeStore]:
        _, _, store, installation, name = on_postgres
        yield store
        installation.empty(name)
        forget_places(store)
        # What says that every user is sealed was emptied, too.
        store._write(Every.TENANT, meta.begin_sealing, store._ring.fingerprint())

    @pytest.fixture
    def reopen(self, on_postgres, store: EpisodeStore) -> Iterator[Reopen]:
        url, folder, *_ = on_postgres
        opened: list[EpisodeStore] = [store]

        def again() -> EpisodeStore:
            opened[-1].close()
            opened.append(PostgresStore(url, ring=make_ring(folder)))
            return opened[-1]

        yield again
        opened[-1].close()


@pytest.fixture(scope="module")
def on_sql_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Server, Path, SqlServerStore, sqlite3.Connection]]:
    folder = tmp_path_factory.mktemp("keys")
    with closing(Server()) as server, pytest.MonkeyPatch.context() as patch:
        driver = Driver(server)
        patch.setattr(SqlServerDialect, "import_dbapi", lambda: driver)
        with (
            closing(SqlServerStore(SQL_SERVER, ring=make_ring(folder))) as store,
            closing(sqlite3.connect(":memory:", check_same_thread=False)) as blank,
        ):
            server.data.backup(blank)
            yield server, folder, store, blank


class TestSealedSqlServer(StoreSuite):
    """The SQL Server store, with SQLite behind its T-SQL."""

    @pytest.fixture
    def store(self, on_sql_server) -> EpisodeStore:
        server, _, store, blank = on_sql_server
        blank.backup(server.data)
        forget_places(store)
        return store

    @pytest.fixture
    def reopen(self, on_sql_server, store: EpisodeStore) -> Iterator[Reopen]:
        _, folder, *_ = on_sql_server
        stores: list[EpisodeStore] = [store]

        def again() -> EpisodeStore:
            stores[-1].close()
            stores.append(SqlServerStore(SQL_SERVER, ring=make_ring(folder)))
            return stores[-1]

        yield again
        stores[-1].close()


def forget_places(store) -> None:
    """Make the store read its scopes anew: their numbers begin again, as never elsewhere."""
    store._ring._places.clear()
    store._ring._numbers.clear()
