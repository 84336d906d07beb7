"""Rows that are kept by column: to convert a column takes no step of Python's for a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any


class RowsByColumn:
    """Goes as an iterable of rows, too."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Sequence[Any]]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.values, strict=True)


def columns_of(rows: Iterable[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    """Empty where there is no row."""
    return rows.values if isinstance(rows, RowsByColumn) else list(zip(*rows, strict=True))
