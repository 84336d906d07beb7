"""The jobs. A subject and the floor take turns in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .data import SESSION, Data, Query, Turn, number_of
from .measure import Timing, agreement, beside
from .subjects import Subject
from .subjects.floor import Floor

K = 5
LONG_SESSION = 200
"""Turns of the session whose last 20 are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """The result of one job."""

    job: str
    turns: int
    """Turns in the database."""
    scope: int = 0
    """Turns of the user."""
    subject: Timing | None = None
    floor: Timing | None = None
    values: dict[str, float] = field(default_factory=dict)


@dataclass(kw_only=True)
class Pair:
    """A subject and the floor with the same data."""

    subject: Subject
    floor: Floor
    data: Data
    news: int = 0
    """Number of turns added after the load."""

    def fill(self) -> Figure:
        """Load both, and measure the load of the subject."""
        self.data.text(0)
        wall, cpu = time.perf_counter(), time.process_time()
        self.subject.load(self.data)
        spent, busy = time.perf_counter() - wall, time.process_time() - cpu
        self.floor.load(self.data)
        return Figure(
            job="load",
            turns=self.data.turns,
            values={"seconds": spent, "cpu_ms_a_turn": busy / self.data.turns * 1e3},
        )

    def news_of(self, count: int) -> list[Turn]:
        """Return turns that are not stored yet."""
        start = self.data.turns + self.news
        self.news += count
        return self.data.block(start, count)

    def close(self) -> None:
        self.subject.close()
        self.floor.close()


def recall(
    pair: Pair, users: Sequence[int], times: int, *, job: str = "recall", most_seconds: float = 60
) -> Figure:
    """Measure the top 5 of one user after another with warm caches. No query is repeated."""
    queries = _queries(pair.data, users, times)
    for query in queries[: len(users)]:
        pair.subject.recall(query, K)
        pair.floor.recall(query, K)
    return _figure(
        pair,
        job,
        lambda number: pair.subject.recall(queries[number], K),
        lambda number: pair.floor.recall(queries[number], K),
        times,
        scope=pair.data.turns_of[users[0]],
        most_seconds=most_seconds,
    )


def cold_scopes(pair: Pair, users: Sequence[int], *, most_seconds: float = 60) -> Figure:
    """Measure the first recall of each user after opening the database."""
    queries = _queries(pair.data, users, len(users))
    return _figure(
        pair,
        "recall, user not in memory",
        lambda number: pair.subject.recall(queries[number], K),
        lambda number: pair.floor.recall(queries[number], K),
        len(users) - 1,
        scope=pair.data.turns_of[users[0]],
        most_seconds=most_seconds,
    )


def quality(pair: Pair, users: Sequence[int], times: int, *, most_seconds: float = 60) -> Figure:
    """Measure the overlap with the exact top 5, and whether recall returns fewer than 5."""
    queries = _queries(pair.data, users, times)
    exact, near, found = [], [], []
    ends = time.monotonic() + most_seconds
    for query in queries:
        exact.append(pair.data.exact(query, K))
        near.append([number_of(text) for text in pair.subject.nearest(query, K)])
        found.append([number_of(text) for text in pair.subject.recall(query, K)])
        if time.monotonic() > ends:
            break
    queries = queries[: len(found)]
    own = [
        all(_is_of(pair.data, query, number) for number in numbers)
        for query, numbers in zip(queries, found, strict=True)
    ]
    return Figure(
        job="agreement with exact search",
        turns=pair.data.turns,
        values={
            "agreement": agreement(near, exact),
            "cosine_lost": _lost(pair.data, queries, near, exact),
            "fewest": float(min(len(numbers) for numbers in found)),
            "asked_found": sum(q.about in n for q, n in zip(queries, found, strict=True))
            / len(queries),
            "others": float(own.count(False)),
        },
    )


def ingest(pair: Pair, each: int, calls: int, *, vectors: bool, most_seconds: float = 30) -> Figure:
    """Measure adds of some turns per call, a new session every 20 turns, one user after another.

    Without `vectors` the floor stores the text alone, as a subject does that embeds later.
    """
    made = [pair.news_of(each) for _ in range(calls + 1)]
    add = pair.floor.add if vectors else pair.floor.add_text
    figure = _figure(
        pair,
        f"add, {each:,} a call",
        lambda number: pair.subject.add(*_where(pair, each, number), made[number]),
        lambda number: add(*_where(pair, each, number), made[number]),
        calls,
        most_seconds=most_seconds,
    )
    began = time.process_time()
    pair.subject.settle()
    settled = (time.process_time() - began) / (figure.subject.calls * each) if figure.subject else 0
    figure.values.update(each=float(each), settle_cpu_ms_a_turn=settled * 1e3)
    return figure


