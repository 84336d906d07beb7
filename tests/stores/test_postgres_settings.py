"""What a server, a role or a pooler may set, and what must hold all the same."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.testing import make_append
from octopus_memory.testing.store.base import ANA
from tests.support.citus_server import not_on_citus
from tests.support.postgres_installation import Database, Installation
from tests.support.postgres_server import connected

_NOTE_EACH_COMMIT = """
    CREATE TABLE seen (setting text);
    GRANT INSERT ON seen TO PUBLIC;
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL;
    END $$;
    CREATE TRIGGER note AFTER INSERT ON {table} EXECUTE FUNCTION note()
"""


@pytest.fixture
def database(postgres: Installation) -> Iterator[Database]:
    with postgres.new_database() as database:
        yield database


def _set(database: Database, setting: str, value: str) -> None:
    with connected(database.admin_url) as admin:
        admin.execute(f'ALTER DATABASE "{database.name}" SET {setting} = {value}'.encode())


@not_on_citus
@pytest.mark.parametrize("table", ["octopus_turns", "octopus_agents"])
def test_acknowledged_writes_are_on_disk_on_every_connection(database: Database, table: str):
    """A pooler gives each transaction another one, on which nobody set anything."""
    with connected(database.admin_url) as admin:
        admin.execute(_NOTE_EACH_COMMIT.format(table=table).encode())
    store = PostgresStore(database.url, pool_size=1)
    pooled = store._engine.raw_connection()
    pooled.driver_connection.execute("SET synchronous_commit = off")
    pooled.driver_connection.commit()
    pooled.close()
    if table == "octopus_turns":
        store.append(make_append(ANA, "hello"))
    else:
        store.put_config("acme", "hr", {})
    store.close()
    with connected(database.admin_url) as admin:
        assert admin.execute("SELECT setting FROM seen").fetchall() == [("on",)]


def test_tables_are_rewritten_wherever_the_search_path_finds_them(database: Database):
    store = PostgresStore(database.owner_url)
    store.append(make_append(ANA, "hello"))
    with connected(database.admin_url) as admin:
        owner = sa.make_url(database.owner_url).username
        admin.execute(f'CREATE SCHEMA AUTHORIZATION "{owner}"'.encode())
        admin.execute("ALTER TABLE public.octopus_turns DISABLE ROW LEVEL SECURITY")
        filenode = "SELECT pg_relation_filenode('public.octopus_turns')"
        before = admin.execute(filenode).fetchone()
        again = PostgresStore(database.owner_url)
        assert again.compact()
        assert admin.execute(filenode).fetchone() != before
        protected = (
            "SELECT relrowsecurity FROM pg_class WHERE oid = 'public.octopus_turns'::regclass"
        )
        assert admin.execute(protected).fetchone() == (True,)
    assert again.size_bytes()
    again.close()
    store.close()


def test_one_process_rewrites_at_a_time(database: Database, monkeypatch: pytest.MonkeyPatch):
    from octopus_memory.adapters.stores.postgres import compaction

    store, other = PostgresStore(database.owner_url), PostgresStore(database.owner_url)
    rewrite, others = compaction.rewrite, list[bool]()

    def beside(conn: sa.Connection, **how: bool) -> bool:
        if not others:
            others.append(True)
            others[0] = other.compact()
        return rewrite(conn, **how)

    monkeypatch.setattr(compaction, "rewrite", beside)
    assert store.compact()
    assert others == [False]
    assert other.compact()
    store.close()
    other.close()


@pytest.mark.parametrize(
    "setting", ["idle_in_transaction_session_timeout", "transaction_timeout", "lock_timeout"]
)
def test_a_lead_and_an_opening_outlast_the_servers_time_outs(
    database: Database, setting: str, monkeypatch: pytest.MonkeyPatch
):
    from octopus_memory.adapters.stores.sql import migrate

    ensure_current = migrate.ensure_current

    def slowly(*given: object, **named: object) -> None:
        time.sleep(0.2)
        ensure_current(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(migrate, "ensure_current", slowly)
    known = "SELECT FROM pg_settings WHERE name = %s"
    with connected(database.admin_url) as admin:
        if admin.execute(known, (setting,)).rowcount == 0:
            pytest.skip("this server is older than the setting")
    _set(database, setting, "'100ms'")
    store = PostgresStore(database.owner_url)
    with store.lead("retention", worker_id="me") as lead:
        assert lead is not None
        time.sleep(0.2)
        assert lead.renew()
    store.close()
