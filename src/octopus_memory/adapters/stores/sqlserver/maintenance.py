"""Database-wide tasks of one session: named locks, size, rewriting."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from ....domain.errors import StoreBusy
from ..sql import schema

_WAIT_SECONDS = 30.0
_POLL_SECONDS = 0.1
_PAGE = 8_192
_SIMPLE = 3
"""The recovery model that reuses the log after a checkpoint."""
_HEAPS = ("octopus_agents", "octopus_conversations", "octopus_message_keys")
"""Heaps, which rebuilding the indexes does not rewrite."""

# Select the return code, because a procedure returns it as no row.
_TAKE = (
    "SET NOCOUNT ON; DECLARE @answer INT; EXEC @answer = sp_getapplock @Resource = N'{name}', "
    "@LockMode = 'Exclusive', @LockOwner = 'Session', @LockTimeout = 0; "
    "SET NOCOUNT OFF; SELECT @answer AS answer"
)


def take(conn: sa.Connection, name: str) -> bool:
    """Take a lock for the session; False if another session holds it."""
    answer = _answer(conn, _TAKE.format(name=_resource(name)))
    return answer is not None and int(answer) >= 0


def _answer(conn: sa.Connection, statement: str) -> Any:
    """The first value of a batch. A message of the server's may come before the row."""
    cursor = conn.connection.cursor()
    try:
        cursor.execute(statement)
        while cursor.description is None and cursor.nextset():
            pass
        row = cursor.fetchone()
    except conn.dialect.loaded_dbapi.Error as error:
        lost = conn.dialect.is_disconnect(error, conn.connection, cursor)
        raise sa.exc.DBAPIError(statement, None, error, connection_invalidated=lost) from error
    else:
        return None if row is None else row[0]
    finally:
        cursor.close()


def holds(conn: sa.Connection, name: str) -> bool:
    mode = conn.exec_driver_sql(f"SELECT APPLOCK_MODE('public', N'{_resource(name)}', 'Session')")
    return bool(mode.scalar() == "Exclusive")


@contextmanager
def locked(conn: sa.Connection, name: str) -> Iterator[None]:
    """:raises StoreBusy: when another session holds the lock for too long"""
    deadline = time.monotonic() + _WAIT_SECONDS
    # Asked again and again: where driver calls are serialized, one that waits would stop them all.
    while not take(conn, name):
        if time.monotonic() >= deadline:
            raise StoreBusy("another process is preparing the database: try again")
        time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        release(conn, name)


def release(conn: sa.Connection, name: str) -> None:
    """Give a lock of this session back."""
    _run(conn, f"EXEC sp_releaseapplock @Resource = N'{_resource(name)}', @LockOwner = 'Session'")


def _resource(name: str) -> str:
    return f"octopus {name}".replace("'", "''")


def size_bytes(conn: sa.Connection) -> int | None:
    pages = conn.exec_driver_sql("SELECT SUM(CAST(size AS BIGINT)) FROM sys.database_files")
    found = pages.scalar()
    return None if found is None else int(found) * _PAGE


def rewrite(conn: sa.Connection) -> None:
    """Rewrite every page of the tables, and clear free pages of deleted rows.

    The role must be a member of db_owner. It does not reach backups, replicas and, in the full
    recovery model, the log: docs/howto/sql-server.md says what to do about them.
    """
    for table in schema.metadata.sorted_tables:
        if table.name in _HEAPS:
            _run(conn, f"ALTER TABLE {table.name} REBUILD")
        _run(conn, f"ALTER INDEX ALL ON {table.name} REBUILD")
        # Statistics sample column values.
        _run(conn, f"UPDATE STATISTICS {table.name}")
    _run(conn, "CHECKPOINT")
    _run(conn, "DECLARE @name SYSNAME = DB_NAME(); EXEC sp_clean_db_free_space @dbname = @name")
    _run(conn, "CHECKPOINT")
    _shorten_log(conn)


def _shorten_log(conn: sa.Connection) -> None:
    model = conn.exec_driver_sql(
        "SELECT recovery_model FROM sys.databases WHERE database_id = DB_ID()"
    ).scalar()
    if model != _SIMPLE:
        return
    logs = conn.exec_driver_sql("SELECT file_id FROM sys.database_files WHERE type = 1").scalars()
    for log in logs.all():
        _run(conn, f"DBCC SHRINKFILE ({int(log)}, 1) WITH NO_INFOMSGS")


def _run(conn: sa.Connection, statement: str) -> None:
    # Close the result, because unread rows block the next statement.
    conn.exec_driver_sql(statement).close()
