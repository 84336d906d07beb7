"""Moving a whole database into an empty one, of the same product or another.

Tables are copied in the order of their keys, one page a transaction. The same transaction records
the position in the target, so that an interrupted move continues where it stopped. At the end
every row on both sides is read again and compared; the target can be used only after that.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ....domain.errors import InvalidInput, StoreError
from . import column_values
from .lazy import sa
from .statements import meta
from .statements.move import Key, MovePosition, Row, table_at, tables

if TYPE_CHECKING:
    from .store import SqlStore


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedTable:
    """A table after a move: equal in both databases."""

    name: str
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveReport:
    """Result of moving a database."""

    tables: tuple[MovedTable, ...]
    copied: int
    """Rows that this run copied; an earlier, interrupted run copied the others."""
    resumed: bool

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)


def move(
    source: SqlStore, target: SqlStore, progress: Callable[[int, int], None] | None = None
) -> MoveReport:
    """Copy every row, then compare every row.

    :raises InvalidInput: when the target holds other data, or the source is not complete
    :raises StoreError: when the two databases differ in the end
    """
    if source.is_being_filled():
        raise InvalidInput("from", "is the target of a move that is not finished: finish it first")
    values, total = source.meta_values(), source.row_count()
    start = MovePosition(source=sha256(values.get(meta.SALT, b"")).hexdigest())
    position = target.begin_filling(start, values)
    walk = _Walk(total * 3, progress)
    resumed = position != start
    copied = _copy(source, target, position, walk)
    compared = tuple(_compare(source, target, walk))
    target.end_filling(source.numbers_given())
    return MoveReport(tables=compared, copied=copied, resumed=resumed)


class _Walk:
    """Reports how many of all rows to read were read."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def step(self, rows: int) -> None:
        self._done += rows
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


def _copy(source: SqlStore, target: SqlStore, position: MovePosition, walk: _Walk) -> int:
    copied = 0
    while position.table < len(tables()):
        table = table_at(position)
        rows = source.table_page(table, position.after)
        if rows:
            then = position._replace(after=_key(table, rows[-1]))
        else:
            then = MovePosition(source=position.source, table=position.table + 1)
        target.fill(position, rows, then)
        copied += len(rows)
        position = then
        walk.step(len(rows))
    return copied


def _compare(source: SqlStore, target: SqlStore, walk: _Walk) -> Iterator[MovedTable]:
    if source.meta_values() != target.meta_values():
        raise _differ("octopus_meta")
    for table in tables():
        ours, theirs = (_checksum(end, table, walk) for end in (source, target))
        if ours != theirs:
            raise _differ(table.name)
        yield MovedTable(name=table.name, rows=ours[0], checksum=f"{ours[1]:064x}")


def _differ(name: str) -> StoreError:
    return StoreError(
        f"{name} is not the same on both sides: something wrote to the source while it was moved. "
        "Stop what uses it, and move it again into a new, empty database"
    )


def _checksum(end: SqlStore, table: sa.Table, walk: _Walk) -> tuple[int, int]:
    """The number of rows and the sum of their hashes, which does not depend on their order."""
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


def _key(table: sa.Table, row: Row) -> Key:
    return [row[column.name] for column in table.primary_key.columns]
