"""Processes that are forked from one which has imported all that a memory needs."""

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
def child(do: Callable[..., None], *args: Any) -> Iterator[tuple[ForkServerProcess, Connection]]:
    """A process that runs `do(pipe, *args)`; it is killed at the end, where it still runs."""
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=do, args=(there, *args), daemon=True)
    process.start()
    there.close()
    try:
        yield process, here
    finally:
        kill(process)
        here.close()
        process.close()


def kill(process: ForkServerProcess) -> None:
    """By SIGKILL, and waits until nothing is left of it."""
    process.kill()
    process.join()


def rest(pipe: Connection) -> list[Any]:
    """Everything that was said until the end of the pipe."""
    said = []
    try:
        while True:
            said.append(pipe.recv())
    except (EOFError, OSError):
        return said


def run_script(pipe: Connection, path: str, environment: dict[str, str]) -> None:
    """In its own folder; sends what went wrong, or None."""
    os.chdir(Path(path).parent)
    # The process it is forked from has the variables of whichever test came first.
    os.environ.clear()
    os.environ.update(environment)
    warnings.simplefilter("error")
    try:
        runpy.run_path(path, run_name="__main__")
    except BaseException:  # noqa: BLE001 - whatever it is, the parent shows it
        pipe.send(traceback.format_exc())
    else:
        pipe.send(None)
