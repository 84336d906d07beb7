"""SQLite connections that call a hook before each statement."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_REWRITES = ("VACUUM", "PRAGMA wal_checkpoint")


@dataclass
class Hooks:
    statement: Callable[[], None] | None = None
    """Called before each statement of a transaction that writes, and before its commit."""
    rewriting: Callable[[sqlite3.Connection], None] | None = None
    """Called before each step of rewriting the file, with its connection."""
    pragma: str | None = None
    """Executed before each transaction."""


def connect(hooks: Hooks) -> Callable[..., sqlite3.Connection]:
    """Return a replacement of `sqlite3.connect` that calls the hooks."""

    class Cursor(sqlite3.Cursor):
        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            self.connection.about_to(sql)
            return super().execute(sql, *given)

        def executemany(self, sql: str, *given: Any) -> sqlite3.Cursor:
            self.connection.about_to(sql)
            return super().executemany(sql, *given)

    class Connection(sqlite3.Connection):
        writes = False

        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            return self.cursor().execute(sql, *given)

        def executemany(self, sql: str, *given: Any) -> sqlite3.Cursor:
            return self.cursor().executemany(sql, *given)

        def commit(self) -> None:
            self.about_to("COMMIT")
            super().commit()

        def about_to(self, sql: str) -> None:
            if sql.startswith("BEGIN"):
                self.writes = "IMMEDIATE" in sql
                if hooks.pragma is not None:
                    super().execute(hooks.pragma)
            elif self.writes and hooks.statement is not None and sql != "ROLLBACK":
                hooks.statement()
            elif hooks.rewriting is not None and sql.startswith(_REWRITES):
                hooks.rewriting(self)

    return functools.partial(sqlite3.connect, factory=Connection)
