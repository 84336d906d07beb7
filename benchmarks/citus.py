"""Compare a database on Citus with one PostgreSQL, call by call in turns.

    python -m benchmarks.citus --single URL --citus URL

Each is an empty database of its owner, the second on a coordinator whose nodes are known. It is
distributed first. Every call is made on one and then on the other, so that the ratios hold on a
busy machine, too; the times do not.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from statistics import median

from octopus_memory import EpisodicMemory
from octopus_memory.wiring import distribute

from .year_life import SeededEmbedder

_FLUSHED = 12
"""Users of one batch."""
_TALK = [
    (role, f"What was said of the ferry, {number}.")
    for number in range(10)
    for role in ("user", "assistant")
]


def opened(url: str) -> EpisodicMemory:
    return EpisodicMemory.open(url, embedder=SeededEmbedder(), background=False)


def calls(memory: EpisodicMemory, user: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """The calls about one user, in the order in which they are made."""
    scope = memory.scope(user=f"user-{user}")
    yield (
        "store a session of 20 turns",
        lambda: scope.store(_TALK, session_id="s", summary="Ferries."),
    )
    yield "add, to a new session", lambda: scope.add("now", ("user", "One more thing."))
    yield "add, to an open session", lambda: scope.add("now", ("user", "And another."))
    yield "recall, first of a user", lambda: scope.recall("the ferry to Naxos")
    yield "recall, next ones", lambda: scope.recall("the ferry to Naxos")
    yield "a session of 20 turns", lambda: scope.session("s")


def flushed(memory: EpisodicMemory, batch: int) -> Callable[[], object]:
    for user in range(_FLUSHED):
        memory.scope(user=f"flushed-{user}").add(f"s{batch}", ("user", f"The ferry of {batch}."))
    return memory.flush


def compare(
    single: EpisodicMemory, citus: EpisodicMemory, users: int
) -> dict[str, list[list[float]]]:
    """The seconds of each call, on one and on the other."""
    found: dict[str, list[list[float]]] = {}

    def timed(name: str, side: int, call: Callable[[], object]) -> None:
        start = time.perf_counter()
        call()
        found.setdefault(name, [[], []])[side].append(time.perf_counter() - start)

    for user in range(users):
        for one, other in zip(calls(single, user), calls(citus, user), strict=True):
            for side, (name, call) in enumerate((one, other)):
                timed(name, side, call)
    for memory in (single, citus):
        memory.flush()
    for batch in range(users // _FLUSHED):
        for side, memory in enumerate((single, citus)):
            timed(f"flush of {_FLUSHED} users", side, flushed(memory, batch))
    return found


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m benchmarks.citus", description=__doc__)
    asked.formatter_class = argparse.RawDescriptionHelpFormatter
    asked.add_argument(
        "--single", required=True, metavar="URL", help="an empty PostgreSQL database"
    )
    asked.add_argument("--citus", required=True, metavar="URL", help="an empty database on Citus")
    asked.add_argument("--users", type=int, default=120)
    options = asked.parse_args()
    distribute(options.citus)
    with opened(options.single) as single, opened(options.citus) as citus:
        found = compare(single, citus, options.users)
    print("| median wall time | one PostgreSQL, ms | Citus, ms | ratio |\n|---|--:|--:|--:|")
    for name, sides in found.items():
        one, other = (median(side) * 1e3 for side in sides)
        print(f"| {name} | {one:.1f} | {other:.1f} | {other / one:.1f} |")


if __name__ == "__main__":
    main()
