"""Measure recall in a scope of 100,000 and of a million turns: exact, or by a sketch.

    python -m benchmarks.large_scope
    python -m benchmarks.large_scope --turns 100000 --questions 100

Each way runs in a process of its own, so that its memory can be measured. `whole` is exact search,
and what the sketch is compared with: how many of its five best episodes it returns. The turns are
made up (`large_scope_data.py`): topics with words and a direction each, and questions about them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.indexes.exact import ExactIndex
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.episode import Scope

from .large_scope_data import QuestionEmbedder, Topics, fill, questions

SCOPE = Scope(tenant="bench", agent="shared", user="everyone")
WAYS: dict[str, dict[str, int]] = {
    "whole": {"exact_rows": 10**9, "cache_bytes": 10**11},
    "sketch": {"exact_rows": 1_000},
}
_LIMIT = 5
_CHANGES = 3
"""Number of turns added and deleted between questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    way: str
    first: float
    """CPU seconds of the first recall, which loads the scope."""
    usual: float
    """Median CPU milliseconds of a later recall."""
    after_add: float
    """Median CPU milliseconds right after a turn was added."""
    after_delete: float
    """Median CPU milliseconds right after an episode was deleted."""
    memory: float
    """Peak memory in MB above that of the process before."""
    found: list[list[Any]]


def measure(path: Path, way: str, count: int) -> Measured:
    asked = questions(count)
    store_url = f"sqlite:///{path}"
    memory = EpisodicMemory.open(store_url, embedder=QuestionEmbedder(asked), background=False)
    index = ExactIndex(memory.runtime.store, **WAYS[way])
    object.__setattr__(memory.runtime, "index", index)
    scope = memory.scope(tenant=SCOPE.tenant, agent=SCOPE.agent, user=SCOPE.user)
    before = _memory()
    start = time.process_time()
    scope.recall(asked[0][0], limit=_LIMIT)
    first = time.process_time() - start
    found, times = [], []
    for text, _ in asked:
        start = time.process_time()
        snippets = scope.recall(text, limit=_LIMIT)
        times.append(time.process_time() - start)
        found.append([snippet.episode_id for snippet in snippets])
    memory_used = _memory() - before
    after_add, after_delete = [], []
    for text, _ in asked[:_CHANGES]:
        [turn] = scope.add("live", ("user", text))
        start = time.process_time()
        scope.recall(text, limit=_LIMIT)
        after_add.append(time.process_time() - start)
        scope.delete(turn.episode_id)
        start = time.process_time()
        scope.recall(text, limit=_LIMIT)
        after_delete.append(time.process_time() - start)
    memory.close()
    return Measured(
        way=way,
        first=first,
        usual=statistics.median(times) * 1e3,
        after_add=statistics.median(after_add) * 1e3,
        after_delete=statistics.median(after_delete) * 1e3,
        memory=memory_used,
        found=found,
    )


def _memory() -> float:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1024 * 1024 if sys.platform == "darwin" else 1024)


def agreement(found: list[list[Any]], exact: list[list[Any]]) -> float:
    pairs = list(zip(found, exact, strict=False))
    shared = sum(len(set(mine) & set(theirs)) for mine, theirs in pairs)
    return shared / sum(len(theirs) for _, theirs in pairs)


def report(turns: int, path: Path, count: int) -> None:
    apart = multiprocessing.get_context("spawn")
    exact: list[list[Any]] = []
    for way in WAYS:
        with apart.Pool(1) as pool:
            measured = pool.apply(measure, (path, way, count))
        exact = exact or measured.found
        print(
            f"| {turns:,} | {way} | {measured.first:.1f} | {measured.usual:.1f} "
            f"| {measured.after_add:.1f} | {measured.after_delete:.1f} | {measured.memory:.0f} "
            f"| {agreement(measured.found, exact):.3f} "
            f"| {min(len(some) for some in measured.found)} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--folder", type=Path, help="where databases are made, and found again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(
            "| turns | way | first, CPU s | then, CPU ms | after an add | after a deletion | MB "
            "| agree | least |"
        )
        print("|--:|---|--:|--:|--:|--:|--:|--:|--:|")
        for turns in given.turns:
            path = (given.folder or Path(folder)) / f"large-{turns}.db"
            if not path.exists():
                store = SqliteStore(path)
                fill(store, SCOPE, Topics(), turns)
                store.close()
            report(turns, path, given.questions)


if __name__ == "__main__":
    main()
