"""Connections to a file that calls lend each other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from octopus_memory.adapters.stores.sql.lazy import Connection, Result, without_snapshot
from octopus_memory.adapters.stores.sql.statements import listing
from octopus_memory.adapters.stores.sql.transactions import Every
from octopus_memory.adapters.stores.sqlite import group_commit
from octopus_memory.adapters.stores.sqlite.connections import FileConnections
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.testing.fakes import make_append, make_scope


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "memory.db")
    yield store
    store.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_read_after_one_that_was_stopped_sees_what_was_written_since(
    store: SqliteStore, error: type[BaseException]
):
    for user in ("ana", "ben"):
        store.append(make_append(make_scope(user), "hello"))
    unread: list[Result] = []

    @without_snapshot
    def stopped(conn: Connection) -> None:
        # A debugger or a notebook keeps the frames of an error, and with them the result.
        unread.append(conn.execute(listing.sa.select(listing.schema.scopes.c.id)))
        raise error

    with pytest.raises(error):
        store._read(Every.TENANT, stopped)
    store.append(make_append(make_scope("eve"), "hello"))
    assert {scope.user for _, scope in store.scopes(limit=10)} == {"ana", "ben", "eve"}


def test_a_write_after_one_that_failed_begins_anew(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(group_commit, "BUSY_SECONDS", 0)
    for user in ("ana", "ben"):
        store.append(make_append(make_scope(user), "hello"))
    unread: list[Result] = []

    def fail(conn: Connection) -> None:
        unread.append(conn.execute(listing.sa.select(listing.schema.scopes.c.id)))
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it has no message
        store._write(Every.TENANT, fail)
    with closing(SqliteStore(tmp_path / "memory.db")) as other:
        other.append(make_append(make_scope("eve"), "hello"))
    store.append(make_append(make_scope("dan"), "hello"))
    assert len(store.scopes(limit=10)) == 4


def test_two_threads_may_close_idle_connections_at_once():
    connections = FileConnections(lambda: sqlite3.connect(":memory:"))

    class Emptied(list[sqlite3.Connection]):
        """A list that another thread empties after each look at its length."""

        def __len__(self) -> int:
            return 1

    connections._idle = Emptied()
    connections.close()
