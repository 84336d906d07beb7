"""Ends of a move: pages of a table, the position of the move, and the numbers of new rows.

A number must never be given to two rows, not even after the first is gone, because caches and
remote indexes may still know it. So the target continues where the source stopped counting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from .....domain.errors import InvalidInput, StoreBusy
from ..lazy import Connection, sa, schema, sql_for, without_snapshot
from . import meta

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = list[Any]

_MOVING = "moving"
_NUMBERS = "numbers"
"""The meta row with the numbers of a move on SQL Server.

There `IDENT_CURRENT` of a table without rows may answer with its seed, whatever it was set to.
"""
_ROWS = 500
_BYTES = 8 * 1024 * 1024
_FETCH = 20
_GIVEN = {
    "postgresql": "SELECT pg_sequence_last_value("
    "CAST(pg_get_serial_sequence(:table, :column) AS regclass))",
    "mssql": "SELECT CAST(IDENT_CURRENT(:table) AS BIGINT)",
}


@cache
def tables() -> list[sa.Table]:
    """The tables in the order in which they are filled.

    Scopes first, because a distributed database places the other rows by them.
    """
    others = (each for each in schema.metadata.sorted_tables if each is not schema.scopes)
    return [schema.scopes, *(table for table in others if table is not schema.meta)]


@cache
def _made_by_opening() -> set[sa.Table]:
    """The tables that opening a database writes to: an empty database may have rows there."""
    return {schema.models, schema.jobs}


class MovePosition(NamedTuple):
    """The position of a move: every row before this key of this table is in the target."""

    source: str
    """A fingerprint of the source's secret."""
    table: int = 0
    after: Key | None = None

    def dump(self) -> bytes:
        after = None if self.after is None else [_packed(value) for value in self.after]
        return json.dumps([self.source, self.table, after]).encode()

    @classmethod
    def load(cls, stored: bytes) -> MovePosition:
        source, table, after = json.loads(stored)
        key = None if after is None else [_unpacked(value) for value in after]
        return cls(source=source, table=table, after=key)


def _packed(value: Any) -> Any:
    if isinstance(value, UUID):
        return {"uuid": value.hex}
    return {"bytes": value.hex()} if isinstance(value, bytes) else value


