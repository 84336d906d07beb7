"""Times of calls, measured in turns, and their statistics."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Call = Callable[[int], object]
Subject = TypeVar("Subject")


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Times of one kind of call in milliseconds."""

    calls: int
    p50: float
    p95: float
    p99: float
    cpu: float
    """Mean CPU time of the whole process, including other threads."""


@dataclass(kw_only=True, slots=True)
class _Samples:
    wall: list[float] = field(default_factory=list)
    cpu: float = 0.0

    def timing(self) -> Timing:
        return Timing(
            calls=len(self.wall),
            p50=percentile(self.wall, 50) * 1e3,
            p95=percentile(self.wall, 95) * 1e3,
            p99=percentile(self.wall, 99) * 1e3,
            cpu=self.cpu / len(self.wall) * 1e3,
        )


def beside(
    calls: Mapping[str, Call], times: int, *, block: int = 10, most_seconds: float = 60
) -> dict[str, Timing]:
    """Measure in turns, a block of calls each, so that a busy moment affects all.

    Each call is given its number, and one that came before warms up. It ends early once
    `most_seconds` have passed, after each had at least one block.
    """
    samples = {name: _Samples() for name in calls}
    for call in calls.values():
        call(0)
    # Objects of the benchmark itself must not cost garbage collection during the calls.
    gc.collect()
    gc.freeze()
    began = time.perf_counter()
    for start in range(1, times + 1, block):
        if start > 1 and time.perf_counter() - began > most_seconds:
            break
        for name, call in calls.items():
            _block(call, range(start, min(start + block, times + 1)), samples[name])
    return {name: taken.timing() for name, taken in samples.items()}


def _block(call: Call, numbers: range, samples: _Samples) -> None:
    cpu = time.process_time()
    for number in numbers:
        start = time.perf_counter()
        call(number)
        samples.wall.append(time.perf_counter() - start)
    samples.cpu += time.process_time() - cpu


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile by linear interpolation."""
    if not values:
        raise ValueError("no values: nothing was measured")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def ratio(value: float | None, floor: float | None) -> float | None:
    """Return the ratio to the floor; None if one of them is missing."""
    return None if value is None or not floor else value / floor


def agreement(found: Sequence[Sequence[int]], exact: Sequence[Sequence[int]]) -> float:
    """Return the share of the results of exact search that was found."""
    wanted = sum(len(set(right)) for right in exact)
    hit = sum(len(set(got) & set(right)) for got, right in zip(found, exact, strict=True))
    return hit / wanted if wanted else 1.0
