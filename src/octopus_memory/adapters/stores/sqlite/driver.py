"""The statements of a hot loop, straight on the driver.

SQLAlchemy compiles a statement once here, and from then on only its text and its types are used: a
short statement costs a fifth of what it does through a connection of SQLAlchemy's.
"""

from __future__ import annotations

import re
import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

_EXPANDING = re.compile(r"\(__\[POSTCOMPILE_(\w+)\]\)")

Parameters = Mapping[str, Any]
Convert = Callable[[Any], Any]


class Prepared:
    """One statement for one set of parameters."""

    def __init__(self, statement: Any, dialect: sa.Dialect, keys: Sequence[str]) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=keys)
        self._text = str(compiled)
        self._names: tuple[str, ...] = tuple(compiled.positiontup or ())
        self._fixed = {name: compiled.params.get(name) for name in self._names}
        self._expanding = tuple(_EXPANDING.findall(self._text))
        self._binders = {
            name: compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect)
            for name in self._names
        }
        columns = _columns(statement)
        self._readers = [
            (place, read)
            for place, (_, kind) in enumerate(columns)
            if (read := kind.dialect_impl(dialect).result_processor(dialect, None))
        ]
        self._row = _row_type([name for name, _ in columns])

    def text(self, given: Parameters) -> str:
        if not self._expanding:
            return self._text
        return _EXPANDING.sub(lambda m: f"({','.join('?' * len(given[m[1]]))})", self._text)

    def values(self, given: Parameters) -> list[Any]:
        values: list[Any] = []
        for name in self._names:
            bind = self._binders[name]
            if name in self._expanding:
                values += [bind(value) if bind else value for value in given[name]]
                continue
            value = given[name] if name in given else self._fixed[name]
            values.append(bind(value) if bind else value)
        return values

    def read(self, raw: Sequence[Any]) -> Any:
        values = list(raw)
        for place, convert in self._readers:
            values[place] = convert(values[place])
        return self._row(*values)


class Result:
    """As much of SQLAlchemy's result as the statements here ask for."""

    def __init__(self, cursor: sqlite3.Cursor, prepared: Prepared) -> None:
        self._cursor = cursor
        self._prepared = prepared

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    def __iter__(self) -> Iterator[Any]:
        return map(self._prepared.read, self._cursor.fetchall())

    def first(self) -> Any:
        return next(iter(self), None)

    one_or_none = first

    def scalar_one(self) -> Any:
        [row] = self
        return row[0]


class DriverConnection:
    """Executes statements that live as long as their module, on one driver connection."""

    def __init__(
        self, raw: sqlite3.Connection, dialect: sa.Dialect, known: dict[Any, Prepared]
    ) -> None:
        self._raw = raw
        self._dialect = dialect
        self._known = known

    def execute(self, statement: Any, given: Any = None) -> Result:
        many = isinstance(given, list)
        first: Parameters = (given[0] if many else given) or {}
        keys = tuple(first)
        prepared = self._known.get((statement, keys))
        if prepared is None:
            prepared = self._known[statement, keys] = Prepared(statement, self._dialect, keys)
        if many:
            rows = [prepared.values(one) for one in given]
            return Result(self._raw.executemany(prepared.text(first), rows), prepared)
        cursor = self._raw.execute(prepared.text(first), prepared.values(first))
        return Result(cursor, prepared)


def _row_type(names: Sequence[str]) -> Any:
    """Rows whose columns are read by name, as SQLAlchemy's are."""
    return namedtuple("Row", names)  # noqa: PYI024


def _columns(statement: Any) -> list[tuple[str, Any]]:
    """The name and type of each column that comes back."""
    if isinstance(statement, sa.Select):
        return [(column.name, column.type) for column in statement.selected_columns]
    return [(column["name"], column["type"]) for column in statement.returning_column_descriptions]
