"""Statements executed on the driver, without a SQLAlchemy connection.

Only the text and the types of a statement are used. Those of common calls are shipped; SQLAlchemy
compiles any other once. A short statement takes a fifth of the time that it takes through a
SQLAlchemy connection.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, TypeAlias

from ..sql import column_values
from ..sql.lazy import Statement, sa
from ..sql.results import DriverResult, Reader, conversions, convert_columns, converted_row
from ..sql.seals import OFF, Seals
from ..sql.statement_cache import Keys, StatementCache
from .compiled import Compiled, compile_statement, shipped

_BINDS: dict[str, Any] = {
    "": None,
    "time": column_values.bind_time,
    "id": column_values.bind_id,
    # The driver binds a bytearray in a third of the time, because it looks for no adapter.
    "bytes": lambda value: None if value is None else bytearray(value),
    "flag": lambda value: None if value is None else int(value),
}
_READS: dict[str, Any] = {
    "": None,
    "time": column_values.read_time,
    "id": column_values.read_id,
    "flag": lambda value: None if value is None else bool(value),
}
"""Conversions by their names in `Compiled`."""
_NULL = float("nan")
"""The fast value for None: SQLite stores NaN as NULL."""

Parameters: TypeAlias = Mapping[str, Any]


class Prepared(Reader):
    """A statement compiled for one set of parameters."""

    def __init__(self, known: Compiled, keys: Sequence[str]) -> None:
        super().__init__(known.columns, (_READS[kind] for kind in known.reads))
        self._text, *rest = known.text
        names, lists = known.names, rest[::2]
        self._lists = list(zip(map(names.index, lists), rest[1::2], strict=True))
        self.fixed = known.fixed
        self._take, self._keys = _taker(names), keys
        self._binders = conversions(
            _binder(kind, is_list=name in lists)
            for name, kind in zip(names, known.binds, strict=True)
        )

    def run(self, raw: sqlite3.Connection, given: Parameters) -> sqlite3.Cursor:
        if self.fixed:
            given = {**self.fixed, **given}
        row = converted_row(self._take(given), self._binders)
        values: list[Any] = [_NULL if value is None else value for value in row]
        text = self._text
        for i, following in self._lists:
            text += _marks(len(values[i])) + following
        for i, _ in reversed(self._lists):
            values[i : i + 1] = values[i]
        return raw.execute(text, values)

    def run_many(self, raw: sqlite3.Connection, given: Iterable[Parameters]) -> sqlite3.Cursor:
        if self.fixed:
            given = ({**self.fixed, **one} for one in given)
        return self._send(raw, list(zip(*map(self._take, given), strict=True)))

    def run_rows(self, raw: sqlite3.Connection, given: Sequence[Sequence[Any]]) -> sqlite3.Cursor:
        """As `run_many`, for rows with their values in the order of the keys."""
        if len(given) == 1:
            return self.run(raw, dict(zip(self._keys, given[0], strict=True)))
        columns = zip(*given, strict=True)
        return self._send(raw, list(self._take(dict(zip(self._keys, columns, strict=True)))))

    def _send(self, raw: sqlite3.Connection, columns: list[Any]) -> sqlite3.Cursor:
        convert_columns(columns, self._binders)
        return raw.executemany(self._text, zip(*map(_without_none, columns), strict=True))


class DriverConnection:
    """Executes statements on one driver connection."""

    product = "sqlite"

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw
        self.seals: Seals = OFF

    def execute(self, statement: Statement[Any] | sa.Executable, given: Any = None) -> DriverResult:
        rows: list[Parameters] = given if isinstance(given, list) else [given or {}]
        prepared, values = prepared_statements.find(statement, tuple(rows[0]))
        if values:
            rows = [{**values, **row} for row in rows]
        if len(rows) == 1:
            return DriverResult(prepared.run(self._raw, rows[0]), prepared)
        return DriverResult(prepared.run_many(self._raw, rows), prepared)

    def insert(
        self,
        statement: Statement[Any] | sa.Executable,
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        prepared, _ = prepared_statements.find(statement, tuple(names))
        prepared.run_rows(self._raw, rows)


def _binder(kind: str, *, is_list: bool) -> Any:
    bind = _BINDS[kind]
    if not is_list:
        return bind
    return lambda values: _padded([bind(value) for value in values] if bind else values)


def _prepare_named(statement: Statement[Any], keys: Keys) -> Prepared:
    known = shipped().get((statement.name, *keys))
    return _prepare(statement(), keys)[0] if known is None else Prepared(known, keys)


def _prepare(statement: Any, keys: Keys) -> tuple[Prepared, Any]:
    known, compiled = compile_statement(statement, keys)
    return Prepared(known, keys), compiled


prepared_statements = StatementCache(_prepare_named, _prepare)
"""Shared by all stores of the process, because a compiled statement is the same for every file."""


def _without_none(column: Sequence[Any]) -> Sequence[Any]:
    is_empty = column[0] is None and column.count(None) == len(column)
    return [_NULL] * len(column) if is_empty else column


def _taker(names: Sequence[str]) -> Callable[[Parameters], tuple[Any, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda given: tuple(given[name] for name in names)


def _padded(values: Sequence[Any]) -> list[Any]:
    """A list padded to the next power of two, so that a few texts serve all lengths."""
    missing = (1 << (len(values) - 1).bit_length()) - len(values) if values else 0
    return [*values, *[values[-1]] * missing] if missing else list(values)


@cache
def _marks(count: int) -> str:
    return f"({','.join('?' * count)})"
