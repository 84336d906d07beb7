"""Rows that are kept by column: to convert a column takes no step of Python's for a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa


class Columns:
    """Goes as an iterable of rows, too."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Sequence[Any]]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.values, strict=True)


def columns_of(rows: Iterable[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """Empty where there is no row."""
    return rows.values if isinstance(rows, Columns) else list(zip(*rows, strict=True))


def insert(
    conn: Any, statement: sa.Insert, names: tuple[str, ...], rows: Sequence[Sequence[Any]]
) -> None:
    """Rows of these columns; only SQLAlchemy needs the name at each value."""
    if isinstance(conn, sa.Connection):
        conn.execute(statement, [dict(zip(names, row, strict=True)) for row in rows])
    else:
        conn.insert(statement, names, rows)
