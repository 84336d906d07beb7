"""Measure calls on PostgreSQL while the rows of other users grow in number.

    python -m benchmarks.scale --sizes 100000 1000000 10000000

One user of 500 turns is stored by the public calls and copied, inside the database, to as many
other users as are asked for, session by session, so that the rows of a user do not lie together.
Then the same calls are made for users picked at random: an add, a recall that has to load the user
first, the next ones, a session; and retention's own steps. Each figure is CPU-milliseconds of one
call, of this process and of the server; they should not grow from column to column.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.year_databases import Database, Sizes, opened
from benchmarks.year_life import TURNS_A_SESSION, Life, SeededEmbedder
from octopus_memory import EpisodicMemory, MemoryScope
from octopus_memory.domain.retention import Stage
from octopus_memory.testing import FixedClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SESSIONS = 25
EACH = SESSIONS * TURNS_A_SESSION
CALLS = 100
RESULTS = Path(__file__).parent / "results" / "scale"


def store_model(memory: EpisodicMemory, clock: FixedClock) -> None:
    """Store the user that all others are copies of: a session every three days."""
    life, scope = Life(turns_a_day=1_000, words=60), memory.scope(user="user-0")
    for number in range(SESSIONS):
        clock.set(NOW - timedelta(days=3 * (SESSIONS - number)))
        talk = life.talk(str(number))
        scope.store(talk, session_id=f"s-{number}", summary=talk[1][1])
    clock.set(NOW)
    memory.flush()


def copy(url: str, first: int, last: int) -> None:
    """Copy the user to `first` to `last`, in the order of time of their sessions."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as conn:
        span = {"first": first, "last": last}
        conn.execute(_SCOPES, span)
        for number in range(SESSIONS):
            conn.execute("DROP TABLE IF EXISTS copied")
            conn.execute(_EPISODES_TO_COPY, span | {"session": f"s-{number}"})
            for table in ("conversations", "episodes", "turns", "recall"):
                conn.execute(_copying(conn, table))
        conn.execute("VACUUM ANALYZE")


_SCOPES = """
    INSERT INTO octopus_scopes (id, tenant, agent, "user", version, epoch, next_seq)
    SELECT 1000000 + k, tenant, agent, 'user-' || k, version, epoch, next_seq
    FROM octopus_scopes, generate_series(%(first)s::bigint, %(last)s::bigint) k
    WHERE "user" = 'user-0'
"""
_EPISODES_TO_COPY = """
    CREATE TEMPORARY TABLE copied AS
    SELECT 1000000 + k AS scope_id, e.id AS was, uuidv7() AS id, e.session_id
    FROM octopus_episodes e JOIN octopus_scopes s ON s.id = e.scope_id AND s."user" = 'user-0',
        generate_series(%(first)s::bigint, %(last)s::bigint) k
    WHERE e.session_id = %(session)s ORDER BY k
"""


def _copying(conn: Any, table: str) -> str:
    """Copy every column except the owner and the key of the table."""
    found = conn.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s",
        [f"octopus_{table}"],
    )
    names = [name for (name,) in found if name != "row"]
    own_id = "c.id" if table == "episodes" else "uuidv7()"
    changed = {"scope_id": "c.scope_id", "id": own_id, "episode_id": "c.id"}
    values = ", ".join(changed.get(name, f't."{name}"') for name in names)
    same = {
        "conversations": "t.session_id = c.session_id AND t.scope_id = (SELECT min(scope_id) "
        "FROM octopus_conversations)",
        "episodes": "t.id = c.was",
    }.get(table, "t.episode_id = c.was")
    listed = ", ".join(f'"{name}"' for name in names)
    return (
        f"INSERT INTO octopus_{table} ({listed}) "
        f"SELECT {values} FROM copied c JOIN octopus_{table} t ON {same}"
    )


