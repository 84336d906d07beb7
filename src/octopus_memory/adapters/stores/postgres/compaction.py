"""Rewriting tables and switching the log, so that no byte of a removed row stays in a file."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from . import errors, nodes, security

log = logging.getLogger(__name__)

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
_MAY_CHECKPOINT = """
    SELECT pg_has_role('pg_checkpoint', 'USAGE')
        AND has_function_privilege('pg_switch_wal()', 'EXECUTE')
"""
_SWITCH_LOG = ("CHECKPOINT", "SELECT pg_switch_wal()", "CHECKPOINT")


def is_allowed(conn: sa.Connection) -> bool:
    """True if the role may rewrite every table; without the right the server only warns."""
    tables = security.tables(conn)
    return all(conn.execute(_may_rewrite, {"table": table}).scalar() for table in tables)


def rewrite(conn: sa.Connection, *, on_nodes: bool) -> bool:
    """Rewrite every table; False when another session uses one, or still sees removed rows.

    With `on_nodes`, those of every node of a distributed database; False if one does not answer.
    """
    for setting in (f"lock_timeout = '{_LOCK_WAIT}'", "statement_timeout = 0"):
        conn.exec_driver_sql(f"SET {setting}")
    tables = security.tables(conn)
    try:
        done = nodes.rewrite(conn, tables) if on_nodes else _rewrite(conn, tables)
    except sa.exc.DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != errors.LOCK_TIMEOUT:
            raise
        return False
    if not done:
        return False
    return _switch_logs(conn) if on_nodes else _switch_log(conn)


def _rewrite(conn: sa.Connection, tables: list[str]) -> bool:
    with _kept_rows(conn) as kept:
        for table in tables:
            conn.exec_driver_sql(f"VACUUM (FULL, VERBOSE) {table}")
    return bool(tables) and len(kept) == len(tables) and not any(kept)


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


def _switch_log(conn: sa.Connection) -> bool:
    """Start a new segment of the write-ahead log, and release the older ones."""
    if conn.exec_driver_sql(_MAY_CHECKPOINT).scalar():
        for statement in _SWITCH_LOG:
            conn.exec_driver_sql(statement)
    return True


def _switch_logs(conn: sa.Connection) -> bool:
    """Do so on every node; False if one does not answer, or only some nodes permit it."""
    may = nodes.ask(conn, _MAY_CHECKPOINT)
    if lacking := [node for node, answer in may.items() if answer != "t"]:
        if len(lacking) == len(may) and None not in may.values():
            # As on a single server whose guide was not followed.
            return True
        log.warning(
            "the write-ahead logs were not switched: %s did not answer, or lacks the grants that "
            "the guide on PostgreSQL lists for erasure",
            ", ".join(lacking),
        )
        return False
    return all(None not in nodes.ask(conn, each).values() for each in _SWITCH_LOG)
