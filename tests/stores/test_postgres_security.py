"""Row-level security and the two roles, tried with statements that name no tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa

from octopus_memory import StoreBusy, StoreError, StoreReadOnly
from octopus_memory.adapters.stores.postgres.buckets import placed_tables
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.adapters.stores.sql import schema
from octopus_memory.testing import make_append, make_next, make_scope
from octopus_memory.testing.store.base import at_once, raised
from tests.support.citus_server import IS_GIVEN
from tests.support.postgres_installation import Database, Installation
from tests.support.postgres_server import connected

TABLES = sorted(table.name for table in schema.metadata.tables.values() if "tenant" in table.c)
MINE, OTHER, SHARED = "acme", "umbrella", ""
_SAMPLES: dict[type, Callable[[], Any]] = {
    bool: lambda: False,
    bytes: lambda: b"\x00",
    datetime: lambda: datetime(2025, 3, 14, tzinfo=UTC),
    int: lambda: uuid4().int % 30_000,
    str: lambda: uuid4().hex[:16],
}


def _described(name: str) -> sa.Table:
    """The table as it is on the server that the tests use."""
    table = schema.metadata.tables[name]
    return placed_tables().get(name, table) if IS_GIVEN else table


def _row(table: sa.Table, tenant: str) -> dict[str, Any]:
    """Any row at all: what the database checks is whose it is."""
    return {
        column.name: _sample(column)
        for column in table.c
        if column.autoincrement is not True and not column.nullable
    } | {"tenant": tenant}


def _sample(column: sa.Column[Any]) -> Any:
    kind = getattr(column.type, "impl", column.type).python_type
    return _SAMPLES[kind]() if kind in _SAMPLES else uuid4()


@pytest.fixture(scope="module")
def filled(postgres: Installation) -> Iterator[Database]:
    """A row of each tenant in every table; no test here keeps a change."""
    with postgres.database() as database:
        engine = sa.create_engine(database.admin_url.replace("://", "+psycopg://", 1))
        with engine.begin() as conn:
            for name in TABLES:
                table = _described(name)
                for tenant in (MINE, OTHER, SHARED):
                    conn.execute(sa.insert(table).values(_row(table, tenant)))
        engine.dispose()
        yield database


@pytest.fixture(scope="module", params=["url", "owner_url"], ids=["the application", "the owner"])
def role_url(request: pytest.FixtureRequest, filled: Database) -> str:
    url: str = getattr(filled, request.param)
    return url


@contextmanager
def _within(url: str, reach: str) -> Iterator[psycopg.Connection[Any]]:
    with connected(url) as conn, conn.transaction(force_rollback=True):
        # As it reaches the nodes of a distributed database, too.
        conn.execute(f"SET LOCAL octopus.reach TO '{reach}'")
        yield conn


def _tenants(conn: psycopg.Connection[Any], table: str) -> list[str]:
    return [row[0] for row in conn.execute(f"SELECT tenant FROM {table} ORDER BY tenant")]


@pytest.mark.parametrize("table", TABLES)
class TestEveryTable:
    def test_a_read_without_a_condition_finds_the_tenants_own(self, table: str, role_url: str):
        shared = [SHARED] if table == "octopus_agents" else []
        with _within(role_url, f"tenant:{MINE}") as conn:
            assert _tenants(conn, table) == [*shared, MINE]

    def test_a_write_without_a_condition_changes_the_tenants_own(
        self, table: str, filled: Database
    ):
        # The owner may do to the audit log what the application may not.
        with _within(filled.owner_url, f"tenant:{MINE}") as conn:
            assert conn.execute(f"UPDATE {table} SET tenant = tenant").rowcount == 1
            assert conn.execute(f"DELETE FROM {table}").rowcount == 1

    def test_a_row_cannot_be_given_to_another(self, table: str, filled: Database):
        with (
            _within(filled.owner_url, f"tenant:{MINE}") as conn,
            pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"),
        ):
            conn.execute(f"UPDATE {table} SET tenant = '{OTHER}'")

    def test_anothers_row_cannot_be_added(self, table: str, filled: Database):
        engine = sa.create_engine(filled.url.replace("://", "+psycopg://", 1))
        described = _described(table)
        with (
            pytest.raises(sa.exc.ProgrammingError, match="row-level security"),
            engine.begin() as conn,
        ):
            conn.execute(sa.text(f"SET LOCAL octopus.reach TO 'tenant:{MINE}'"))
            conn.execute(sa.insert(described).values(_row(described, OTHER)))
        engine.dispose()

    def test_without_a_reach_setting_a_read_fails(self, table: str, role_url: str):
        with connected(role_url) as conn:
            with pytest.raises(psycopg.errors.UndefinedObject):
                conn.execute(f"SELECT * FROM {table}")
            if IS_GIVEN:
                # A node never hears of a setting that has no transaction.
                return
            # Afterwards the setting is there, and empty.
            conn.execute("SELECT set_config('octopus.reach', 'all', true)")
            shared = [SHARED] if table == "octopus_agents" else []
            assert _tenants(conn, table) == shared

    def test_the_operator_reaches_all(self, table: str, role_url: str):
        with _within(role_url, "all") as conn:
            assert _tenants(conn, table) == [SHARED, MINE, OTHER]


@pytest.mark.parametrize(
    "tenant", ["%s", "o'clock", "back\\slash", "tenant:acme", "all", "\0", "é"]
)
def test_a_tenant_of_any_name_reaches_its_own(postgres_database: Database, tenant: str):
    store = PostgresStore(postgres_database.url)
    for name in (tenant, MINE):
        store.append(make_append(make_scope(tenant=name), "Good morning."))
    seen = store._read(tenant, lambda conn: conn.execute(sa.select(schema.turns.c.tenant)).all())
    assert seen == [(tenant,)]
    store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE octopus_audit SET actor = 'nobody'",
        "DELETE FROM octopus_audit",
        "TRUNCATE octopus_audit",
        "UPDATE octopus_schema SET version_num = '9999'",
        "ALTER TABLE octopus_turns DISABLE ROW LEVEL SECURITY",
        "DROP POLICY octopus_reach ON octopus_turns",
        "CREATE TABLE octopus_more (tenant text)",
        "DROP TABLE octopus_turns",
    ],
)
def test_the_application_role_is_denied_owner_rights(postgres_database: Database, statement: str):
    with (
        connected(postgres_database.url) as conn,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        conn.execute(statement.encode())


def test_the_application_cannot_make_the_tables(postgres: Installation):
    with (
        postgres.server.database() as name,
        pytest.raises(StoreReadOnly, match="lacks a right"),
    ):
        PostgresStore(postgres.of(name).url)


def test_a_table_without_protection_is_protected_by_its_owner(postgres: Installation):
    with postgres.new_database() as database:
        with connected(database.owner_url) as conn:
            conn.execute("ALTER TABLE octopus_turns NO FORCE ROW LEVEL SECURITY")
        with pytest.raises(StoreError, match="lacks a right"):
            PostgresStore(database.url)
        PostgresStore(database.owner_url).close()
        PostgresStore(database.url).close()


def test_concurrent_processes_may_create_the_tables(postgres: Installation):
    with postgres.server.database() as name:
        url = postgres.server.url(name)
        assert raised(at_once(lambda _: PostgresStore(url).close(), threads=4)) == []
        store = PostgresStore(url)
        assert len(store.salt) == 32
        store.close()


def test_statistics_hold_no_stored_text(postgres_database: Database):
    store = PostgresStore(postgres_database.url)
    for user in ("ana-marker", "ben-marker"):
        for session in ("first-marker", "second-marker"):
            write = make_append(make_scope(user), "one", "two", session_id=session)
            store.append(write)
    store.close()
    with connected(postgres_database.admin_url) as conn:
        conn.execute("ANALYZE")
        kept = conn.execute(
            "SELECT tablename, attname FROM pg_stats WHERE starts_with(tablename, 'octopus_') "
            "AND (attname IN ('message', 'terms') OR most_common_vals::text LIKE '%marker%' "
            "OR histogram_bounds::text LIKE '%marker%')"
        )
        assert kept.fetchall() == []


def test_the_reach_of_a_hot_call_ends_with_it(postgres_database: Database):
    """They share connections, without a `BEGIN` around each; whoever comes next reaches nothing."""
    store = PostgresStore(postgres_database.url, pool_size=1, statement_timeout_seconds=0.3)
    write = make_append(make_scope(tenant=MINE), "mine")
    scope, places = write.scope, [(write.episode_id, 0)]
    store.append(write)

    def out_of_time() -> None:
        with connected(postgres_database.admin_url) as other, other.transaction():
            other.execute("LOCK TABLE octopus_turns")
            with pytest.raises(StoreBusy):
                store.turns_at(scope, places)

    def episode_is_there() -> None:
        with pytest.raises(StoreBusy):
            store.append(replace(write, session_id="another"))

    for call in (
        lambda: store.turns_at(scope, places),
        lambda: store.replay(scope, write.session_id),
        lambda: store.append(make_next(write, "more")),
        episode_is_there,
        out_of_time,
    ):
        call()
        pooled = store._engine.raw_connection()
        raw: Any = pooled.driver_connection
        said = "SELECT current_setting('octopus.reach', true), current_setting('statement_timeout')"
        assert raw.execute(said).fetchone() in (("", "0"), (None, "0"))
        with pytest.raises(psycopg.errors.UndefinedObject) if IS_GIVEN else nullcontext():
            assert raw.execute("SELECT count(*) FROM octopus_turns").fetchone() == (0,)
        pooled.close()
    assert [turn.text for turn in store.turns(scope, write.episode_id)] == ["mine", "more"]
    assert store.turns_at(make_scope(tenant=OTHER), places) == []
    store.close()
