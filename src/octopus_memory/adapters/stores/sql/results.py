"""Results of a driver, with the interface of SQLAlchemy results."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Protocol, TypeAlias

from .lazy import sa

Conversions: TypeAlias = Sequence[tuple[int, Callable[[Any], Any]]]
"""The indexes of columns that need a conversion, with the conversion."""


class RowsByColumn:
    """Rows kept by column, because converting a whole column is faster; iterates as rows."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Sequence[Any]]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.values, strict=True)


def columns_of(rows: Iterable[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """The columns of rows; empty for no rows."""
    return rows.values if isinstance(rows, RowsByColumn) else list(zip(*rows, strict=True))


class Cursor(Protocol):
    """The methods that are used of a driver cursor."""

    @property
    def rowcount(self) -> int: ...

    def fetchall(self) -> list[Any]: ...

    def fetchmany(self, size: int, /) -> list[Any]: ...


class Reader:
    """Converts a driver's rows to the types of a statement's columns."""

    def __init__(self, columns: Sequence[str], reads: Iterable[Any]) -> None:
        """`reads` has the conversion of each column, or None."""
        self._reads = conversions(reads)
        self.columns = tuple(columns)
        self.named = _row_type(self.columns)._make

    def read(self, rows: Sequence[tuple[Any, ...]]) -> Iterable[tuple[Any, ...]]:
        if not self._reads:
            return rows
        if len(rows) == 1:
            return (tuple(converted_row(rows[0], self._reads)),)
        columns: list[Any] = list(zip(*rows, strict=True))
        if columns:
            convert_columns(columns, self._reads)
        return RowsByColumn(columns)


class DriverResult:
    """The rows of a driver's cursor, with the interface of SQLAlchemy's result."""

    def __init__(self, cursor: Cursor, reader: Reader) -> None:
        self._cursor = cursor
        self._reader = reader

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    def __iter__(self) -> Iterator[Any]:
        return map(self._reader.named, self.fetchall())

    def all(self) -> list[Any]:
        return list(self)

    def fetchall(self) -> Iterable[tuple[Any, ...]]:
        return self._reader.read(self._cursor.fetchall())

    def partitions(self, size: int) -> Iterator[list[Any]]:
        while found := self._cursor.fetchmany(size):
            yield list(map(self._reader.named, self._reader.read(found)))

    def mappings(self) -> list[dict[str, Any]]:
        return [dict(zip(self._reader.columns, row, strict=True)) for row in self.fetchall()]

    def scalars(self) -> list[Any]:
        return [row[0] for row in self.fetchall()]

    def first(self) -> Any:
        found = self._cursor.fetchall()
        return self._reader.named(*self._reader.read(found[:1])) if found else None

    def one_or_none(self) -> Any:
        found = self._cursor.fetchall()
        if len(found) > 1:
            raise ValueError("at most one row was expected")
        return self._reader.named(*self._reader.read(found)) if found else None

    def one(self) -> Any:
        [row] = self
        return row

    def scalar(self) -> Any:
        row = self.first()
        return None if row is None else row[0]

    def scalar_one(self) -> Any:
        return self.one()[0]

    def close(self) -> None:
        """Do nothing: unread rows go with the cursor."""


def returned(statement: Any) -> list[tuple[str, Any]]:
    """The name and type of each column that a statement returns."""
    if isinstance(statement, sa.SelectBase):
        # Also a text with `columns`.
        return [(name, column.type) for name, column in statement.selected_columns.items()]
    if isinstance(statement, sa.TextClause):
        return []
    return [(column["name"], column["type"]) for column in statement.returning_column_descriptions]


def conversions(hows: Iterable[Any]) -> Conversions:
    return [(i, how) for i, how in enumerate(hows) if how]


def converted_row(values: Sequence[Any], known: Conversions) -> list[Any]:
    row = list(values)
    for i, how in known:
        row[i] = how(row[i])
    return row


def convert_columns(columns: list[Any], known: Conversions) -> None:
    for i, how in known:
        columns[i] = _converted_column(columns[i], how)


def _converted_column(column: Sequence[Any], how: Callable[[Any], Any]) -> list[Any]:
    first = column[0]
    # Rows of one call often share their episode and their times.
    if first == column[-1] and column.count(first) == len(column):
        return [how(first)] * len(column)
    return list(map(how, column))


@cache
def _row_type(names: tuple[str, ...]) -> Any:
    """A row type whose columns are attributes, as in SQLAlchemy."""
    # A column without a name of its own is read by its position.
    return namedtuple("Row", names, rename=True)  # noqa: PYI024
