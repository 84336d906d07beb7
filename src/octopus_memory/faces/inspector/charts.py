"""Small bar charts, as numbers that a template draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan

WIDTH, HEIGHT = 300.0, 44.0
_GAP = 1.0
BAR_WIDTH = 190.0
_LEAST_WIDTH = 1.0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Part of a score that one signal adds, as a bar that starts where the previous one ended."""

    signal: str
    adds: float
    start: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Bars of log odds that add up to a score."""

    bars: tuple[Bar, ...]
    zero: float
    total: float


def add_up(contributions: Iterable[tuple[str, float]]) -> Sum:
    """Lay out contributions as bars, each from where the one before it ended."""
    known = [(signal, adds) for signal, adds in contributions if not isnan(adds)]
    ends = [0.0]
    for _, adds in known:
        ends.append(ends[-1] + adds)
    low, high = min(ends), max(ends)
    scale = BAR_WIDTH / max(high - low, 1e-9)
    bars = [
        Bar(
            signal=signal,
            adds=adds,
            start=(min(begun, begun + adds) - low) * scale,
            width=max(abs(adds) * scale, _LEAST_WIDTH),
        )
        for (signal, adds), begun in zip(known, ends, strict=False)
    ]
    return Sum(bars=tuple(bars), zero=-low * scale, total=ends[-1])
