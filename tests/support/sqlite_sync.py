"""SQLite that does not wait for the disk, as the tests' own PostgreSQL server does not either.

Only a power failure could tell the difference: a process that is killed loses nothing by it.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from octopus_memory.adapters.stores.sqlite.store import SqliteStore


@contextmanager
def wait_for_no_disk() -> Iterator[None]:
    prepare = SqliteStore._prepare

    @functools.wraps(prepare)
    def prepare_hastily(store: SqliteStore, conn: sqlite3.Connection) -> None:
        prepare(store, conn)
        conn.execute("PRAGMA synchronous=OFF")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SqliteStore, "_prepare", prepare_hastily)
        yield