def sessions(pair: Pair, times: int, *, most_seconds: float = 60) -> Figure:
    """Measure the read of a whole session of 20 turns."""
    data = pair.data
    users = [user for user in range(data.users) if data.turns_of[user] >= SESSION]
    return _figure(
        pair,
        "a session of 20",
        lambda number: _all_of(pair.subject.session(users[number % len(users)], "s0"), SESSION),
        lambda number: _all_of(pair.floor.session(users[number % len(users)], "s0"), SESSION),
        times,
        scope=data.turns_of[users[0]],
        most_seconds=most_seconds,
    )


def last_turns(pair: Pair, times: int, *, most_seconds: float = 60) -> Figure:
    """Measure the read of the last 20 turns of a session of 200."""
    for _ in range(LONG_SESSION // SESSION):
        turns = pair.news_of(SESSION)
        pair.subject.add(0, "long", turns)
        pair.floor.add(0, "long", turns)
    pair.subject.settle()
    return _figure(
        pair,
        "last 20 of a session of 200",
        lambda _: _all_of(pair.subject.last(0, "long", SESSION), SESSION),
        lambda _: _all_of(pair.floor.last(0, "long", SESSION), SESSION),
        times,
        most_seconds=most_seconds,
    )


def erasure(pair: Pair, user: int) -> Figure:
    """Erase a user, then search every file for one of their turns."""
    (turn,) = pair.news_of(1)
    marked = Turn(
        number=turn.number,
        role="user",
        text=f"{turn.text} and then they said quixotrophe",
        vector=turn.vector,
    )
    values: dict[str, float] = {}
    for prefix, subject in (("", pair.subject), ("floor_", pair.floor)):
        subject.add(user, "marked", [marked])
        subject.settle()
        marks = subject.marks(marked)
        for name, mark in marks.items():
            # The search proves nothing if the mark was not in the files before.
            values[f"{prefix}{name}_before"] = float(_occurs(subject.folder, mark))
        began = time.perf_counter()
        subject.erase(user)
        values[f"{prefix}seconds"] = time.perf_counter() - began
        for name, mark in marks.items():
            values[f"{prefix}{name}_left"] = float(_occurs(subject.folder, mark))
    return Figure(
        job="erase a user",
        turns=pair.data.turns,
        scope=pair.data.turns_of[user],
        values=values,
    )


def size(folder: Path) -> int:
    """Return the bytes of all files under a folder."""
    return sum(
        path.lstat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


def _figure(
    pair: Pair,
    job: str,
    subject: Callable[[int], object],
    floor: Callable[[int], object],
    times: int,
    *,
    scope: int = 0,
    most_seconds: float = 60,
) -> Figure:
    # With one block for all calls, the two would not take turns.
    block = max(1, min(10, times // 20))
    taken = beside(
        {"subject": subject, "floor": floor}, times, block=block, most_seconds=most_seconds
    )
    return Figure(
        job=job,
        turns=pair.data.turns,
        scope=scope,
        subject=taken["subject"],
        floor=taken["floor"],
    )


def _queries(data: Data, users: Sequence[int], times: int) -> list[Query]:
    return [data.query(users[number % len(users)], number) for number in range(times + 1)]


def _where(pair: Pair, each: int, number: int) -> tuple[int, str]:
    """Return user and session of a call. A session has 20 turns, or those of one call if more."""
    place = number * each // max(SESSION, each)
    return place % pair.data.users, f"live-{each}-{place}"


def _lost(
    data: Data, queries: Sequence[Query], near: list[list[int]], exact: list[list[int]]
) -> float:
    """Return the mean loss of cosine to the question, compared with the nearest turns."""

    def mean(query: Query, numbers: list[int]) -> float:
        return float((data.vectors(np.array(numbers)) @ query.vector).mean())

    return sum(
        mean(query, best) - mean(query, came)
        for query, best, came in zip(queries, exact, near, strict=True)
    ) / len(queries)


def _all_of(texts: list[str], count: int) -> list[str]:
    if len(texts) != count:
        raise AssertionError(f"got {len(texts)} turns instead of {count}")
    return texts


def _is_of(data: Data, query: Query, number: int) -> bool:
    return data.first[query.user] <= number < data.first[query.user + 1] or number >= data.turns


def _occurs(folder: Path, mark: bytes) -> int:
    return sum(path.read_bytes().count(mark) for path in folder.rglob("*") if path.is_file())
