"""The file of an SQLite database: its URL, its identity, and its removal where it was never used.

A URL has three slashes and a relative path, or four and an absolute one.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

from ....domain.errors import InvalidSetting, StoreUnavailable

_SLASHES = "write sqlite:///memory.db, with three slashes"


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def as_url(given: str | Path | None) -> str | None:
    """The URL of a database; text without a scheme is the path of an SQLite file."""
    if given is None:
        return None
    if isinstance(given, str) and _SCHEME.match(given):
        return given
    return f"sqlite:///{quote(str(given))}"


class SqliteLocation(NamedTuple):
    path: str
    read_only: bool


def read_url(url: str) -> SqliteLocation:
    """Parse a URL; `?mode=ro` opens read-only.

    :raises InvalidSetting: when the URL is malformed or would open another file than meant
    """
    try:
        split = urlsplit(url)
    except ValueError as error:
        raise InvalidSetting("database_url", f"is not a URL: {_SLASHES}") from error
    path, options = unquote(split.path.removeprefix("/")), parse_qs(split.query)
    problem = None
    if split.netloc:
        problem = f"has a host: {_SLASHES}"
    elif "#" in url:
        problem = "must not contain #, which ends the path of a URL: write %23"
    elif not path:
        problem = (
            "must name a file: write sqlite:///memory.db, or sqlite:///:memory: for one that "
            "is gone when it is closed"
        )
    elif path.split("/")[0] == "~":
        problem = "must not begin with ~, which is not expanded: write the whole path"
    elif "\0" in path:
        problem = "must not contain a NUL character"
    elif set(options) - {"mode"} or options.get("mode", ["ro"]) != ["ro"]:
        problem = "only ?mode=ro may follow an SQLite path"
    if problem is not None:
        raise InvalidSetting("database_url", problem)
    return SqliteLocation(path, read_only="mode" in options)


_Identity = tuple[int, int]
"""Device and inode."""


class FileIdentity:
    """Compares the file at a path with the one that was opened.

    A connection keeps working on a file without a name: SQLite reports nothing, and commits are
    lost with the last connection. Thread-safe.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._name = path.name
        self._opened: _Identity | None = None

    @property
    def is_known(self) -> bool:
        return self._opened is not None

    def note(self) -> None:
        """Record the open file, on the first call only."""
        if self._opened is None:
            self._opened = self._now()

    def check(self) -> None:
        """:raises StoreUnavailable: when the path names another file, or none"""
        if self._opened is None or self._opened == (found := self._now()):
            return
        done = "removed" if found is None else "replaced"
        raise StoreUnavailable(
            f"{self._name}: the file was {done} while it was open, and nothing is stored in the "
            "old one: put it back, or open the memory again"
        )

    def _now(self) -> _Identity | None:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - asked for with every call
        except OSError:
            return None
        return found.st_dev, found.st_ino


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
