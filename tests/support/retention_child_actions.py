"""Actions of child processes in the tests of retention."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sqlite3
import threading
import time
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NoReturn

from octopus_memory import EpisodicMemory, RetentionReport
from octopus_memory.adapters.stores.sqlite.url import FileIdentity
from octopus_memory.engine import retention
from octopus_memory.testing import FixedClock
from tests.support import sqlite_hooks

NOW = datetime(2025, 3, 14, tzinfo=UTC)
TALK = [("user", "I have three cats and live in Porto."), ("assistant", "Porto is lovely.")]


def open_memory(url: str) -> EpisodicMemory:
    return EpisodicMemory.open(url, embedder="hashing", clock=FixedClock(NOW), background=False)


def act(memory: EpisodicMemory, action: str) -> object:
    if action == "run":
        return memory.run_retention(compact=False)
    scope = memory.scope(agent="cold", user="u")
    return scope.restore(scope.session("cold").episodes[0].episode)


def be_killed_at_each(pipe: Connection, ready: str, folder: str, action: str) -> None:
    """Does it on a copy of a database again and again, killed one statement later each time.

    Sends where the database is then, and how the process ended. All are forked from one that has
    done it before and knows the statements, which takes a tenth of the time of a new one.
    """
    path = Path(shutil.copy(ready, f"{folder}/memory.db"))
    memory = open_memory(f"sqlite:///{path}")
    act(memory, action)
    # No connection may be used on both sides of a fork.
    memory.runtime.store.close()
    memory.runtime.store._connections._is_closed = False
    # Every copy is another file, which the store would take for one that was put in its place.
    memory.runtime.store._file = FileIdentity(path)
    for statement in itertools.count(1):
        shutil.copy(ready, path)
        pid = os.fork()
        if pid == 0:
            _be_killed_at(memory, action, statement)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        for end in ("", "-wal", "-shm"):
            if Path(f"{path}{end}").exists():
                shutil.move(f"{path}{end}", f"{folder}/{statement}.db{end}")
        pipe.send((f"{folder}/{statement}.db", code))
        if code != -signal.SIGKILL:
            return


def _be_killed_at(memory: EpisodicMemory, action: str, statement: int) -> NoReturn:
    """Kill this process before that statement of a write, or before its commit."""
    count = itertools.count(1)

    def strike() -> None:
        if next(count) == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    sqlite3.connect = sqlite_hooks.connect(sqlite_hooks.Hooks(statement=strike))
    memory._process = os.getpid()
    code = 1
    try:
        act(memory, action)
        memory.close()
        code = 0
    finally:
        os._exit(code)


def run_at_once(pipe: Connection, url: str, barrier: Barrier, batch: int) -> None:
    """Run retention slowly, so that two runners overlap, and send the report."""
    retention._BATCH = batch

    def slowly(_: RetentionReport) -> None:
        time.sleep(0.02)

    with open_memory(url) as memory:
        barrier.wait()
        pipe.send(memory.run_retention(progress=slowly, compact=False))


def run_and_hang(pipe: Connection, url: str) -> None:
    """Report that it leads, and hang."""
    retention._BATCH = 1

    def hang(report: RetentionReport) -> None:
        if report.counts.archived:
            pipe.send(report.counts.archived)
            time.sleep(600)

    with open_memory(url) as memory:
        memory.run_retention(progress=hang, compact=False)


def write_meanwhile(pipe: Connection, url: str, threads: int, rounds: int) -> None:
    """Write during a run; send the errors and the acknowledged messages of each user."""
    errors: list[Any] = []

    def talk(memory: EpisodicMemory, user: str) -> None:
        try:
            scope = memory.scope(agent="busy", user=user)
            for number in range(rounds):
                scope.add("s", ("user", f"what {user} said as number {number}"))
                assert scope.recall_turns(f"number {number}", limit=1)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent shows it
            errors.append(repr(error))

    with open_memory(url) as memory:
        pipe.send("begin")
        writers = [
            threading.Thread(target=talk, args=(memory, f"w{number}")) for number in range(threads)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    pipe.send(errors)
