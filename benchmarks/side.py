"""Compare one subject with the floor in its own process: every job at every size.

`benchmarks.run` starts it with the interpreter of the subject's own virtual environment. What was
measured is written after each size, so that a subject that fails keeps its results so far.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Set before numpy is imported: its threads wait by spinning, which distorts CPU times.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from . import cold, jobs
from .data import SESSION, Data, spread
from .jobs import Figure, Pair
from .measure import beside
from .mixed import loaded, mixed
from .subjects import subject
from .subjects.floor import Floor

PYTHON = Path(sys.executable)
MILLION = 1_000_000
BASE = 10_000
"""Size for jobs that are measured at one size only."""


class Side:
    """The measurements of one subject."""

    def __init__(self, name: str, folder: Path, *, quick: bool) -> None:
        self.kind = subject(name)
        self.folder = folder
        self.quick = quick
        self.seconds = 4.0 if quick else 30.0
        self.figures: list[Figure] = []
        self.values: dict[str, Any] = {
            "subject": name,
            "version": version(self.kind.package) if self.kind.package else "",
            "notes": self.kind.notes,
            "can": sorted(self.kind.can),
        }

    def measure(self, sizes: list[int], calls: int) -> Iterator[dict[str, Any]]:
        """Measure everything. Yields the results so far after each size."""
        for turns in sizes:
            data = Data(layout(turns))
            self._size(self.folder / str(turns), data)
            yield self.result()
            if turns == BASE:
                self._start(self.folder / str(turns), data)
                self._writing(self.folder / str(turns), data)
                yield self.result()
            elif turns == MILLION and self.kind.name == "octopus":
                self._million(self.folder / str(turns), data)
            shutil.rmtree(self.folder / str(turns))
        if calls:
            folder = self._fresh("mixed")
            with self._pair(folder, loaded()) as pair:
                pair.subject.load(pair.data)
            self.values["mixed"] = mixed(
                self.kind.name,
                PYTHON,
                folder / "subject",
                calls,
                most_seconds=20 if self.quick else 300,
            )
        yield self.result()

    def result(self) -> dict[str, Any]:
        return {**self.values, "figures": [asdict(figure) for figure in self.figures]}

    def _size(self, folder: Path, data: Data) -> None:
        """Measure the load and recall at any size."""
        users = range(min(100, data.users))
        hot = users if data.turns < MILLION else users[:10]
        with self._pair(folder, data) as pair:
            self.figures.append(pair.fill())
        on_disk = {name: jobs.size(folder / name) / data.turns for name in ("subject", "floor")}
        self._keep(Figure(job="bytes a turn", turns=data.turns, values=on_disk))
        with self._pair(folder, data) as pair:
            if "recall" in self.kind.can:
                times = 100 if self.quick else 1_000
                cold_users = users[: 30 if data.turns < MILLION else 5]
                self._keep(jobs.cold_scopes(pair, cold_users, most_seconds=self.seconds))
                self._keep(jobs.recall(pair, hot, times, most_seconds=self.seconds))
                asked = 20 if self.quick else 200
                self._keep(jobs.quality(pair, hot, asked, most_seconds=self.seconds))
            if data.turns_of[0] >= SESSION:
                self._keep(jobs.sessions(pair, 500, most_seconds=self.seconds))

    def _start(self, folder: Path, data: Data) -> None:
        times = 1 if self.quick else 5
        query = data.query(3, 1)
        for name, kind in (("subject", self.kind), ("floor", Floor)):
            self.values[f"{name}_import"] = cold.import_seconds(PYTHON, kind.imports, times)
            self.values[f"{name}_start"] = cold.first_recall(
                PYTHON, kind.name, folder / name, query, times
            )
        if self.kind.name == "octopus":
            self.values["model_mb"] = cold.with_model(PYTHON, self.folder / "model")

    def _writing(self, folder: Path, data: Data) -> None:
        """Measure the jobs that change the database, last."""
        vectors = self.kind.name not in {"octopus", "agents"}
        most = self.seconds
        with self._pair(folder, data) as pair:
            self._keep(jobs.last_turns(pair, 200, most_seconds=most))
            for each, calls in ((1, 500), (20, 100), (1_000, 4)):
                many = max(1, calls // 5) if self.quick else calls
                self._keep(jobs.ingest(pair, each, many, vectors=vectors, most_seconds=most))
            self._keep(jobs.erasure(pair, 5))

    def _million(self, folder: Path, data: Data) -> None:
        """Measure scopes of every size in a full database, and a scope in a small one."""
        with self._pair(folder, data) as pair:
            for user in (data.users - 2, data.users - 1):
                self._keep(jobs.recall(pair, [user], 200, job="recall in one scope"))
            with self._pair(self._fresh("small"), Data(layout(BASE))) as small:
                small.subject.load(small.data)
                self._keep(_same_scope(pair, small))

    def _keep(self, figure: Figure) -> None:
        self.figures.append(figure)
        print(f"{self.kind.name}: {figure.job}, {figure.turns:,} turns", flush=True)

    def _fresh(self, name: str) -> Path:
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    @contextmanager
    def _pair(self, folder: Path, data: Data) -> Iterator[Pair]:
        for name in ("subject", "floor"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        pair = Pair(
            subject=self.kind(folder / "subject", data),
            floor=Floor(folder / "floor", data),
            data=data,
        )
        yield pair
        pair.close()


def layout(turns: int) -> list[int]:
    """Return 100 users with equal turns. A million turns also have small and large users."""
    if turns < MILLION:
        return spread(turns)
    return [8_800] * 100 + [100] * 100 + [10_000, 100_000]


def _same_scope(full: Pair, small: Pair) -> Figure:
    """Compare a user of 100 turns in the full database with one in a database of 10,000."""
    many = [full.data.query(100 + number % 100, number) for number in range(601)]
    few = [small.data.query(number % 100, number) for number in range(601)]
    for one, other in zip(many[:100], few[:100], strict=True):
        full.subject.recall(one)
        small.subject.recall(other)
    taken = beside(
        {
            "full": lambda number: full.subject.recall(many[number]),
            "small": lambda number: small.subject.recall(few[number]),
        },
        600,
    )
    return Figure(
        job="same scope, 1M beside 10k",
        turns=full.data.turns,
        scope=100,
        subject=taken["full"],
        floor=taken["small"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("name")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", required=True, help="numbers of turns, separated by commas")
    parser.add_argument("--calls", type=int, default=0, help="number of mixed calls; 0 for none")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    side = Side(given.name, given.folder, quick=given.quick)
    sizes = [int(turns) for turns in given.sizes.split(",")]
    for result in side.measure(sizes, given.calls):
        given.out.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
