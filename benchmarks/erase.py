"""Measure an erasure, and how long it blocks another writer.

`python -m benchmarks.erase`: one user of 100 turns among 100,000, on SQLite. Logical is the
transaction that removes the rows; the rewrite is `VACUUM` and the checkpoint; the search counts
what is left. Times depend on the machine, so what counts is their ratio to a plain write of one
turn, measured beside them.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.episode import Scope
from octopus_memory.testing import make_append, make_closing, make_turn

TURNS, EACH, USERS = 100_000, 100, 1_000
TEXT = "I left number {0} of the seventeen reports on the table of the small kitchen. " * 8


def fill(store: SqliteStore) -> None:
    """Fill with turns of about half a kilobyte, episodes of twenty, users mixed."""
    for start in range(0, EACH, 20):
        for user in range(USERS):
            turns = [
                make_turn(TEXT.format(f"{user}-{start + place}"), role="user")
                for place in range(20)
            ]
            store.append(
                make_append(
                    scope_of(user),
                    *turns,
                    session_id=f"s{start}",
                    closing=make_closing(),
                )
            )


def scope_of(user: int) -> Scope:
    return Scope(tenant="default", agent="default", user=f"user {user}")


@dataclass
class Writer:
    """Writes all the time on its own connection, like another process."""

    path: Path
    waited: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        store = SqliteStore(self.path)
        number = 0
        while not self._stop.is_set():
            number += 1
            scope = Scope(tenant="default", agent="default", user="a writer")
            began = time.perf_counter()
            store.append(make_append(scope, "beside it", session_id=f"s{number}"))
            self.waited.append(time.perf_counter() - began)
            time.sleep(0.005)
        store.close()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.run)
        self._thread.start()
        time.sleep(0.5)
        return self

    def __exit__(self, *_: object) -> None:
        time.sleep(0.2)
        self._stop.set()
        self._thread.join()


def timed(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        store = SqliteStore(path)
        print(f"filling {TURNS:,} turns …", flush=True)
        fill(store)
        store.close()
        size = path.stat().st_size
        url = f"sqlite:///{path}"
        with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
            tenant = memory.tenant()
            memory.compact()
            plain = statistics.median(
                timed(lambda: memory.scope(user="x").add("s", ("user", "a word")))
                for _ in range(50)
            )
            users = [scope_of(number * 7).user for number in range(1, 12)]
            logical = statistics.median(_logical(memory, user) for user in users[:10])
            rewrite = timed(memory.runtime.store.compact)
            with Writer(path) as writer:
                whole = timed(lambda: tenant.erase_user(users[10]))
            quiet = statistics.median(writer.waited)
        print(
            f"\nSQLite {sqlite3.sqlite_version}, {size / 1e6:.0f} MB, one user of {EACH} turns:\n"
        )
        print("| step | ms | × one plain write |\n|---|---|---|")
        for name, seconds in (
            ("a plain write of one turn", plain),
            ("the transaction that removes the rows", logical),
            ("the rewrite of the files", rewrite),
            ("the whole call, with a concurrent writer", whole),
            ("the writer's longest wait", max(writer.waited)),
            ("the writer's median wait", quiet),
        ):
            print(f"| {name} | {seconds * 1e3:.1f} | {seconds / plain:.0f} |")


def _logical(memory: EpisodicMemory, user: str) -> float:
    """Measure the transaction alone, without the search after it."""
    store = memory.runtime.store
    began = time.perf_counter()
    spent: list[float] = []
    erase = store.erase

    def watched(*args: object) -> object:
        done = erase(*args)  # type: ignore[arg-type]
        spent.append(time.perf_counter() - began)
        return done

    store.erase = watched  # type: ignore[method-assign, assignment]
    try:
        memory.tenant().erase_user(user, physical=False)
    finally:
        del store.erase
    return spent[0]


if __name__ == "__main__":
    main()
