"""Compare a memory that is sealed with scope keys to one that is not, in turns.

    python -m benchmarks.scope_keys

One user of 10,000 turns and ten of 1,000, on SQLite, with given embeddings. Both sides are measured
at each moment; the ratio is the median of the moments' ratios. The goals were set before.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Set before numpy is imported: its threads wait by spinning, which distorts CPU times.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from .data import Data
from .jobs import size
from .subjects.octopus import Octopus

OFF, ON = "off", "local"
HERE: Mapping[str, str] = {OFF: "keys off", ON: "keys on"}
GOALS = {
    "add of one turn": 1.05,
    "warm recall, 1,000 turns": 1.02,
    "warm recall, 10,000 turns": 1.02,
    "first recall, 10,000 turns": 1.5,
    "bytes a turn": 1.1,
}
LARGE, SMALL, SMALLS = 10_000, 1_000, 10
_BLOCK = 10


def opened(folder: Path, keys: str, data: Data) -> Octopus:
    """Open the memory of one side. The keys are outside of the folder of its database."""
    os.environ["OCTOPUS_KEYS"] = keys
    os.environ["OCTOPUS_KEYS_PATH"] = str(folder / "keys" / "keys.db")
    side = folder / keys
    side.mkdir(exist_ok=True)
    return Octopus(side, data)


@dataclass(slots=True)
class Pairs:
    """Milliseconds of calls of both sides, a pair for each moment: a busy one affects both."""

    walls: dict[str, list[float]] = field(default_factory=lambda: {OFF: [], ON: []})
    cpus: dict[str, list[float]] = field(default_factory=lambda: {OFF: [], ON: []})

    def add(self, keys: str, wall: float, cpu: float, calls: int = 1) -> None:
        self.walls[keys].append(wall / calls * 1e3)
        self.cpus[keys].append(cpu / calls * 1e3)


def first_recall(folder: Path, data: Data, times: int) -> Pairs:
    """Time the first recall of the large scope, each by a memory that was just opened."""
    pairs = Pairs()
    for number in range(times + 1):
        for keys in (OFF, ON) if number % 2 else (ON, OFF):
            subject = opened(folder, keys, data)
            # Loads what every first call loads, from a scope of another user.
            subject.recall(data.query(1, number))
            query = data.query(0, number)
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            subject.recall(query)
            if number:
                pairs.add(keys, time.perf_counter() - wall, time.process_time() - cpu)
            subject.close()
    return pairs


def measured(folder: Path, *, quick: bool) -> dict[str, Pairs | dict[str, float]]:
    large, small = (1_000, 200) if quick else (LARGE, SMALL)
    data = Data([large] + [small] * SMALLS)
    sides = {keys: opened(folder, keys, data) for keys in (OFF, ON)}
    for subject in sides.values():
        subject.load(data)
        subject.memory.compact()
        subject.close()
    found: dict[str, Pairs | dict[str, float]] = {
        "bytes a turn": {keys: size(folder / keys) / data.turns for keys in sides},
        "first recall, 10,000 turns": first_recall(folder, data, 3 if quick else 15),
    }
    sides = {keys: opened(folder, keys, data) for keys in (OFF, ON)}
    times = 50 if quick else 1_000
    for name, users in (("10,000", [0]), ("1,000", list(range(1, SMALLS + 1)))):
        queries = [data.query(users[each % len(users)], each) for each in range(times + 1)]
        for subject in sides.values():
            for query in queries[: len(users)]:
                subject.recall(query)
        found[f"warm recall, {name} turns"] = _in_turns(
            sides, lambda subject, number, asked=queries: subject.recall(asked[number]), times
        )
    news = data.block(data.turns, times + 1)
    found["add of one turn"] = _in_turns(
        sides,
        lambda subject, number: subject.add(
            1 + number % SMALLS, f"new {number // 20}", [news[number]]
        ),
        times,
    )
    busy = {}
    for keys, subject in sides.items():
        began = time.process_time()
        subject.settle()
        busy[keys] = (time.process_time() - began) / times * 1e3
        subject.close()
    found["indexing of one turn afterwards, CPU-ms"] = busy
    return found


def _in_turns(
    sides: Mapping[str, Octopus], do: Callable[[Octopus, int], object], times: int
) -> Pairs:
    """Measure blocks of calls, one of each side in turns; which of the two begins changes, too."""
    for subject in sides.values():
        do(subject, 0)
    gc.collect()
    gc.freeze()
    pairs = Pairs()
    for start in range(1, times + 1, _BLOCK):
        order = list(sides) if (start // _BLOCK) % 2 else list(reversed(sides))
        for keys in order:
            wall, cpu = time.perf_counter(), time.process_time()
            for number in range(start, min(start + _BLOCK, times + 1)):
                do(sides[keys], number)
            pairs.add(keys, time.perf_counter() - wall, time.process_time() - cpu, _BLOCK)
    return pairs


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--quick", action="store_true", help="little data, for a try")
    given = arguments.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        found = measured(folder, quick=given.quick)
    finally:
        shutil.rmtree(folder)
    print("| | keys off | keys on | ratio | goal |\n|---|--:|--:|--:|--:|")
    for name, each in sorted(found.items()):
        goal = f"≤ {GOALS[name]}" if name in GOALS else ""
        if isinstance(each, Pairs):
            print(_row(f"{name}, ms", each.walls, goal))
            print(_row(f"{name}, CPU-ms", each.cpus, goal))
        else:
            print(_row(name, {keys: [value] for keys, value in each.items()}, goal))


def _row(name: str, taken: Mapping[str, list[float]], goal: str) -> str:
    off, on = (statistics.median(taken[keys]) for keys in (OFF, ON))
    ratio = statistics.median(b / a for a, b in zip(taken[OFF], taken[ON], strict=True))
    places = 0 if off > 100 else 3
    return f"| {name} | {off:,.{places}f} | {on:,.{places}f} | {ratio:.2f} | {goal} |"


if __name__ == "__main__":
    main()
