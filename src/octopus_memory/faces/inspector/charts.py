"""Small bar charts, as numbers that a template draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 300.0, 44.0
_GAP = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A bar of a chart."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A series of counts, one for each minute."""

    name: str
    columns: tuple[Column, ...]
    total: int
    peak: int
    last: int
    """Count of the last minute that is over."""


def chart(name: str, counts: Sequence[int]) -> Chart:
    """Scale counts to the chart's height. A count of zero has no bar."""
    step, peak = WIDTH / max(len(counts), 1), max(counts, default=0)
    columns = []
    for place, number in enumerate(counts):
        if number:
            height = max(2.0, number / peak * HEIGHT)
            columns.append(
                Column(x=place * step, y=HEIGHT - height, width=step - _GAP, height=height)
            )
    return Chart(
        name=name,
        columns=tuple(columns),
        total=sum(counts),
        peak=peak,
        last=counts[-2] if len(counts) > 1 else 0,
    )
