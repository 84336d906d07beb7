"""SQLite errors as `StoreError`s."""

from __future__ import annotations

import sqlite3

from ....domain.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

_RESTORE = "restore the file from a backup"
_ERRORS: dict[int, tuple[type[StoreError], str]] = {
    # The statements fit the schema, so a table or column must have been changed.
    sqlite3.SQLITE_ERROR: (StoreCorrupt, _RESTORE),
    sqlite3.SQLITE_BUSY: (StoreBusy, "another process is writing; try again"),
    sqlite3.SQLITE_LOCKED: (StoreBusy, "another connection is writing; try again"),
    sqlite3.SQLITE_READONLY: (StoreReadOnly, "give the file and its folder write permission"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, _RESTORE),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "this is not an SQLite file; check the path"),
    sqlite3.SQLITE_FULL: (StoreFull, "nothing was changed; free some space and try again"),
    sqlite3.SQLITE_IOERR: (StoreUnavailable, "the disk failed; nothing was changed"),
    sqlite3.SQLITE_CANTOPEN: (
        StoreUnavailable,
        "check that the folder exists, and can be read and written",
    ),
}


def translate(error: BaseException | None) -> tuple[type[StoreError], str, str]:
    """The class, SQLite's message, and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) or 0
    if not code and str(error).startswith("Could not decode to UTF-8"):
        # The driver's own message would show stored text.
        return StoreCorrupt, "a text is damaged", _RESTORE
    kind, advice = _ERRORS.get(code & 0xFF, (StoreError, "octopus doctor checks the file"))
    return kind, str(error), advice
