"""A database with rows in every table, and a reader of its contents."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from octopus_memory import EpisodicMemory, MemoryConfig
from tests.support import pending_work

QUESTION = "How many leave days do I have left?"


def open_memory(path: Path | str, **options: Any) -> EpisodicMemory:
    return pending_work.open_memory(f"sqlite:///{path}", **options)


def contents(path: Path) -> list[Any]:
    """Return every row of every table, as stored."""
    conn = sqlite3.connect(path)
    try:
        names = conn.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
        tables = [name for (name,) in names]
        return [(table, conn.execute(f"SELECT * FROM {table}").fetchall()) for table in tables]
    finally:
        conn.close()


def fill(path: Path) -> Path:
    with open_memory(path) as memory:
        scope = memory.scope(user="u")
        for number in range(60):
            scope.store(
                [("user", f"{QUESTION} I asked {number} times."), ("assistant", "Twelve days.")],
                session_id=f"s{number}",
                metadata={"number": number},
                idempotency_key=f"k{number}",
            )
        scope.add("open", ("user", "This is still going on."))
        memory.configure("hr", MemoryConfig())
        memory.flush()
    return path
