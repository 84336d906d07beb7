"""Actions of child processes in the tests of erasure."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sqlite3
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from octopus_memory import EpisodicMemory
from tests.support import sqlite_hooks

VICTIM = "the one to be forgotten"


def open_memory(url: str) -> EpisodicMemory:
    return EpisodicMemory.open(url, embedder="hashing", background=False)


def erase(url: str, begin: Callable[[], None]) -> None:
    with open_memory(url) as memory:
        begin()
        memory.tenant().erase_user(VICTIM, actor="test")


def erase_with_keys(ready: str, url: str, begin: Callable[[], None]) -> None:
    """As `erase`, with a copy of the key store `ready` beside the folder of the database."""
    use_keys(ready, url)
    erase(url, begin)


def use_keys(ready: str, url: str) -> Path:
    """Use a copy of a key store, which is made at the first call; returns its folder."""
    folder = Path(url.removeprefix("sqlite:///")).parent
    keys = folder.with_name(f"{folder.name}-keys")
    if not keys.exists():
        shutil.copytree(ready, keys)
    os.environ |= {"OCTOPUS_KEYS": "local", "OCTOPUS_KEYS_PATH": str(keys / "keys.db")}
    return keys


def be_killed_rewriting(pipe: Connection, url: str, share: float, opcodes: int) -> None:
    """Be killed while rewriting the file; sends how long an undisturbed rewrite takes."""
    done = itertools.count(1)

    def begin(conn: sqlite3.Connection) -> None:
        def step() -> int:
            if share and next(done) >= share * opcodes:
                os.kill(os.getpid(), signal.SIGKILL)
            elif not share:
                next(done)
            return 0

        conn.set_progress_handler(step, 50)

    hooks = sqlite_hooks.Hooks(rewriting=begin)
    sqlite3.connect = sqlite_hooks.connect(hooks)
    with open_memory(url) as memory:
        memory.tenant().erase_user(VICTIM, actor="test")
        pipe.send(next(done))


def record_from_threads(
    pipe: Connection, url: str, name: str, threads: int, each: int, barrier: Barrier
) -> None:
    """Record from threads and send the errors."""
    errors: list[str] = []

    def work(memory: EpisodicMemory, who: str) -> None:
        try:
            for number in range(each):
                memory.tenant().erase_user(f"{who} {number}", physical=False, actor=who)
        except Exception:  # noqa: BLE001 - whatever it is, the parent shows it
            errors.append(traceback.format_exc())

    with open_memory(url) as memory:
        barrier.wait()
        workers = [
            threading.Thread(target=work, args=(memory, f"{name}.{number}"))
            for number in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    pipe.send(errors)


def recall_and_wait(pipe: Connection, url: str) -> None:
    """Load a user's vectors into memory, report it, and report when they are dropped."""
    from octopus_memory.engine import worker as worker_module

    worker_module._BETWEEN_ROUNDS = 0.05
    worker_module._BETWEEN_LOOKS = 0.0
    with EpisodicMemory.open(url, embedder="hashing") as memory:
        assert memory.scope(user=VICTIM).recall("what I said")
        held = memory.runtime.index._cache._slots
        pipe.send(len(held))
        while held:
            threading.Event().wait(0.02)
        pipe.send("gone")
