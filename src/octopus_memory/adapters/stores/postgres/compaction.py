"""Rewriting tables and switching the log, so that no byte of a removed row stays in a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from . import errors, security

_LOCK_WAIT = "5s"
"""The time that a rewrite waits for a table. Short, because other sessions queue behind it."""
_NOTICE_SOURCE = "copy_table_data"
"""The server function whose notice tells how many dead rows a rewrite kept."""
_may_rewrite = sa.text("""
    SELECT pg_has_role(relowner, 'USAGE')
        OR CASE WHEN current_setting('server_version_num')::int >= 170000
            THEN has_table_privilege(oid, 'MAINTAIN') ELSE false END
    FROM pg_class WHERE oid = to_regclass(:table)
""")
_may_checkpoint = sa.text("""
    SELECT pg_has_role('pg_checkpoint', 'USAGE')
        AND has_function_privilege('pg_switch_wal()', 'EXECUTE')
""")


def is_allowed(conn: sa.Connection) -> bool:
    """True if the role may rewrite every table; without the right the server only warns."""
    tables = security.tables(conn)
    return all(conn.execute(_may_rewrite, {"table": table}).scalar() for table in tables)


def rewrite(conn: sa.Connection) -> bool:
    """Rewrite every table; False when another session uses one, or still sees removed rows."""
    conn.exec_driver_sql(f"SET lock_timeout = '{_LOCK_WAIT}'; SET statement_timeout = 0")
    tables = security.tables(conn)
    with _kept_rows(conn) as kept:
        for table in tables:
            try:
                conn.exec_driver_sql(f"VACUUM (FULL, VERBOSE) {table}")
            except sa.exc.DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) != errors.LOCK_TIMEOUT:
                    raise
                return False
    if not tables or len(kept) != len(tables) or any(kept):
        return False
    _switch_log(conn)
    return True


@contextmanager
def _kept_rows(conn: sa.Connection) -> Iterator[list[int]]:
    """The dead rows that each rewrite kept, because an old snapshot could still read them."""
    driver: Any = conn.connection.driver_connection
    kept: list[int] = []

    def hear(notice: Any) -> None:
        if notice.source_function == _NOTICE_SOURCE and notice.message_detail:
            # The text is in the server's language, but the number comes first.
            count = re.search(r"\d+", notice.message_detail)
            kept.append(int(count[0]) if count else 1)

    driver.add_notice_handler(hear)
    try:
        yield kept
    finally:
        driver.remove_notice_handler(hear)


def _switch_log(conn: sa.Connection) -> None:
    """Start a new segment of the write-ahead log, and release the older ones."""
    if conn.execute(_may_checkpoint).scalar():
        for statement in ("CHECKPOINT", "SELECT pg_switch_wal()", "CHECKPOINT"):
            conn.exec_driver_sql(statement)
