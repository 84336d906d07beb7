"""Moving a whole database into an empty one, of the same product or another.

Tables are copied in the order of their keys, some rows a transaction. The same transaction notes
in the target how far it is, so that a move that was cut short goes on where it stopped. At the end
every row on both sides is read again and compared; only then can the target be used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from uuid import UUID

from ....domain.errors import InvalidInput, StoreBusy, StoreError
from ....ports.transfer import Portable
from . import column_values, numbering
from .lazy import Connection, sa, schema
from .statements import meta
from .transactions import Every, Transactions

if TYPE_CHECKING:
    from ....domain.transfer.move import MovedTable, MoveReport

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = list[Any]

_MOVING = "moving"


_ROWS = 500
_BYTES = 8 * 1024 * 1024
_FETCH = 20


@cache
def _tables() -> list[sa.Table]:
    return [table for table in schema.metadata.sorted_tables if table is not schema.meta]


@cache
def _made_by_opening() -> set[sa.Table]:
    """What an empty database may hold: opening it writes there."""
    return {schema.models, schema.jobs}


class Place(NamedTuple):
    """How far a move is: everything before this key of this table is in the target."""

    source: str
    """A fingerprint of the source's secret."""
    table: int = 0
    after: Key | None = None

    def dump(self) -> bytes:
        after = None if self.after is None else [_packed(value) for value in self.after]
        return json.dumps([self.source, self.table, after]).encode()

    @classmethod
    def load(cls, kept: bytes) -> Place:
        source, table, after = json.loads(kept)
        key = None if after is None else [_unpacked(value) for value in after]
        return cls(source=source, table=table, after=key)


def table_at(place: Place) -> sa.Table:
    """The table that a move copies rows of."""
    return _tables()[place.table]


class SqlMoving(Transactions, Portable):
    """One end of a move."""

    def is_being_filled(self) -> bool:
        return self._read(Every.TENANT, meta.get, _MOVING) is not None

    def table_page(self, table: sa.Table, after: Key | None) -> list[Row]:
        return self._read(Every.TENANT, _page, table, after)

    def row_count(self) -> int:
        return self._read(Every.TENANT, _count)

    def meta_values(self) -> dict[str, bytes]:
        return self._read(Every.TENANT, _facts)

    def numbers_given(self) -> dict[str, int]:
        """The last number that each table gave out."""
        return self._read(Every.TENANT, numbering.given, _tables())

    def begin_filling(self, place: Place, facts: Mapping[str, bytes]) -> Place:
        """Where to go on; a target that was not begun is made ready, if it is empty."""
        return self._write(Every.TENANT, _begin, place, facts)

    def fill(self, place: Place, rows: Sequence[Row], then: Place) -> None:
        self._write(Every.TENANT, _fill, place, rows, then)

    def end_filling(self, numbers: Mapping[str, int]) -> None:
        self._write(Every.TENANT, _end, numbers)


def move(
    source: SqlMoving, target: SqlMoving, progress: Callable[[int, int], None] | None = None
) -> MoveReport:
    """Copy everything, then compare everything.

    :raises InvalidInput: when the target holds something else, or the source is not whole
    :raises StoreError: when the two differ in the end
    """
    if source.is_being_filled():
        raise InvalidInput("from", "is the target of a move that is not finished: finish it first")
    facts, total = source.meta_values(), source.row_count()
    start = Place(source=sha256(facts.get(meta.SALT, b"")).hexdigest())
    place = target.begin_filling(start, facts)
    walk = _Walk(total * 3, progress)
    resumed = place != start
    copied = _copy(source, target, place, walk)
    tables = tuple(_compare(source, target, walk))
    target.end_filling(source.numbers_given())
    from ....domain.transfer.move import MoveReport

    return MoveReport(tables=tables, copied=copied, resumed=resumed)


class _Walk:
    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def step(self, rows: int) -> None:
        self._done += rows
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


def _copy(source: SqlMoving, target: SqlMoving, place: Place, walk: _Walk) -> int:
    copied = 0
    while place.table < len(_tables()):
        table = table_at(place)
        rows = source.table_page(table, place.after)
        if rows:
            then = Place(source=place.source, table=place.table, after=_key(table, rows[-1]))
        else:
            then = Place(source=place.source, table=place.table + 1)
        target.fill(place, rows, then)
        copied += len(rows)
        place = then
        walk.step(len(rows))
    return copied


def _compare(source: SqlMoving, target: SqlMoving, walk: _Walk) -> Iterator[MovedTable]:
    from ....domain.transfer.move import MovedTable

    if source.meta_values() != target.meta_values():
        raise _differ("octopus_meta")
    for table in _tables():
        ours, theirs = (_checksum(end, table, walk) for end in (source, target))
        if ours != theirs:
            raise _differ(table.name)
        yield MovedTable(name=table.name, rows=ours[0], checksum=f"{ours[1]:064x}")


