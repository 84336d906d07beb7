"""What a real server does to a store: it stops, drops connections, is busy, says no."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from octopus_memory import (
    OctopusError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from octopus_memory.adapters.stores.postgres.driver import DriverConnection
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.adapters.stores.sql import schema
from octopus_memory.adapters.stores.sql.lazy import Connection
from octopus_memory.adapters.stores.sql.statements import recall_rows
from octopus_memory.adapters.stores.sql.transactions import Every
from octopus_memory.domain.errors import InvalidSetting
from octopus_memory.domain.ids import new_id
from octopus_memory.testing import make_append, make_key, make_next, make_scope
from octopus_memory.testing.store.base import ANA, at_once, claim_all, raised, texts
from tests.support.polling import wait_until
from tests.support.postgres_installation import Database, Installation, kill_connections
from tests.support.postgres_server import LocalServer, Programs, connected

WRITERS = 4


@pytest.fixture(scope="module")
def fragile(postgres_programs: Programs) -> Iterator[Installation]:
    """A server that keeps what it acknowledged, to be stopped and started."""
    installation = Installation(LocalServer(postgres_programs, durable=True))
    yield installation
    installation.close()


@pytest.fixture
def database(fragile: Installation) -> Iterator[Database]:
    with fragile.database() as database:
        yield database


@pytest.fixture
def store(database: Database) -> Iterator[PostgresStore]:
    store = PostgresStore(database.url)
    yield store
    store.close()


@contextmanager
def _stopped(fragile: Installation) -> Iterator[None]:
    server: Any = fragile.server
    server.stop("immediate")
    try:
        yield
    finally:
        server.start()


class _Writer(threading.Thread):
    """Appends numbered messages, each until the store says that it has it."""

    def __init__(self, store: PostgresStore, name: str, stop: threading.Event) -> None:
        super().__init__()
        self.started = make_append(make_scope(name), "0")
        self.acknowledged = 0
        self.failures: list[StoreError] = []
        self.broken: Exception | None = None
        self._store, self._stop_asked = store, stop

    def run(self) -> None:
        try:
            self._until_stored(self.started)
            while not self._stop_asked.is_set():
                number = str(self.acknowledged)
                self._until_stored(
                    make_next(self.started, number, idempotency=make_key(number, b"the same"))
                )
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.broken = error

    def _until_stored(self, write: Any) -> None:
        while True:
            try:
                self._store.append(write)
            except StoreError as error:
                self.failures.append(error)
                time.sleep(0.02)
            else:
                self.acknowledged += 1
                return


def test_an_acknowledged_write_is_stored_once(fragile: Installation, store: PostgresStore):
    stop = threading.Event()
    writers = [_Writer(store, f"user {number}", stop) for number in range(WRITERS)]
    for writer in writers:
        store.append(make_append(writer.started.scope, "before", session_id="other"))
        writer.start()
    for _ in range(2):
        assert wait_until(lambda: all(writer.acknowledged > 5 for writer in writers), 60)
        with _stopped(fragile):
            for writer in writers:
                _until_more(lambda writer=writer: len(writer.failures))
        for writer in writers:
            _until_more(lambda writer=writer: writer.acknowledged)
    stop.set()
    for writer in writers:
        writer.join()
        assert writer.broken is None
        assert texts(store, writer.started) == [str(n) for n in range(writer.acknowledged)]
        assert all(isinstance(error, StoreUnavailable) for error in writer.failures)


def _until_more(count: Callable[[], int]) -> None:
    before = count()
    assert wait_until(lambda: count() > before, 60)


def test_an_outage_is_told_and_then_forgotten(fragile: Installation, store: PostgresStore):
    write = make_append(ANA, "before")
    store.append(write)
    at_once(lambda _: store.turns(ANA, write.episode_id))
    with _stopped(fragile):
        for call in (
            lambda: store.turns(ANA, write.episode_id),
            lambda: store.append(make_next(write, "during")),
            lambda: claim_all(store),
            store.stats,
        ):
            with pytest.raises(StoreUnavailable, match="check that the server runs") as caught:
                call()
            assert "SELECT" not in str(caught.value)
    # Every connection of the pool is one that the server has forgotten.
    assert raised(at_once(lambda _: store.turns(ANA, write.episode_id))) == []
    store.append(make_next(write, "after"))
    assert texts(store, write) == ["before", "after"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_connection_lost_in_a_transaction_runs_it_again(
    database: Database, store: PostgresStore, times: int
):
    lost = 0

    def count(conn: Connection) -> None:
        nonlocal lost
        conn.execute(sa.insert(schema.models).values(name="model"))
        if lost < times:
            lost += 1
            kill_connections(database)
        conn.execute(sa.select(schema.models)).all()

    store._write(Every.TENANT, count)
    kept = store._read(Every.TENANT, lambda conn: conn.execute(sa.select(schema.models)).all())
    assert (lost, len(kept)) == (times, 1)


def test_an_answer_that_was_lost_is_not_made_up(fragile: Installation):
    with fragile.new_database() as database:
        with connected(database.owner_url) as conn:
            conn.execute(
                "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$"
            )
            conn.execute(
                "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON octopus_turns "
                "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()"
            )
        store = PostgresStore(database.url)
        outcome: list[Exception] = []

        def append() -> None:
            try:
                store.append(make_append(ANA, "perhaps"))
            except OctopusError as error:
                outcome.append(error)

        writer = threading.Thread(target=append)
        writer.start()
        assert wait_until(lambda: _is_committing(database))
        kill_connections(database)
        writer.join()
        [error] = outcome
        assert isinstance(error, StoreUnavailable)
        assert "idempotency key" in str(error)
        store.close()


def _is_committing(database: Database) -> bool:
    with connected(database.admin_url) as conn:
        found = conn.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() "
            "AND query = 'COMMIT' AND wait_event = 'PgSleep'"
        )
        return found.fetchone() is not None


def test_a_deadlock_is_run_again(store: PostgresStore):
    for user in ("a", "b"):
        store.append(make_append(make_scope(user), "one"))
    met = threading.Barrier(2)
    attempts = [0, 0]

    def lock(number: int) -> None:
        def both(conn: sa.Connection) -> None:
            attempts[number] += 1
            for place, user in enumerate("ab" if number else "ba"):
                updated = conn.execute(
                    sa.update(schema.scopes)
                    .where(schema.scopes.c.user == user)
                    .values(version=schema.scopes.c.version + 1)
                )
                # Wait for the result: statements are pipelined, so the row may not be locked yet.
                assert updated.rowcount == 1
                if place == 0 and attempts[number] == 1:
                    met.wait()

        store._write(ANA.tenant, both)

    assert raised(at_once(lock, threads=2)) == []
    assert sum(attempts) > 2
    versions = [store.recall_state(make_scope(user)) for user in "ab"]
    assert [state and state.version for state in versions] == [3, 3]


def test_a_lock_is_waited_for_no_longer_than_a_statement_may_take(database: Database):
    store = PostgresStore(database.url, statement_timeout_seconds=0.3)
    write = make_append(ANA, "one")
    store.append(write)
    with connected(database.admin_url) as other:
        with other.transaction():
            other.execute("SELECT * FROM octopus_scopes FOR UPDATE")
            with pytest.raises(StoreBusy, match="statement_timeout_seconds"):
                store.append(make_next(write, "two"))
        store.append(make_next(write, "two"))
    assert texts(store, write) == ["one", "two"]
    store.close()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGINT, which a shell's background jobs ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_call_that_is_told_to_stop_leaves_nothing_behind(database: Database):
    store = PostgresStore(database.url, pool_size=1, connect_timeout_seconds=2)
    first = make_append(ANA, "hello")
    store.append(first)
    with connected(database.admin_url) as watching, connected(database.admin_url) as other:
        interrupt = threading.Thread(
            target=lambda: (
                wait_until(lambda: _waits_for_a_lock(watching), 60)
                and os.kill(os.getpid(), signal.SIGINT)
            )
        )
        with other.transaction():
            other.execute("SELECT FROM octopus_scopes FOR UPDATE")
            with pytest.raises(KeyboardInterrupt):
                interrupt.start()
                store.append(make_next(first, "never"))
                # Wherever it comes, it comes in here.
                interrupt.join()
    # The only connection was in the middle of it.
    store.append(make_next(first, "world"))
    assert texts(store, first) == ["hello", "world"]
    store.close()


def _waits_for_a_lock(conn: Any) -> bool:
    waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type"
    return bool(conn.execute(f"{waiting} = 'Lock'").rowcount)


def test_a_statement_that_ran_out_of_time_can_be_asked_again(database: Database):
    """What the driver took for prepared then was not."""
    store = PostgresStore(database.url, pool_size=1, statement_timeout_seconds=0.3)
    write = make_append(ANA, "hello")
    store.append(write)
    store.episodes(ANA, [new_id() for _ in range(20)])
    with connected(database.admin_url) as other, other.transaction():
        other.execute("LOCK TABLE octopus_episodes")
        with pytest.raises(StoreBusy):
            store.episodes(ANA, [write.episode_id])
    for _ in range(2):
        assert list(store.episodes(ANA, [write.episode_id])) == [write.episode_id]
    store.close()


def test_a_connection_made_since_is_not_suspected(database: Database, store: PostgresStore):
    """Of two that were killed together, the second is noticed when there is a new one already."""
    write = make_append(ANA, "hello")
    store.append(write)
    made: list[object] = []
    sa.event.listen(store._engine, "connect", lambda *_: made.append(_))

    def lent() -> AbstractContextManager[Any]:
        return store._driver.connection(
            DriverConnection, store._driver.statements, begin=None, settings=("0", "all")
        )

    with pytest.raises(sa.exc.DBAPIError), lent() as late:
        with pytest.raises(sa.exc.DBAPIError), lent() as early:
            kill_connections(database)
            recall_rows.state(early, ANA)
        assert texts(store, write) == ["hello"]
        made.clear()
        recall_rows.state(late, ANA)
    assert texts(store, write) == ["hello"]
    assert made == []


def test_a_table_that_another_version_changed_is_read_as_it_is(fragile: Installation):
    with fragile.new_database() as database:
        store = PostgresStore(database.url)
        write = make_append(ANA, "hello")
        store.append(write)
        assert texts(store, write) == ["hello"]
        with connected(database.admin_url) as admin:
            # A migration makes the view anew, because it depends on the column.
            admin.execute("DROP VIEW octopus_episodes_readable")
            admin.execute("ALTER TABLE octopus_turns ALTER COLUMN tokens TYPE bigint")
            admin.execute("ALTER TABLE octopus_episodes ALTER COLUMN message_count TYPE bigint")
        # What was prepared before says that its plan must not change.
        assert texts(store, write) == ["hello"]
        store.append(make_next(write, "world"))
        assert texts(store, write) == ["hello", "world"]
        store.close()


def test_no_connection_is_free(database: Database):
    store = PostgresStore(database.url, pool_size=1, connect_timeout_seconds=0.2)
    with pytest.raises(StoreBusy, match="all 1 connections are in use"):
        store._read(ANA.tenant, lambda _: store.recall_state(ANA))
    assert store.recall_state(ANA) is None
    assert store.stats().scopes == 0
    store.close()


def test_a_server_that_only_reads(database: Database, store: PostgresStore):
    write = make_append(ANA, "one")
    store.append(write)
    reading = PostgresStore(f"{database.url}?options=-c%20default_transaction_read_only%3Don")
    with pytest.raises(StoreReadOnly):
        reading.append(make_next(write, "two"))
    assert texts(reading, write) == ["one"]
    reading.close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("53100", StoreFull),
        ("53300", StoreBusy),
        ("55P03", StoreBusy),
        ("XX001", StoreCorrupt),
        ("XX002", StoreCorrupt),
        ("58P01", StoreCorrupt),
        ("42P01", StoreCorrupt),
        ("58030", StoreUnavailable),
        ("22023", StoreError),
    ],
)
def test_server_errors_become_octopus_errors(
    store: PostgresStore, code: str, expected: type[StoreError]
):
    told = f"DO $$ BEGIN RAISE EXCEPTION 'of ana' USING ERRCODE = '{code}'; END $$"
    for run in (store._read, store._write):
        with pytest.raises(StoreError) as caught:
            run(ANA.tenant, lambda conn: conn.execute(sa.text(told)))
        assert type(caught.value) is expected
        assert code in str(caught.value)
        assert "of ana" not in str(caught.value)
        assert "RAISE" not in str(caught.value)


def test_a_door_that_stays_closed(fragile: Installation, database: Database):
    secret = database.url.partition("@")[0].rpartition(":")[2]
    for wrong in (
        database.url.replace(f":{secret}@", ":a-wrong-secret@"),
        database.url.replace(database.name, "no_such_database"),
        "postgresql://somebody:a-wrong-secret@127.0.0.1:1/octopus",
    ):
        with pytest.raises(StoreUnavailable, match="database_url") as caught:
            PostgresStore(wrong)
        assert "secret" not in str(caught.value)
        assert secret not in str(caught.value)
    with pytest.raises(InvalidSetting, match="is not a URL") as refused:
        PostgresStore("postgresql://somebody:secret@host:port/octopus")
    assert "secret" not in str(refused.value)


def test_a_database_of_another_encoding_is_refused(fragile: Installation):
    name = "octopus_latin"
    fragile.server.execute(
        f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    )
    with pytest.raises(StoreUnavailable, match="LATIN1"):
        PostgresStore(fragile.server.url(name))
