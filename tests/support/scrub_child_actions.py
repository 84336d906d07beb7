"""Actions of a child process in the tests of scrubbing."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sqlite3
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.stores.sqlite.url import FileIdentity
from tests.support import sqlite_hooks
from tests.support.retention_child_actions import open_memory


def be_killed_at_each(pipe: Connection, ready: str, folder: str) -> None:
    """Scrubs copies of a database, killed one statement or step of the rewrite later each time.

    Sends where the database is then, and how the process ended. All are forked from one that has
    done it before and knows the statements and the patterns, which take long to load.
    """
    path = Path(shutil.copy(ready, f"{folder}/memory.db"))
    memory = open_memory(f"sqlite:///{path}")
    memory.tenant().scrub(numbered=True)
    # No connection may be used on both sides of a fork.
    memory.runtime.store.close()
    memory.runtime.store._connections._is_closed = False
    # Every copy is another file, which the store would take for one that was put in its place.
    memory.runtime.store._file = FileIdentity(path)
    for moment in itertools.count(1):
        shutil.copy(ready, path)
        pid = os.fork()
        if pid == 0:
            _be_killed_at(memory, moment)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        own = Path(folder) / str(moment)
        own.mkdir()
        for end in ("", "-wal", "-shm", "-journal"):
            if Path(f"{path}{end}").exists():
                shutil.move(f"{path}{end}", own / f"memory.db{end}")
        pipe.send((str(own / "memory.db"), code))
        if code != -signal.SIGKILL:
            return


def _be_killed_at(memory: EpisodicMemory, moment: int) -> NoReturn:
    count = itertools.count(1)

    def strike() -> None:
        if next(count) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    hooks = sqlite_hooks.Hooks(statement=strike, rewriting=lambda _: strike())
    sqlite3.connect = sqlite_hooks.connect(hooks)
    memory._process = os.getpid()
    code = 1
    try:
        memory.tenant().scrub(numbered=True)
        memory.close()
        code = 0
    finally:
        os._exit(code)
