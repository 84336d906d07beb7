"""The store and index suites on a SQL Server, where OCTOPUS_TEST_SQLSERVER_URL names one."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
import sqlalchemy as sa

from octopus_memory.adapters.indexes.exact import ExactIndex
from octopus_memory.adapters.stores.sql import types
from octopus_memory.adapters.stores.sqlserver.store import SqlServerStore
from octopus_memory.domain.errors import StoreUnavailable
from octopus_memory.domain.ids import new_id
from octopus_memory.ports.index import RecallIndex
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import IndexSuite, StoreSuite, make_append
from octopus_memory.testing.store.base import ANA, Reopen, texts
from tests.support.sqlserver_server import SqlServer, session

BY_ID = (
    "test_entries_are_in_order_and_in_pages",
    "test_episodes_that_start_together_are_all_found",
    "test_erasures_newest_first_in_pages",
    "test_idle_or_long_open_episodes_of_every_tenant",
    "test_pages_go_by_id",
    "test_queries_are_rewritten",
    "test_the_turn_is_the_first_that_was_stored_afterwards",
    "test_uses_tell_how_often_and_when_last",
)
"""Tests of the suite that need the server's order of ids to be that of their creation."""


class TestSqlServer(StoreSuite):
    @pytest.fixture(autouse=True)
    def _order_of_ids(self, request: pytest.FixtureRequest, sqlserver: SqlServer) -> None:
        if request.node.originalname in BY_ID:
            sqlserver.check_order_of_ids()

    @pytest.fixture
    def store(self, sqlserver_url: str) -> Iterator[EpisodeStore]:
        store = SqlServerStore(sqlserver_url)
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, sqlserver_url: str, store: EpisodeStore) -> Iterator[Reopen]:
        opened: list[EpisodeStore] = [store]

        def again() -> EpisodeStore:
            opened[-1].close()
            opened.append(SqlServerStore(sqlserver_url))
            return opened[-1]

        yield again
        opened[-1].close()


class TestExactIndexOnSqlServer(IndexSuite):
    @pytest.fixture
    def store(self, sqlserver_url: str) -> Iterator[EpisodeStore]:
        store = SqlServerStore(sqlserver_url)
        yield store
        store.close()

    @pytest.fixture
    def index(self, store: EpisodeStore) -> Iterator[RecallIndex]:
        index = ExactIndex(store)
        yield index
        index.close()

    @pytest.fixture
    def other_index(self, sqlserver_url: str, store: EpisodeStore) -> Iterator[RecallIndex]:
        """On connections of its own, as in another process."""
        other = SqlServerStore(sqlserver_url)
        index = ExactIndex(other)
        yield index
        index.close()
        other.close()


def test_the_server_keeps_ids_in_the_order_they_were_made_in(sqlserver: SqlServer) -> None:
    sqlserver.check_order_of_ids()
    made = [new_id() for _ in range(50)]
    rows = ", ".join(f"('{types.to_sql_server(id_)}')" for id_ in reversed(made))
    with session(sqlserver.url) as run:
        found = run(
            f"SELECT CAST(id AS UNIQUEIDENTIFIER) AS id FROM (VALUES {rows}) AS made (id) "
            "ORDER BY CAST(id AS UNIQUEIDENTIFIER)"
        ).scalars()
        assert [types.from_sql_server(UUID(str(id_))) for id_ in found] == made


def test_a_connection_that_was_killed_is_replaced(sqlserver: SqlServer, sqlserver_url: str) -> None:
    store = SqlServerStore(sqlserver_url)
    write = make_append(ANA, "a")
    store.append(write)
    with session(sqlserver.url) as run:
        name = sa.make_url(sqlserver_url).database
        killed = run(
            "SELECT session_id FROM sys.dm_exec_sessions WHERE session_id <> @@SPID AND "
            f"database_id = DB_ID('{name}')"
        ).scalars()
        for number in killed.all():
            run(f"KILL {number}")
    assert texts(store, write) == ["a"]
    store.append(make_append(ANA, "b", session_id="other"))
    store.close()


def test_a_wrong_password_is_an_error(sqlserver: SqlServer) -> None:
    with pytest.raises(StoreUnavailable, match="refused the login"):
        SqlServerStore(sqlserver.of("master", password="wrong"))


def test_a_missing_database_is_an_error(sqlserver: SqlServer) -> None:
    with pytest.raises(StoreUnavailable, match="no such database"):
        SqlServerStore(sqlserver.of("octopus_none"))
