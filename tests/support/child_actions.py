"""Actions of child processes in the acceptance tests. Each reports to its parent by a pipe."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from octopus_memory import EpisodicMemory, OctopusError
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from tests.support import sqlite_hooks


def add_one_by_one(pipe: Connection, url: str, count: int) -> None:
    with EpisodicMemory.open(url, embedder="hashing") as memory:
        scope = memory.scope(user="u")
        for place in range(count):
            [turn] = scope.add("s", ("user", f"what I said as number {place}"))
            pipe.send(turn.id)


def store_again_and_again(pipe: Connection, url: str, size: int) -> None:
    with EpisodicMemory.open(url, embedder="hashing") as memory:
        scope = memory.scope(user="u")
        pipe.send("begin")
        while True:
            said = [("user", f"what I said as number {place}") for place in range(size)]
            pipe.send(scope.store(said).id)


def open_and_add(pipe: Connection, url: str, barrier: Barrier) -> None:
    barrier.wait()
    pipe.send("opening")
    try:
        with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
            pipe.send(memory.scope(user="u").add("s", ("user", "the first of all words"))[0].id)
    except Exception:  # noqa: BLE001 - whatever it is, the parent shows it
        pipe.send(traceback.format_exc())


TALK = [("user", f"I have {number} cats and live in Porto.") for number in range(3)]
ACTIONS: dict[str, Callable[[EpisodicMemory], object]] = {
    "add": lambda memory: memory.scope(user="u").add("s", TALK, idempotency_key="k"),
    "close": lambda memory: memory.scope(user="u").close_session("s"),
    "embed": lambda memory: memory.run_pending(),
    "store": lambda memory: memory.scope(user="u").store(TALK, session_id="whole"),
    "open": lambda memory: memory.scope(user="u").add("s", ("user", "the first of all words")),
}


def act(action: str, url: str, begin: Callable[[], None]) -> None:
    if action == "open":
        begin()
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        if action != "open":
            begin()
        ACTIONS[action](memory)


def be_killed_at_each(
    pipe: Connection,
    do: Callable[[str, Callable[[], None]], object],
    ready: str | None,
    folder: str,
    step: int = 1,
) -> None:
    """Run `do` on copies of a database, or on new ones, killed `step` moments later each time.

    `do` says when they begin. Sends where the database is then, and how the process ended. All are
    forked from one that has done it before and knows the statements: a new one takes long to start.
    """

    def url(path: Path) -> str:
        path.parent.mkdir()
        if ready is not None:
            shutil.copy(ready, path)
        return f"sqlite:///{path}"

    do(url(Path(folder, "whole", "memory.db")), lambda: None)
    for moment in itertools.count(1, step):
        path = Path(folder, str(moment), "memory.db")
        where = url(path)
        pid = os.fork()
        if pid == 0:
            _be_killed_at(do, where, moment)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        pipe.send((path, code))
        if code != -signal.SIGKILL:
            return


def _be_killed_at(
    do: Callable[[str, Callable[[], None]], object], url: str, moment: int
) -> NoReturn:
    """Kill this process before that statement, commit or step of a rewrite."""
    count = itertools.count(1)

    def strike(*_: object) -> None:
        if next(count) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def begin() -> None:
        hooks.statement = hooks.rewriting = strike

    hooks = sqlite_hooks.Hooks()
    sqlite3.connect = sqlite_hooks.connect(hooks)
    code = 1
    try:
        do(url, begin)
        code = 0
    finally:
        os._exit(code)


class Stuck(HashingEmbedder):
    """An embedder that reports each call to the pipe and never answers."""

    def __init__(self, pipe: Connection) -> None:
        super().__init__()
        self._pipe = pipe

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._pipe.send(len(texts))
        time.sleep(600)
        raise AssertionError


def stay_in_the_embedder(pipe: Connection, url: str) -> None:
    with EpisodicMemory.open(url, embedder=Stuck(pipe)) as memory:
        scope = memory.scope(user="u")
        scope.store([("user", f"what I said as number {place}") for place in range(10)])
        memory.flush()


def hold_the_write_lock(pipe: Connection, path: str) -> None:
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("BEGIN IMMEDIATE")
    pipe.send("holding")
    time.sleep(600)


class Counting(HashingEmbedder):
    """An embedder that records every text that is no query."""

    def __init__(self) -> None:
        super().__init__()
        self.passages: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.passages += [text for text in texts if not text.startswith("asking")]
        return super().embed(texts)


def use_it_from_threads(
    pipe: Connection, url: str, name: str, threads: int, rounds: int, barrier: Barrier
) -> None:
    """Send the errors, the acknowledged (session, text, turn id), and the embedded texts."""
    errors: list[str] = []
    stored: list[tuple[str, str, str]] = []
    embedder = Counting()

    def work(memory: EpisodicMemory, who: str) -> None:
        try:
            _work(memory, who, rounds, stored)
        except Exception:  # noqa: BLE001 - whatever it is, the parent shows it
            errors.append(traceback.format_exc())

    barrier.wait()
    with EpisodicMemory.open(url, embedder=embedder) as memory:
        workers = [
            threading.Thread(target=work, args=(memory, f"{name}.{number}"))
            for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    pipe.send((errors, stored, embedder.passages))


def _work(
    memory: EpisodicMemory, who: str, rounds: int, stored: list[tuple[str, str, str]]
) -> None:
    everybody = memory.scope(user="everybody")
    own = memory.scope(user=who)
    for number in range(rounds):
        text = f"{who} says word{number} for the record"
        for scope, session in ((everybody, "shared"), (own, who)):
            [turn] = scope.add(session, ("user", text))
            stored.append((session, text, str(turn.id)))
        assert own.recall_turns(f"asking about word{number}")
        everybody.recall(f"asking about {who}", limit=2)
        if number % 5 == 4:
            own.close_session(who)
            everybody.close_session("shared")


def fill_the_disk(pipe: Connection, url: str, spare: int) -> None:
    """Add until no file may grow, then lift the limit and add again."""
    import resource

    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        scope = memory.scope(user="u")
        scope.add("s", ("user", "before"))
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (spare, most))
        stored = 1
        try:
            while True:
                scope.add("s", [("user", random.randbytes(2_000).hex())] * 3)
                stored += 3
        except OctopusError as error:
            pipe.send((type(error).__name__, str(error)))
        pipe.send((stored, len(scope.session("s").turns)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        scope.add("s", ("user", "after"))
        pipe.send((stored + 1, len(scope.session("s").turns)))


def use_it_as_nobody(pipe: Connection, url: str) -> None:
    """Open, recall and add as a user without rights, and send each result."""
    # Read lazily loaded files now, before the process gives up its rights.
    with EpisodicMemory.open("sqlite:///:memory:", embedder="hashing", background=False) as memory:
        memory.scope(user="u").store([("user", "leave days")])
        memory.scope(user="u").recall("leave")
    if os.getuid() == 0:
        os.setgid(65_534)
        os.setuid(65_534)
    try:
        with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
            scope = memory.scope(user="u")
            pipe.send([snippet.session_id for snippet in scope.recall("leave days")])
            scope.add("s", ("user", "may I?"))
            pipe.send("stored")
    except OctopusError as error:
        pipe.send((type(error).__name__, str(error)))
