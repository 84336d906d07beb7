"""Octopus beside a hand-written floor, in one run on the same data.

    python -m benchmarks.speed

The floor is the least code that does the job: one SQLite table in WAL mode with the same
durability, and a numpy dot product over the user's own vectors. Ratios travel between machines,
milliseconds do not.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from octopus_memory import EpisodicMemory, MemoryScope
from octopus_memory.adapters.embedders.hashing import HashingEmbedder

USERS, SESSIONS, TURNS = 20, 5, 20
TEXT = (
    "We talked about topic {topic} on day {day}: the budget was {amount} and Anna agreed to it. "
    * 4
)


def text(user: int, session: int, turn: int) -> str:
    return TEXT.format(topic=session, day=turn, amount=user * 100 + turn)


def timed(do: Callable[[], object], times: int) -> tuple[float, float]:
    """Median wall milliseconds, and CPU milliseconds, of one call."""
    walls = []
    cpu = time.process_time()
    for _ in range(times):
        start = time.perf_counter()
        do()
        walls.append(time.perf_counter() - start)
    return statistics.median(walls) * 1e3, (time.process_time() - cpu) / times * 1e3


class Floor:
    """A table, and the vectors of one user."""

    def __init__(self, path: Path, embedder: HashingEmbedder) -> None:
        self._conn = sqlite3.connect(path, isolation_level=None)
        self._conn.execute("PRAGMA journal_mode=WAL")
        self._conn.execute("PRAGMA synchronous=FULL")
        self._conn.execute("CREATE TABLE turns (id INTEGER PRIMARY KEY, session TEXT, body TEXT)")
        self._conn.execute("CREATE INDEX by_session ON turns (session, id)")
        self._embedder = embedder
        self._rows: list[np.ndarray] = []

    def add(self, session: str, body: str) -> None:
        message = json.dumps({"role": "user", "content": body})
        self._conn.execute("INSERT INTO turns (session, body) VALUES (?, ?)", (session, message))

    def load(self, texts: list[str]) -> None:
        self._vectors = self._embedder.embed(texts)

    def recall(self, vector: np.ndarray) -> list[str]:
        best = np.argsort(-(self._vectors @ vector))[:5]
        marks = ",".join("?" * len(best))
        found = self._conn.execute(
            f"SELECT body FROM turns WHERE id IN ({marks})", [int(row) + 1 for row in best]
        )
        return [json.loads(body)["content"] for (body,) in found]

    def session(self, session: str) -> list[dict]:
        found = self._conn.execute("SELECT body FROM turns WHERE session=? ORDER BY id", (session,))
        return [json.loads(body) for (body,) in found]

    def close(self) -> None:
        self._conn.close()


def fill(memory: EpisodicMemory) -> MemoryScope:
    for user in range(USERS):
        scope = memory.scope(user=f"user-{user}")
        for session in range(SESSIONS):
            turns = [
                ("user" if turn % 2 == 0 else "assistant", text(user, session, turn))
                for turn in range(TURNS)
            ]
            scope.store(turns, session_id=f"s-{session}")
    memory.flush()
    return memory.scope(user="user-0")


def rows(memory: EpisodicMemory, floor: Floor, embedder: HashingEmbedder) -> list[tuple]:
    scope = fill(memory)
    texts = [text(0, session, turn) for session in range(SESSIONS) for turn in range(TURNS)]
    for place, body in enumerate(texts):
        floor.add(f"s-{place // TURNS}", body)
    floor.load(texts)
    query = "what was the budget on day 7"
    vector = embedder.embed([query])[0]
    scope.recall(query)
    return [
        (
            "recall top 5, 100 turns of 2,000",
            timed(lambda: scope.recall_turns(query, limit=5), 300),
            timed(lambda: floor.recall(vector), 300),
        ),
        (
            "one durable add",
            timed(lambda: scope.add("live", ("user", texts[3])), 300),
            timed(lambda: floor.add("live", texts[3]), 300),
        ),
        (
            "a session of 20 turns",
            timed(lambda: scope.session("s-1"), 300),
            timed(lambda: floor.session("s-1"), 300),
        ),
    ]


def main() -> None:
    embedder = HashingEmbedder()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/memory.db"
        floor = Floor(Path(folder) / "floor.db", embedder)
        with EpisodicMemory.open(url, embedder=embedder, background=False) as memory:
            measured = rows(memory, floor, embedder)
        floor.close()
    print("| | Octopus p50 ms | CPU ms | floor p50 ms | CPU ms | CPU ratio |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, (wall, cpu), (floor_wall, floor_cpu) in measured:
        print(
            f"| {name} | {wall:.2f} | {cpu:.2f} | {floor_wall:.2f} | {floor_cpu:.2f} "
            f"| {cpu / floor_cpu:.1f} × |"
        )


if __name__ == "__main__":
    main()
