"""Removing a database file that was created and never used."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

_LOOK = {
    "octopus_episodes": "SELECT 1 FROM octopus_episodes",
    "octopus_keys": "SELECT 1 FROM octopus_keys",
    "octopus_agents": "SELECT 1 FROM octopus_agents",
}


def remove_if_unused(path: Path) -> bool:
    """Remove an empty database that no other connection has open.

    Leaving WAL mode fails while another connection is open, so that a file which another process is
    about to write stays.
    """
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as conn:
            [mode] = conn.execute("PRAGMA journal_mode = DELETE").fetchone()
            if mode != "delete":
                return False
            conn.execute("BEGIN EXCLUSIVE")
            if any(_has_rows(conn, table) for table in _LOOK):
                return False
            path.unlink()
            conn.execute("ROLLBACK")
    except (sqlite3.Error, OSError):
        return False
    return True


def _has_rows(conn: sqlite3.Connection, table: str) -> bool:
    found = conn.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    return found is not None and conn.execute(_LOOK[table]).fetchone() is not None