def _unpacked(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return UUID(value["uuid"]) if "uuid" in value else bytes.fromhex(value["bytes"])


def table_at(position: MovePosition) -> sa.Table:
    """The table whose rows the move copies now."""
    return tables()[position.table]


@without_snapshot
def is_being_filled(conn: Connection) -> bool:
    return meta.get(conn, _MOVING) is not None


def page(conn: Connection, table: sa.Table, after: Key | None) -> list[Row]:
    keys = [column.name for column in table.primary_key.columns]
    number = tables().index(table)
    found: list[Row] = []
    size = 0
    # A few rows at a time, so that large ones do not fill the memory.
    while size < _BYTES and len(found) < _ROWS:
        wanted = min(_FETCH, _ROWS - len(found))
        statement = _rows_after(number, after is not None, conn.product != "mssql")
        given = {f"after_{i}": value for i, value in enumerate(after or ())}
        some = [dict(row) for row in conn.execute(statement, given | {"limit_": wanted}).mappings()]
        found += [_released(table, row) for row in some]
        if len(some) < wanted:
            break
        contents = (value for row in some for value in row.values() if isinstance(value, bytes))
        size += sum(map(len, contents))
        after = [some[-1][name] for name in keys]
    return found


@sql_for
def _rows_after(number: int, continues: bool, has_tuples: bool) -> sa.Select[Any]:
    """Rows of a table by its key, after the key `after_0`, `after_1`… if it continues."""
    table = tables()[number]
    keys = list(table.primary_key.columns)
    limit = sa.bindparam("limit_", type_=sa.Integer)
    statement = sa.select(table).order_by(*keys).limit(limit)
    return statement.where(_above(keys, has_tuples=has_tuples)) if continues else statement


def _above(keys: Sequence[sa.Column[Any]], *, has_tuples: bool) -> sa.ColumnElement[bool]:
    after = [sa.bindparam(f"after_{i}", type_=key.type) for i, key in enumerate(keys)]
    if has_tuples:
        return sa.tuple_(*keys) > sa.tuple_(*after)
    # SQL Server cannot compare tuples: above in the first column that is not equal.
    wanted = []
    for i, (key, value) in enumerate(zip(keys, after, strict=True)):
        equal = [k == v for k, v in zip(keys[:i], after[:i], strict=True)]
        wanted.append(sa.and_(*equal, key > value))
    return sa.and_(keys[0] >= after[0], sa.or_(*wanted))


def _released(table: sa.Table, row: Row) -> Row:
    """A row without its lease, which belongs to a worker of the source."""
    if table is schema.work and row["owner"] is not None:
        return row | {"owner": None, "ready_at": row["created_at"]}
    if table is schema.jobs:
        return row | {"owner": None, "leads_until": None}
    return row


def row_count(conn: Connection) -> int:
    return sum(
        int(conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
        for table in tables()
    )


def meta_values(conn: Connection) -> dict[str, bytes]:
    table = schema.meta
    # These two describe the database, not its contents.
    own = (_MOVING, _NUMBERS)
    rows = conn.execute(sa.select(table).where(table.c.name.not_in(own)))
    return {row.name: bytes(row.value) for row in rows}


def begin(conn: Connection, position: MovePosition, values: Mapping[str, bytes]) -> MovePosition:
    """The position to continue at; an empty target is prepared.

    :raises InvalidInput: when the target holds other data
    """
    stored = meta.get(conn, _MOVING, change=True)
    if stored is not None:
        begun = MovePosition.load(stored)
        if begun.source != position.source:
            raise InvalidInput("to", "holds a part of another database: give a new, empty one")
        return begun
    for table in tables():
        if table in _made_by_opening():
            continue
        if conn.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first():
            raise InvalidInput("to", f"is not empty ({table.name}): give a new database")
    for table in (schema.meta, *_made_by_opening()):
        conn.execute(sa.delete(table))
    for name, value in {**values, _MOVING: position.dump()}.items():
        meta.put(conn, name, value)
    return position


def fill(conn: Connection, position: MovePosition, rows: Sequence[Row], then: MovePosition) -> None:
    """Insert one page of rows, and record the position after them in the same transaction."""
    if meta.get(conn, _MOVING, change=True) != position.dump():
        raise StoreBusy("another process is moving data into this database: let it finish")
    if rows:
        conn.execute(sa.insert(table_at(position)), list(rows))
    meta.put(conn, _MOVING, then.dump())


def end(conn: Connection, numbers: Mapping[str, int]) -> None:
    _continue_numbers(conn, numbers)
    conn.execute(sa.delete(schema.meta).where(schema.meta.c.name == _MOVING))


def numbers_given(conn: Connection) -> dict[str, int]:
    """The last number that each table with generated keys gave out."""
    stored = _stored_numbers(conn)
    return {
        table.name: max(_given(conn, table, column), stored.get(table.name, 0))
        for table, column in numbered_tables()
    }


def _continue_numbers(conn: Connection, numbers: Mapping[str, int]) -> None:
    """Set each table's next number above the source's last and above every row that it has."""
    reached, highest = {}, highest_numbers(conn)
    for table, column in numbered_tables():
        number = reached[table.name] = max(highest[table.name], numbers.get(table.name, 0))
        if number:
            _continue_after(conn, table, column, number)
    if conn.product == "mssql":
        meta.put(conn, _NUMBERS, json.dumps(reached).encode())


def highest_numbers(conn: Connection) -> dict[str, int]:
    """The highest number in each table with generated keys."""
    return {
        table.name: conn.execute(sa.select(sa.func.max(column))).scalar() or 0
        for table, column in numbered_tables()
    }


def _stored_numbers(conn: Connection) -> dict[str, int]:
    found = meta.get(conn, _NUMBERS) if conn.product == "mssql" else None
    stored: dict[str, int] = {} if found is None else json.loads(found)
    return stored


def numbered_tables() -> list[tuple[sa.Table, sa.Column[int]]]:
    found = []
    for table in tables():
        column = table.autoincrement_column
        if column is not None:
            found.append((table, column))
    return found


def _given(conn: Connection, table: sa.Table, column: sa.Column[int]) -> int:
    if conn.product == "sqlite":
        stored = conn.execute(sa.select(_sequence().c.seq).where(_sequence().c.name == table.name))
        return int(stored.scalar() or 0)
    if conn.product not in _GIVEN:
        # It counts on from its highest row, which the caller reads anyway.
        return 0
    statement = sa.text(_GIVEN[conn.product]).columns(sa.column("number", sa.BigInteger))
    names = {"table": table.name, "column": column.name}
    used = {name: value for name, value in names.items() if f":{name}" in _GIVEN[conn.product]}
    return int(conn.execute(statement, used).scalar() or 0)


def _continue_after(conn: Connection, table: sa.Table, column: sa.Column[int], number: int) -> None:
    match conn.product:
        case "sqlite":
            if not table.dialect_options["sqlite"]["autoincrement"]:
                # It counts on from its highest row.
                return
            this = _sequence().c.name == table.name
            if not conn.execute(sa.update(_sequence()).where(this).values(seq=number)).rowcount:
                conn.execute(sa.insert(_sequence()).values(name=table.name, seq=number))
        case "postgresql":
            sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
            conn.execute(sa.select(sa.func.setval(sequence, number)))
        case "mssql":
            # One more, because a table that never had a row gives this very number next.
            conn.execute(sa.text(f"DBCC CHECKIDENT ('{table.name}', RESEED, {number + 1})"))


@cache
def _sequence() -> sa.TableClause:
    return sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"))
