"""The view `octopus_episodes_readable`, for people with a SQL client.

It shows no text of a conversation, and only rows of the tables, so that an erasure removes them
from it too. On PostgreSQL it reads as the querying role (`security_invoker`), so that row-level
security applies.

A migration that changes a column named here must `drop` the view first and `create` it afterwards;
the migration that created it before becomes empty.
"""

from __future__ import annotations

import sqlalchemy as sa

NAME = "octopus_episodes_readable"

_VIEW = """
CREATE VIEW {name}{options} AS
SELECT
    {id} AS episode_id,
    {tenant} AS tenant_id,
    {agent} AS agent_id,
    {user} AS user_id,
    {session} AS session_id,
    {started} AS started_at,
    {last} AS last_message_at,
    {ended} AS ended_at,
    {reason} AS end_reason,
    {messages} AS message_count,
    {input} AS total_input_tokens,
    {output} AS total_output_tokens,
    CASE
        WHEN e.deleted_at IS NOT NULL THEN 'deleted'
        WHEN {archived} THEN 'archived'
        ELSE 'active'
    END AS stage,
    {archived_at} AS archived_at,
    {deleted_at} AS deleted_at,
    CASE
        WHEN EXISTS (
            SELECT 1 FROM octopus_holds h
            WHERE h.tenant = e.tenant AND (h.{quoted} = s.{quoted} OR h.episode_id = e.id)
        )
        THEN {true} ELSE {false}
    END AS is_held
FROM octopus_episodes e
JOIN octopus_scopes s ON s.id = e.scope_id AND s.tenant = e.tenant{joined}
"""
_TIMES = {
    "started": "e.started_at",
    "last": "e.last_message_at",
    "ended": "e.ended_at",
    "archived_at": "e.archived_at",
    "deleted_at": "e.deleted_at",
}
_COUNTS = {
    "messages": "e.message_count",
    "input": "e.input_tokens",
    "output": "e.output_tokens",
}
_REASON = {"reason": "e.end_reason"}
_NAMES = {
    "tenant": "e.tenant",
    "agent": "s.agent",
    "user": "s.{quoted}",
    "session": "e.session_id",
}


def create(conn: sa.Connection, joined: str = "") -> None:
    """Create the view, which must not exist; a product without a definition gets none.

    `joined` is added to the condition that joins episodes and scopes.
    """
    if conn.dialect.name in _PARTS:
        conn.exec_driver_sql(definition(conn.dialect.name, joined))


def drop(conn: sa.Connection) -> None:
    """Drop the view if it exists."""
    conn.exec_driver_sql(f"DROP VIEW IF EXISTS {NAME}")


def definition(dialect: str, joined: str = "") -> str:
    """The dialect's CREATE VIEW statement."""
    return _VIEW.format(name=NAME, joined=joined, **_PARTS[dialect]())


def _postgresql() -> dict[str, str]:
    quoted = '"user"'
    return {
        "options": " WITH (security_invoker = true)",
        "id": "e.id",
        "archived": "e.is_archived",
        "true": "TRUE",
        "false": "FALSE",
        "quoted": quoted,
        **{name: column.format(quoted=quoted) for name, column in _NAMES.items()},
        **_TIMES,
        **_COUNTS,
        **_REASON,
    }


def _sqlite() -> dict[str, str]:
    quoted = '"user"'
    return {
        "options": "",
        "id": _dashed("lower(hex(e.id))", "||", "substr"),
        "archived": "e.is_archived",
        "true": "1",
        "false": "0",
        "quoted": quoted,
        **{name: column.format(quoted=quoted) for name, column in _NAMES.items()},
        **{name: _iso(column) for name, column in _TIMES.items()},
        **_COUNTS,
        **_REASON,
    }


def _iso(column: str) -> str:
    """Microseconds since 1970 as ISO 8601 in UTC; `%` of a negative number is negative."""
    micros = f"(({column} % 1000000 + 1000000) % 1000000)"
    seconds = f"({column} - {micros}) / 1000000"
    return f"strftime('%Y-%m-%dT%H:%M:%S', {seconds}, 'unixepoch') || printf('.%06dZ', {micros})"


def _sql_server() -> dict[str, str]:
    quoted = "[user]"
    number = "CAST(e.id AS binary(16))"
    # Undo the order of groups in which `types.to_sql_server` stores an id.
    groups = [(11, 6), (9, 2), (7, 2), (5, 2), (1, 4)]
    taken = " + ".join(f"SUBSTRING({number}, {at}, {length})" for at, length in groups)
    digits = f"LOWER(CONVERT(char(32), {taken}, 2))"
    return {
        "options": "",
        "id": _dashed(digits, "+", "SUBSTRING"),
        "archived": "e.is_archived = 1",
        "true": "CAST(1 AS bit)",
        "false": "CAST(0 AS bit)",
        "quoted": quoted,
        **{name: _text(column.format(quoted=quoted)) for name, column in _NAMES.items()},
        # Computed, because SQL Server allows writes through a view to plain columns.
        **{name: f"CAST({column} AS datetimeoffset(6))" for name, column in _TIMES.items()},
        **{name: f"{column} + 0" for name, column in _COUNTS.items()},
        **{name: f"CAST({column} AS varchar(16))" for name, column in _REASON.items()},
    }


def _text(column: str) -> str:
    """A packed name without its end mark, in the code page of the database."""
    return f"CONVERT(varchar(1025), SUBSTRING({column}, 1, DATALENGTH({column}) - 1))"


def _dashed(digits: str, joined: str, part: str) -> str:
    """Thirty-two hexadecimal digits in the notation of a UUID."""
    groups = [(1, 8), (9, 4), (13, 4), (17, 4), (21, 12)]
    return f" {joined} '-' {joined} ".join(f"{part}({digits}, {at}, {n})" for at, n in groups)


_PARTS = {"postgresql": _postgresql, "sqlite": _sqlite, "mssql": _sql_server}
