"""Waiting for the writers of other processes.

SQLite's own naps grow to a tenth of a second. Where several processes write all the time, whoever
sleeps so long comes last each time, and waits for seconds.
"""

from __future__ import annotations

import sqlite3
import time

BUSY_SECONDS = 30
_NAP = 0.0002


def when_free(
    raw: sqlite3.Connection, statement: str, *, patience: float | None = None
) -> sqlite3.Cursor:
    """Run a statement that takes or needs the lock, on a connection that does not wait itself."""
    until = time.monotonic() + (BUSY_SECONDS if patience is None else patience)
    while True:
        try:
            return raw.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_NAP)


def wait_oneself(raw: sqlite3.Connection) -> None:
    """Have `when_free` wait on this connection, and not SQLite."""
    raw.execute("PRAGMA busy_timeout=0")


def let_it_wait(raw: sqlite3.Connection) -> None:
    raw.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
