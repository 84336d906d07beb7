"""Compare Octopus with the floor in a minute, on figures that a change may affect.

    python -m benchmarks.quick                  everything below, 10,000 turns of 100 users
    python -m benchmarks.quick recall add       only some: recall, scope, add, read, start, ledger
    python -m benchmarks.quick --turns 100000

CPU ratios are valid on a busy machine, too; those of p50 need a quiet one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Set before numpy is imported: its threads wait by spinning, which distorts CPU times.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from . import cold, jobs
from .data import Data, spread
from .jobs import Figure, Pair
from .ledger import ledger_cost
from .measure import beside, ratio
from .mixed import mixed
from .subjects.floor import Floor
from .subjects.octopus import Octopus

GROUPS = ("recall", "add", "read", "start", "scope", "ledger", "mixed")
PYTHON = Path(sys.executable)
Row = tuple[str, str, str, str]


def opened(folder: Path, data: Data, news: int = 0) -> Pair:
    for name in ("octopus", "floor"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return Pair(
        subject=Octopus(folder / "octopus", data),
        floor=Floor(folder / "floor", data),
        data=data,
        news=news,
    )


def rows(folder: Path, turns: int, groups: set[str]) -> Iterator[Row]:
    data = Data(spread(turns))
    pair = opened(folder / "all", data)
    loaded = pair.fill()
    yield "loading, CPU-ms a turn", "–", f"{loaded.values['cpu_ms_a_turn']:.2f}", ""
    users = range(min(100, data.users))
    if "recall" in groups:
        pair.close()
        pair = opened(folder / "all", data)
        yield from _timed(jobs.cold_scopes(pair, users[:60]), "first recall of a user", "–")
        yield from _timed(jobs.recall(pair, users, 400), f"recall top 5, {turns:,} turns", "≤ 4 ×")
        yield _quality(jobs.quality(pair, users, 100))
    if "read" in groups:
        yield from _timed(jobs.sessions(pair, 400), "session of 20 turns", "≤ 3 ×")
        yield from _timed(jobs.last_turns(pair, 100), "last 20 of 200 turns", "–")
    pair.close()
    bytes_a_turn = jobs.size(folder / "all" / "octopus") / (turns + pair.news)
    yield "bytes a turn on disk", "≤ 1,500", f"{bytes_a_turn:,.0f}", ""
    if "start" in groups:
        yield from _start(folder / "all", data)
    if "add" in groups:
        yield from _adds(opened(folder / "all", data, pair.news))
    if "scope" in groups:
        yield from _scope(folder / "one", 10_000)
    if "ledger" in groups:
        without, more = ledger_cost(folder / "ledger", data)
        added = f"{more / without:+.0%} CPU"
        yield "the ledger, of a context()", "≤ 10 %", added, f"{without:.1f} CPU-ms without"
    if "mixed" in groups:
        seen = mixed("octopus", PYTHON, folder / "all" / "octopus", 1_000)
        reached = f"{seen['errors']:.0f} errors, {seen['lost']:.0f} lost"
        yield "4 threads and a process, 1,000 calls", "0 errors", reached, ""


def _adds(pair: Pair) -> Iterator[Row]:
    one = jobs.ingest(pair, 1, 400, vectors=False)
    yield from _timed(one, "one durable add", "≤ 3 × CPU")
    yield from _timed(jobs.ingest(pair, 20, 40, vectors=False), "20 a call", "≤ 2.5 ×")
    many = jobs.ingest(pair, 1_000, 2, vectors=False)
    yield from _timed(many, "1,000 a call", "–")
    yield _stored(pair)
    settle = many.values["settle_cpu_ms_a_turn"]
    yield "vectors stored later, CPU-ms a turn", "–", f"{settle:.2f}", ""
    pair.close()


def _stored(pair: Pair) -> Row:
    """Measure a finished session, closed with its summary."""
    scope = pair.subject.memory.scope(user="somebody new")  # type: ignore[attr-defined]
    made = [[(turn.role, turn.text) for turn in pair.news_of(20)] for _ in range(11)]
    taken = beside({"store": lambda number: scope.store(made[number])}, 10)["store"]
    what = "store a session of 20, summary and all"
    return what, "–", f"{taken.cpu:.1f} CPU-ms", f"{taken.p50:.1f} ms"


def _scope(folder: Path, turns: int) -> Iterator[Row]:
    pair = opened(folder, Data([turns]))
    pair.fill()
    yield from _timed(jobs.recall(pair, [0], 100), f"recall in one scope of {turns:,}", "≤ 5 ×")
    pair.close()


def _start(folder: Path, data: Data) -> Iterator[Row]:
    query = data.query(3, 1)
    taken = {
        kind.name: (
            cold.import_seconds(PYTHON, kind.imports, 3),
            cold.first_recall(PYTHON, kind.name, folder / kind.name, query, 3),
        )
        for kind in (Octopus, Floor)
    }
    for place, name in enumerate(("import", "cold start to first recall")):
        mine, floor = (taken[kind][place]["cpu_seconds"] for kind in ("octopus", "floor"))
        yield name, "≤ 2 × CPU", f"{mine / floor:.1f} ×", f"{mine:.2f} s; floor {floor:.2f} s"
    memory, least = (taken[kind][1]["resident_mb"] for kind in ("octopus", "floor"))
    yield "memory then", "≤ 60 MB", f"{memory:.0f} MB", f"floor {least:.0f} MB"
    model = cold.with_model(PYTHON, folder / "model")
    yield "memory with the model", "≤ 250 MB", f"{model:.0f} MB", ""


def _timed(figure: Figure, name: str, target: str) -> Iterator[Row]:
    mine, floor = figure.subject, figure.floor
    if mine is None or floor is None:
        raise ValueError(f"{name} was not timed")
    yield (
        name,
        target,
        f"{ratio(mine.p50, floor.p50):.1f} × p50, {ratio(mine.cpu, floor.cpu):.1f} × CPU",
        f"{mine.p50:.2f} ms, {mine.cpu:.2f} CPU-ms; floor {floor.p50:.2f}, {floor.cpu:.2f}",
    )


def _quality(figure: Figure) -> Row:
    values = figure.values
    said = f"{values['agreement']:.3f}, never fewer than {values['fewest']:.0f}"
    asked = (
        f"cosine lost {values['cosine_lost']:.5f}; "
        f"the turn that was asked about is among them: {values['asked_found']:.2f}"
    )
    return "agreement with exact search", "1.00", said, asked


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="what to measure")
    parser.add_argument("--turns", type=int, default=10_000)
    given = parser.parse_args()
    print("| | to reach | reached | milliseconds |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(Path(folder), given.turns, set(given.groups or GROUPS)):
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
