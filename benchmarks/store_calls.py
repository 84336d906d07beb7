"""Measure the CPU time of single calls of a store, which are mostly the cost of statements.

    python -m benchmarks.store_calls                       on a new SQLite file
    python -m benchmarks.store_calls postgresql://…        on an empty PostgreSQL database

Compare two versions by running it in two checkouts, in alternation. CPU time is valid on a busy
machine, too. It is this process's alone, without the server's.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from octopus_memory import EpisodicMemory

ROUNDS = 5
CALLS = 50
EPISODES = 30


def calls_of(memory: EpisodicMemory) -> dict[str, Callable[[], object]]:
    scope, store = memory.scope(user="ana"), memory.runtime.store
    for number in range(EPISODES):
        scope.store([("user", f"Which ferry number {number}?"), ("assistant", "The 07:15.")])
    scope.add("now", ("user", "Thank you."))
    memory.flush()
    here, numbers = scope.scope, count()
    [episode], _ = store.list_episodes(here, offset=1, limit=1)
    return {
        "recall_state": lambda: store.recall_state(here),
        "session": lambda: store.session(here, "now"),
        "turns": lambda: store.turns(here, episode.id),
        "backlog": store.backlog,
        "add": lambda: scope.add("now", ("user", "Thank you.")),
        "find_key": lambda: store.find_key("none"),
        "holds": lambda: store.holds(here.tenant),
        "tenants": lambda: store.tenants(limit=10),
        "people": lambda: store.people(here.tenant, limit=10),
        "episode_page": lambda: store.episode_page(here, episode.id, limit=50),
        "stored_episode": lambda: store.stored_episode(here, episode.id),
        "stats": store.stats,
        "put_config": lambda: store.put_config(here.tenant, "hr", {"number": next(numbers)}),
        "add_fact": lambda: scope.add_fact(f"Takes ferry number {next(numbers)}."),
    }


def cpu_micros(call: Callable[[], object]) -> float:
    """The best of a few rounds, because others use the machine too."""
    call()
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(CALLS):
            call()
        taken.append((time.process_time() - began) / CALLS)
    return min(taken) * 1e6


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = sys.argv[1] if len(sys.argv) > 1 else f"sqlite:///{Path(folder, 'memory.db')}"
        print("| call | CPU µs |\n|---|--:|")
        with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
            for name, call in calls_of(memory).items():
                print(f"| `{name}` | {cpu_micros(call):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
