"""Measure the inspector's pages: a user with many episodes, a tenant with many users.

    python -m benchmarks.inspector                     10,000 episodes, 100,000 users
    python -m benchmarks.inspector --episodes 1000 --users 1000

Time of each page, from the request until the whole answer, without a network or a browser: the
first time, the median of the later ones, and their CPU time, which is valid on a busy machine, too.
Episodes have two messages each.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.testclient import TestClient

from octopus_memory import EpisodicMemory
from octopus_memory.faces.inspector.app import Inspector

MANY = {"agent": "hr", "user": "ana"}
START = datetime(2024, 1, 1, tzinfo=UTC)
REPEATS = 7
TOKEN = "benchmark"
TARGET = 0.5
DRY_RUN = "retention, dry run of all"
"""Not held to the target, because it reads every episode that is due, and runs when asked for."""
_WRITERS = 32


def fill(memory: EpisodicMemory, episodes: int, users: int) -> None:
    """Store one user with many episodes, and many users with a fact each."""
    scope = memory.scope(**MANY)

    def store(number: int) -> None:
        at = START + timedelta(hours=number / 2)
        said = f"Question {number} about leave, travel and the office in Hamburg."
        scope.store(
            [("user", said), ("assistant", f"Answer {number}.")],
            session_id=f"session-{number}",
            at=at,
            summary=f"Question {number} was answered.",
            key_facts=[f"asked question {number}"],
        )

    def know(number: int) -> None:
        memory.scope(agent="hr", user=f"user-{number * 2_654_435_761 % 2**32:08x}").add_fact("x")

    # Writers that wait together share a commit.
    with ThreadPoolExecutor(_WRITERS) as pool:
        for work, count in ((store, episodes), (know, users)):
            for _ in pool.map(work, range(count)):
                pass
    memory.run_pending()


def addresses(episodes: int) -> dict[str, str]:
    last = -(-episodes // 25)
    asked = MANY | {"message": "What did I ask about Hamburg?"}
    return {
        "users": "/",
        "search, found": "/?find=ANA",
        "search, nothing found": "/?find=nothing-like-it",
        "timeline, first page": f"/timeline?{urlencode(MANY)}",
        "timeline, last page": f"/timeline?{urlencode(MANY | {'page': last})}",
        "replay": f"/replay?{urlencode(MANY | {'session': f'session-{episodes - 1}'})}",
        "playground": f"/playground?{urlencode(asked)}",
        "facts": f"/facts?{urlencode(MANY)}",
        "retention": "/retention",
        DRY_RUN: "/retention?dry=on",
        "audit": "/audit",
        "health": "/health",
    }


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Measure the time and the CPU time of a call."""
    begun, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - begun, time.process_time() - used


def measure(memory: EpisodicMemory, episodes: int) -> Iterator[tuple[str, float, float, float]]:
    with TestClient(Starlette(routes=Inspector(memory, local_token=TOKEN).routes())) as client:
        client.get(f"/?token={TOKEN}")

        def get(address: str) -> None:
            answer = client.get(address)
            if answer.status_code != 200:
                sys.exit(f"{address} answered {answer.status_code}")

        for name, address in addresses(episodes).items():
            first, *later = (seconds(lambda: get(address)) for _ in range(REPEATS))  # noqa: B023 - called at once
            taken, used = (statistics.median(each) for each in zip(*later, strict=True))
            yield name, first[0], taken, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--url", help="an empty database; default: a temporary SQLite file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = given.url or Path(folder, "memory.db")
        with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
            fill(memory, given.episodes, given.users)
        with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
            print("| page | first, ms | later, ms | CPU-ms |\n|---|---|---|---|")
            slow = []
            for name, first, later, used in measure(memory, given.episodes):
                figures = " | ".join(f"{each * 1_000:.0f}" for each in (first, later, used))
                print(f"| {name} | {figures} |", flush=True)
                if used > TARGET and name != DRY_RUN:
                    slow.append(name)
    if slow:
        sys.exit(f"more than {TARGET} s of CPU time: {', '.join(slow)}")


if __name__ == "__main__":
    main()
