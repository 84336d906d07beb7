"""Child processes, forked from a server process that has imported what a memory needs."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "__main__",
        "octopus_memory.adapters.embedders.hashing",
        "octopus_memory.adapters.stores.sqlite.store",
        "octopus_memory.settings",
        "octopus_memory.wiring",
        "sqlalchemy.dialects.sqlite",
    ]
)


@contextmanager
def running(do: Callable[..., None], *args: Any) -> Iterator[tuple[ForkServerProcess, Connection]]:
    """Run `do(pipe, *args)` in a child process, which is killed at the end of the block."""
    here, there = CONTEXT.Pipe(duplex=False)
    given = (dict(os.environ), do, there, *args)
    process = CONTEXT.Process(target=_do_with, args=given, daemon=True)
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        kill(process)
        here.close()
        process.close()


def _do_with(environment: dict[str, str], do: Callable[..., None], *args: Any) -> None:
    # The process it is forked from has the variables of whichever test came first.
    os.environ.clear()
    os.environ.update(environment)
    do(*args)


def kill(process: ForkServerProcess) -> None:
    """Send SIGKILL and wait for the end of the process."""
    process.kill()
    process.join()


def read_to_end(pipe: Connection) -> list[Any]:
    """Return every message until the end of the pipe."""
    said = []
    try:
        while True:
            said.append(pipe.recv())
    except (EOFError, OSError):
        return said


def run_script(pipe: Connection, path: str, environment: dict[str, str]) -> None:
    """Run a script in its own folder, and send its traceback, or None."""
    os.chdir(Path(path).parent)
    os.environ.clear()
    os.environ.update(environment)
    warnings.simplefilter("error")
    try:
        runpy.run_path(path, run_name="__main__")
    except BaseException:  # noqa: BLE001 - whatever it is, the parent shows it
        pipe.send(traceback.format_exc())
    else:
        pipe.send(None)
