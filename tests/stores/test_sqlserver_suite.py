"""The store suite on the SQL Server store, with SQLite behind its T-SQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

pytest.importorskip("mssql_python", reason="needs the extra sqlserver")

from octopus_memory.adapters.stores.sqlserver import dialect as sqlserver_dialect
from octopus_memory.adapters.stores.sqlserver.store import SqlServerStore
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import StoreSuite
from octopus_memory.testing.store.base import Reopen
from tests.support.sqlserver_double import Driver, Server

pytestmark = pytest.mark.slow

URL = "sqlserver://sa:secret@example.invalid:1433/memory?Encrypt=no"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with closing(Server()) as server, pytest.MonkeyPatch.context() as patch:
        driver = Driver(server)
        patch.setattr(sqlserver_dialect.SqlServerDialect, "import_dbapi", lambda: driver)
        yield server


@pytest.fixture(scope="module")
def opened(server: Server) -> Iterator[SqlServerStore]:
    """One store for all tests: what it has compiled is kept, and closing it ends nothing."""
    store = SqlServerStore(URL)
    yield store
    store.close()


@pytest.fixture(scope="module")
def blank(server: Server, opened: SqlServerStore) -> Iterator[sqlite3.Connection]:
    """The tables as they are made, to begin each test with."""
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as copy:
        server.data.backup(copy)
        yield copy


class TestSqlServerOnSqlite(StoreSuite):
    @pytest.fixture
    def store(
        self, server: Server, opened: SqlServerStore, blank: sqlite3.Connection
    ) -> EpisodeStore:
        blank.backup(server.data)
        return opened

    @pytest.fixture
    def reopen(self, store: EpisodeStore) -> Iterator[Reopen]:
        stores: list[EpisodeStore] = [store]

        def again() -> EpisodeStore:
            stores[-1].close()
            stores.append(SqlServerStore(URL))
            return stores[-1]

        yield again
        stores[-1].close()