class Probe:
    """Make the same calls for users picked at random, each user once."""

    def __init__(self, database: Database, clock: FixedClock, users: range) -> None:
        self._database = database
        self._clock = clock
        self._users = random.Random(len(users)).sample(users, min(len(users), CALLS))

    def all(self) -> dict[str, tuple[float, float, float]]:
        with EpisodicMemory.open(
            self._database.url, embedder=SeededEmbedder(), clock=self._clock, background=False
        ) as memory:
            scopes = [memory.scope(user=f"user-{number}") for number in self._users]
            memory.scope(user="user-0").recall("to open what is opened once")
            return dict(self._calls(memory, scopes))

    def _calls(
        self, memory: EpisodicMemory, scopes: list[MemoryScope]
    ) -> Iterator[tuple[str, tuple[float, float, float]]]:
        query = "what was said of it before"
        yield "recall, first of a user", self._each(scopes, lambda s: s.recall(query))
        yield "recall, next ones", self._each(scopes, lambda s: s.recall(query))
        yield "a session of 20 turns", self._each(scopes, lambda s: s.session("s-7"))
        yield "add", self._each(scopes, lambda s: s.add("now", ("user", "one more thing")))
        yield (
            "store 20 turns",
            self._each(scopes, lambda s: s.store([("user", "a word")] * 20, summary="words")),
        )
        store, due = memory.runtime.store, NOW - timedelta(days=70)
        oldest = [s.session("s-0").episodes[0].episode for s in scopes]
        pages = [None] * 10
        yield (
            "100 episodes that are due",
            self._each(pages, lambda _: store.aged(Stage.ACTIVE, before=due, limit=100)),
        )
        yield "archive one", self._each(oldest, lambda e: store.archive(e.scope, e.id))
        yield "delete one", self._each(oldest, lambda e: store.delete(e.scope, e.id, at=NOW))
        yield "purge one", self._each(oldest, lambda e: store.purge(e.scope, e.id))

    def _each(self, subjects: list[Any], do: Callable[[Any], object]) -> tuple[float, ...]:
        """Return CPU milliseconds of one call here and in the server, and the median wall time."""
        walls = []
        server, cpu = self._database.server_cpu(), time.process_time()
        for subject in subjects:
            wall = time.perf_counter()
            do(subject)
            walls.append(time.perf_counter() - wall)
        here = (time.process_time() - cpu) / len(subjects)
        there = (self._database.server_cpu() - server) / len(subjects)
        return here * 1e3, there * 1e3, sorted(walls)[len(walls) // 2] * 1e3


def table(found: dict[int, dict[str, tuple[float, ...]]], sizes: dict[int, Sizes]) -> str:
    """Return CPU milliseconds, here + in the server."""
    lines = [
        "| | " + " | ".join(f"{turns:,} turns" for turns in found) + " |",
        "|---" * (len(found) + 1) + "|",
    ]
    for name in next(iter(found.values())):
        cells = [f"{calls[name][0]:.1f} + {calls[name][1]:.1f}" for calls in found.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    bytes_each = [f"{size.file / turns:,.0f}" for turns, size in sizes.items()]
    lines.append(f"| bytes a turn, indexes with it | {' | '.join(bytes_each)} |")
    return "\n".join(lines)


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    asked.formatter_class = argparse.RawDescriptionHelpFormatter
    asked.add_argument(
        "--url", help="URL of an empty PostgreSQL 18 database, with the role that owns it"
    )
    asked.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    asked.add_argument("--out", type=Path, default=RESULTS)
    given = asked.parse_args()
    clock = FixedClock(NOW)
    found: dict[int, Any] = {}
    sizes: dict[int, Sizes] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        opened("postgresql", Path(folder), given.url) as database,
    ):
        with EpisodicMemory.open(
            database.url, embedder=SeededEmbedder(), clock=clock, background=False
        ) as memory:
            store_model(memory, clock)
        users = 0
        for turns in given.sizes:
            new = range(users + 1, turns // EACH + 1)
            copy(database.url, new.start, new[-1])
            users = new[-1]
            sizes[turns] = database.sizes()
            found[turns] = Probe(database, clock, new).all()
            print(table(found, sizes), "\n", flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "scale.md").write_text(table(found, sizes) + "\n")
    (given.out / "scale.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
