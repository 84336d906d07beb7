"""Several processes that serve one port, each pinned to a core if there are as many cores.

The threads of one Python process take turns. On two cores, every turn moves the shared data from
one core's cache to the other's. Pinned to one core each, two processes answered 1.8 times as much.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...domain.errors import OctopusError

log = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_FOLDER = "octopus-metrics-"
_POLL_SECONDS = 0.25
_END_SECONDS = 25.0


class Serving:
    """Supervises one process for each listener. Restarts a process that was killed."""

    def __init__(
        self, serve: Callable[..., None], listeners: Sequence[socket.socket], *arguments: Any
    ) -> None:
        self._serve = serve
        self._listeners = listeners
        self._arguments = arguments
        self._cores = _cores(len(listeners))
        self._running = [self._start(place) for place in range(len(listeners))]

    def run_until_signal(self, meanwhile: Callable[[], None]) -> None:
        """Return after SIGTERM or SIGINT, when the current requests are answered.

        `meanwhile` is called a few times a second.

        :raises OctopusError: a process exited by itself, so a new one would exit, too
        """
        told = threading.Event()
        before = [signal.signal(number, lambda *_: told.set()) for number in STOP_SIGNALS]
        try:
            while not told.is_set():
                if not told.wait(_POLL_SECONDS):
                    self._restart_killed()
                    meanwhile()
        finally:
            self._end()
            for number, handler in zip(STOP_SIGNALS, before, strict=True):
                signal.signal(number, handler)

    def _start(self, place: int) -> SpawnProcess:
        process = multiprocessing.get_context("spawn").Process(
            target=_run,
            args=(self._serve, self._listeners[place], self._arguments),
            name=f"octopus-serve-{place}",
        )
        with _kept_on(self._cores[place]):
            process.start()
        return process

    def _restart_killed(self) -> None:
        for place, process in enumerate(self._running):
            if process.exitcode is None:
                continue
            if process.exitcode >= 0:
                raise OctopusError(f"{process.name} exited: see the log above")
            log.error("%s was killed (%s), restarting it", process.name, process.exitcode)
            self._running[place] = self._start(place)

    def _end(self) -> None:
        # Otherwise new connections would wait although no process accepts them.
        for listener in self._listeners:
            listener.close()
        for process in self._running:
            process.terminate()
        until = time.monotonic() + _END_SECONDS
        for process in self._running:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


@contextmanager
def shared_metrics() -> Iterator[Path]:
    """Keep the metrics in files, so that each process can report those of all."""
    if given := os.environ.get(METRICS_FOLDER):
        yield Path(given)
        return
    with TemporaryDirectory(prefix=_FOLDER) as folder:
        os.environ[METRICS_FOLDER] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ[METRICS_FOLDER]


@contextmanager
def _kept_on(core: int | None) -> Iterator[None]:
    """Start processes on one core only. OpenBLAS then starts no threads for other cores."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _run(serve: Callable[..., None], listener: socket.socket, arguments: Sequence[Any]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    serve(listener, *arguments)


def _end_with_parent() -> None:
    """Exit when the parent is killed, because nothing else would stop this process."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    folder = Path(os.environ.get(METRICS_FOLDER, ""))
    if folder.name.startswith(_FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)


def _cores(count: int) -> Sequence[int | None]:
    """Return a core for each process if there are as many, else None: the system places them."""
    if not hasattr(os, "sched_getaffinity"):
        return [None] * count
    ours = sorted(os.sched_getaffinity(0))
    return ours if len(ours) == count else [None] * count
