"""The store and index suites on a SQL Server, where OCTOPUS_TEST_SQLSERVER_URL names one.

    OCTOPUS_TEST_SQLSERVER_URL='sqlserver://sa:password@localhost:1433/master?TrustServerCertificate=yes'

The login must be allowed to create a database: each run makes one of its own, whose collation
takes upper and lower case for the same, and drops it in the end.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

import pytest
import sqlalchemy as sa

from octopus_memory.adapters.indexes.exact import ExactIndex
from octopus_memory.adapters.stores import schema, types
from octopus_memory.adapters.stores.sqlserver.store import SqlServerStore
from octopus_memory.domain.errors import StoreUnavailable
from octopus_memory.domain.ids import new_id
from octopus_memory.ports.index import RecallIndex
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import IndexSuite, StoreSuite, make_append
from octopus_memory.testing.store_tests import ANA, Reopen, texts

SERVER = os.environ.get("OCTOPUS_TEST_SQLSERVER_URL", "")
pytestmark = pytest.mark.skipif(not SERVER, reason="OCTOPUS_TEST_SQLSERVER_URL names no server")


@contextmanager
def _session(url: str) -> Iterator[Callable[[str], sa.CursorResult[object]]]:
    """Run statements outside any transaction."""
    from octopus_memory.adapters.stores.sqlserver.setup import Engines

    engine = Engines(url, pool_size=1, statement_seconds=60, connect_seconds=30).aside()
    with engine.connect() as conn:
        yield conn.exec_driver_sql
    engine.dispose()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    name = f"octopus_test_{secrets.token_hex(6)}"
    with _session(SERVER) as run:
        try:
            run(f"CREATE DATABASE {name} COLLATE Latin1_General_CI_AI")
        except sa.exc.DBAPIError:
            run(f"CREATE DATABASE {name}")
    made = sa.make_url(SERVER).set(database=name).render_as_string(hide_password=False)
    try:
        SqlServerStore(made).close()
        yield made
    finally:
        with _session(SERVER) as run:
            with suppress(sa.exc.DBAPIError):
                run(f"ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
            run(f"DROP DATABASE {name}")


@pytest.fixture
def empty(url: str) -> str:
    """The database of this run, with nothing in its tables."""
    with _session(url) as run:
        for table in schema.metadata.sorted_tables:
            run(f"TRUNCATE TABLE {table.name}")
    return url


class TestSqlServer(StoreSuite):
    @pytest.fixture
    def store(self, empty: str) -> Iterator[EpisodeStore]:
        store = SqlServerStore(empty)
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, url: str, store: EpisodeStore) -> Iterator[Reopen]:
        opened: list[EpisodeStore] = [store]

        def again() -> EpisodeStore:
            opened[-1].close()
            opened.append(SqlServerStore(url))
            return opened[-1]

        yield again
        opened[-1].close()


class TestExactIndexOnSqlServer(IndexSuite):
    @pytest.fixture
    def store(self, empty: str) -> Iterator[EpisodeStore]:
        store = SqlServerStore(empty)
        yield store
        store.close()

    @pytest.fixture
    def index(self, store: EpisodeStore) -> Iterator[RecallIndex]:
        index = ExactIndex(store)
        yield index
        index.close()

    @pytest.fixture
    def other_index(self, url: str, store: EpisodeStore) -> Iterator[RecallIndex]:
        """On connections of its own, as in another process."""
        other = SqlServerStore(url)
        index = ExactIndex(other)
        yield index
        index.close()
        other.close()


def test_the_server_keeps_ids_in_the_order_they_were_made_in(url: str) -> None:
    made = [new_id() for _ in range(50)]
    rows = ", ".join(f"('{types.to_sql_server(id_)}')" for id_ in reversed(made))
    with _session(url) as run:
        found = run(
            f"SELECT CAST(id AS UNIQUEIDENTIFIER) AS id FROM (VALUES {rows}) AS made (id) "
            "ORDER BY CAST(id AS UNIQUEIDENTIFIER)"
        ).scalars()
        assert [types.from_sql_server(UUID(str(id_))) for id_ in found] == made


def test_a_connection_that_was_killed_is_replaced(empty: str) -> None:
    store = SqlServerStore(empty)
    write = make_append(ANA, "a")
    store.append(write)
    with _session(SERVER) as run:
        name = sa.make_url(empty).database
        killed = run(
            "SELECT session_id FROM sys.dm_exec_sessions WHERE session_id <> @@SPID AND "
            f"database_id = DB_ID('{name}')"
        ).scalars()
        for session in killed.all():
            run(f"KILL {session}")
    assert texts(store, write) == ["a"]
    store.append(make_append(ANA, "b", session_id="other"))
    store.close()


def test_a_wrong_password_is_told() -> None:
    wrong = sa.make_url(SERVER).set(password="wrong").render_as_string(hide_password=False)
    with pytest.raises(StoreUnavailable, match="refused the login"):
        SqlServerStore(wrong)


def test_a_database_that_is_not_there_is_told() -> None:
    missing = sa.make_url(SERVER).set(database="octopus_none").render_as_string(hide_password=False)
    with pytest.raises(StoreUnavailable, match="no such database"):
        SqlServerStore(missing)
