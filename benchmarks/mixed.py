"""Use one database from four threads and a second process. Count errors and lost turns."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TypeAlias

from .cold import ROOT
from .data import Data, number_of, spread
from .subjects import Subject, subject

THREADS = 4
USERS, EACH = 100, 20
"""Number of turns to load before."""
_FIRST = 10_000_000
"""First number of the new turns."""

Count: TypeAlias = Counter[str]
"""`calls`, `errors`, `refused` (adds that were not acknowledged), and the errors by their names."""


def loaded() -> Data:
    return Data(spread(USERS * EACH, USERS))


def mixed(
    name: str, python: Path, folder: Path, calls: int, *, most_seconds: float = 600
) -> dict[str, float]:
    """Run half adds and half reads in four threads here and one thread of another process.

    Fewer calls than asked for are made where `most_seconds` pass first.
    """
    data = loaded()
    each = calls // (THREADS + 1)
    opened = _open(name, folder, data)
    command = [str(python), "-m", "benchmarks.mixed", name, str(folder), str(each)]
    other = subprocess.Popen(
        [*command, str(most_seconds)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    counts = [Count() for _ in range(THREADS)]
    workers = [
        threading.Thread(target=_work, args=(opened, data, place, each, most_seconds, count))
        for place, count in enumerate(counts)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    said, _ = other.communicate()
    # A process that could not open the database failed in all of its calls.
    beside = Count(calls=each, errors=each, refused=0)
    counts.append(Count(json.loads(said)) if other.returncode == 0 else beside)
    # Some subjects show the writes of other processes only after a reopen.
    opened.close()
    opened = _open(name, folder, data)
    lost = sum(
        _missing(opened, place, count["calls"]) - count["refused"]
        for place, count in enumerate(counts)
        if place < THREADS or other.returncode == 0
    )
    opened.close()
    return {
        "calls": float(sum(count["calls"] for count in counts)),
        "errors": float(sum(count["errors"] for count in counts)),
        "lost": float(max(0, lost)),
    }


def _open(name: str, folder: Path, data: Data) -> Subject:
    if name == "octopus":
        from .subjects.octopus import Octopus

        return Octopus(folder, data, background=True)
    return subject(name)(folder, data)


def _work(
    opened: Subject, data: Data, worker: int, calls: int, most_seconds: float, count: Count
) -> None:
    draw = random.Random(worker)
    ends = time.monotonic() + most_seconds
    for number in range(calls):
        if time.monotonic() > ends:
            break
        count["calls"] += 1
        try:
            _call(opened, data, worker, number, draw)
        except Exception as error:  # noqa: BLE001 - any error counts
            count["errors"] += 1
            count["refused"] += number % 2 == 0
            count[type(error).__name__] += 1


def _call(opened: Subject, data: Data, worker: int, number: int, draw: random.Random) -> None:
    if number % 2 == 0:
        turns = data.block(_number(worker, number), 1)
        opened.add(_user(worker, number), f"w{worker}", turns)
    elif "recall" in opened.can and number % 4 == 1:
        opened.recall(data.query(draw.randrange(USERS), number), 5)
    else:
        opened.last(draw.randrange(USERS), "s0", 20)


def _missing(opened: Subject, worker: int, calls: int) -> int:
    """Return how many turns of a worker cannot be read."""
    wanted: dict[int, set[int]] = {}
    for number in range(0, calls, 2):
        wanted.setdefault(_user(worker, number), set()).add(_number(worker, number))
    return sum(
        len(numbers - {number_of(text) for text in opened.session(user, f"w{worker}")})
        for user, numbers in wanted.items()
    )


def _number(worker: int, number: int) -> int:
    return _FIRST * (worker + 1) + number


def _user(worker: int, number: int) -> int:
    return (worker * 7 + number // 20) % USERS


def main(name: str, folder: str, calls: str, most_seconds: str) -> None:
    count = Count()
    data = loaded()
    opened = _open(name, Path(folder), data)
    _work(opened, data, THREADS, int(calls), float(most_seconds), count)
    opened.close()
    print(json.dumps(count))


if __name__ == "__main__":
    main(*sys.argv[1:])
