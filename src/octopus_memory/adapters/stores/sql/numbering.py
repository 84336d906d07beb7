"""The numbers that a database gives to new rows: read in one, and gone on with in another.

A number must never be given twice, not even when its row is gone: caches and remote indexes may
still know it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

from .lazy import Connection, sa
from .statements import meta

_GIVEN = {
    "postgresql": "SELECT pg_sequence_last_value("
    "CAST(pg_get_serial_sequence(:table, :column) AS regclass))",
    "mssql": "SELECT CAST(IDENT_CURRENT(:table) AS BIGINT)",
}


KEPT = "numbers"
"""The fact that holds the numbers of a move on SQL Server.

There a table without rows may answer with its seed, whatever it was told (`IDENT_CURRENT`).
"""


def given(conn: Connection, tables: Sequence[sa.Table]) -> dict[str, int]:
    """The last number that each table with numbers of its own gave out."""
    kept = _kept(conn)
    return {
        table.name: max(_given(conn, table, column), kept.get(table.name, 0))
        for table, column in _numbered(tables)
    }


def go_on_after(conn: Connection, tables: Sequence[sa.Table], numbers: Mapping[str, int]) -> None:
    """The next number of each table is above those given there, and above every one that it has."""
    reached = {}
    for table, column in _numbered(tables):
        highest = conn.execute(sa.select(sa.func.max(column))).scalar() or 0
        number = reached[table.name] = max(highest, numbers.get(table.name, 0))
        if number:
            _go_on_after(conn, table, column, number)
    if conn.product == "mssql":
        meta.put(conn, KEPT, json.dumps(reached).encode())


def _kept(conn: Connection) -> dict[str, int]:
    found = meta.get(conn, KEPT) if conn.product == "mssql" else None
    kept: dict[str, int] = {} if found is None else json.loads(found)
    return kept


def _numbered(tables: Sequence[sa.Table]) -> list[tuple[sa.Table, sa.Column[int]]]:
    found = []
    for table in tables:
        column = table.autoincrement_column
        if column is not None:
            found.append((table, column))
    return found


def _given(conn: Connection, table: sa.Table, column: sa.Column[int]) -> int:
    if conn.product == "sqlite":
        kept = conn.execute(sa.select(_sequence().c.seq).where(_sequence().c.name == table.name))
        return int(kept.scalar() or 0)
    statement = sa.text(_GIVEN[conn.product])
    names = {"table": table.name, "column": column.name}
    used = {name: names[name] for name in statement.compile().params}
    return int(conn.execute(statement, used).scalar() or 0)


def _go_on_after(conn: Connection, table: sa.Table, column: sa.Column[int], number: int) -> None:
    match conn.product:
        case "sqlite":
            if not table.dialect_options["sqlite"]["autoincrement"]:
                # It numbers by the highest that is there.
                return
            this = _sequence().c.name == table.name
            if not conn.execute(sa.update(_sequence()).where(this).values(seq=number)).rowcount:
                conn.execute(sa.insert(_sequence()).values(name=table.name, seq=number))
        case "postgresql":
            sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
            conn.execute(sa.select(sa.func.setval(sequence, number)))
        case "mssql":
            # One more: where nothing was ever inserted, the next number is this very one.
            conn.core.exec_driver_sql(f"DBCC CHECKIDENT ('{table.name}', RESEED, {number + 1})")


@cache
def _sequence() -> sa.TableClause:
    return sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"))
