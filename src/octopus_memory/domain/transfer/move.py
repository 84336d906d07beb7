"""What a move of a whole database came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedTable:
    """One table after a move: the same on both sides."""

    name: str
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveReport:
    """What a move brought over."""

    tables: tuple[MovedTable, ...]
    copied: int
    """Rows that this run copied; the others were there from one that was cut short."""
    resumed: bool

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables)