def _differ(name: str) -> StoreError:
    return StoreError(
        f"{name} is not the same on both sides: something wrote to the source while it was moved. "
        "Stop what uses it, and move it again into a new, empty database"
    )


def _checksum(end: SqlMoving, table: sa.Table, walk: _Walk) -> tuple[int, int]:
    """How many rows, and the sum of their hashes: the order, which products differ in, is none."""
    count, total, after = 0, 0, None
    while rows := end.table_page(table, after):
        for row in rows:
            plain = [_plain(value) for value in row.values()]
            digest = sha256(json.dumps(plain, separators=(",", ":")).encode()).digest()
            total = (total + int.from_bytes(digest)) % 2**256
        count += len(rows)
        after = _key(table, rows[-1])
        walk.step(len(rows))
    return count, total


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case UUID():
            return str(value)
        case datetime():
            return column_values.micros(value)
    return value


def _page(conn: Connection, table: sa.Table, after: Key | None) -> list[Row]:
    keys = list(table.primary_key.columns)
    statement = sa.select(table).order_by(*keys).limit(_ROWS).execution_options(yield_per=_FETCH)
    if after is not None:
        statement = statement.where(_above(keys, after, conn.product))
    rows: list[Row] = []
    size = 0
    with conn.execute(statement) as found:
        for row in found:
            rows.append(_released(table, dict(row._mapping)))  # noqa: SLF001 - SQLAlchemy's public name
            size += sum(len(value) for value in row if isinstance(value, bytes))
            if size >= _BYTES:
                break
    return rows


def _above(keys: Sequence[sa.Column[Any]], after: Key, dialect: str) -> sa.ColumnElement[bool]:
    if dialect != "mssql":
        values = [sa.literal(value, key.type) for key, value in zip(keys, after, strict=True)]
        return sa.tuple_(*keys) > sa.tuple_(*values)
    # SQL Server compares no rows: above in the first column that is not equal.
    wanted = []
    for place, (key, value) in enumerate(zip(keys, after, strict=True)):
        equal = [k == v for k, v in zip(keys[:place], after[:place], strict=True)]
        wanted.append(sa.and_(*equal, key > value))
    return sa.and_(keys[0] >= after[0], sa.or_(*wanted))


def _released(table: sa.Table, row: Row) -> Row:
    """Whoever held a piece of work or a job holds it in the source."""
    if table is schema.work and row["owner"] is not None:
        return row | {"owner": None, "ready_at": row["created_at"]}
    if table is schema.jobs:
        return row | {"owner": None, "leads_until": None}
    return row


def _key(table: sa.Table, row: Row) -> Key:
    return [row[column.name] for column in table.primary_key.columns]


def _packed(value: Any) -> Any:
    return {"uuid": value.hex} if isinstance(value, UUID) else value


def _unpacked(value: Any) -> Any:
    return UUID(value["uuid"]) if isinstance(value, dict) else value


def _count(conn: Connection) -> int:
    return sum(
        int(conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
        for table in _tables()
    )


def _facts(conn: Connection) -> dict[str, bytes]:
    table = schema.meta
    # These two are about the database, not about what it holds.
    own = (_MOVING, numbering.KEPT)
    rows = conn.execute(sa.select(table).where(table.c.name.not_in(own)))
    return {row.name: bytes(row.value) for row in rows}


def _begin(conn: Connection, place: Place, facts: Mapping[str, bytes]) -> Place:
    kept = meta.get(conn, _MOVING, change=True)
    if kept is not None:
        begun = Place.load(kept)
        if begun.source != place.source:
            raise InvalidInput("to", "holds a part of another database: give a new, empty one")
        return begun
    for table in _tables():
        if table in _made_by_opening():
            continue
        if conn.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first():
            raise InvalidInput("to", f"is not empty ({table.name}): give a new database")
    for table in (schema.meta, *_made_by_opening()):
        conn.execute(sa.delete(table))
    for name, value in {**facts, _MOVING: place.dump()}.items():
        meta.put(conn, name, value)
    return place


def _fill(conn: Connection, place: Place, rows: Sequence[Row], then: Place) -> None:
    if meta.get(conn, _MOVING, change=True) != place.dump():
        raise StoreBusy("another process is moving data into this database: let it finish")
    if rows:
        conn.execute(sa.insert(table_at(place)), list(rows))
    meta.put(conn, _MOVING, then.dump())


def _end(conn: Connection, numbers: Mapping[str, int]) -> None:
    numbering.go_on_after(conn, _tables(), numbers)
    conn.execute(sa.delete(schema.meta).where(schema.meta.c.name == _MOVING))
