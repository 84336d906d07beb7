"""A thread that does pending work soon after it comes up."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid

from ..domain.errors import OctopusError
from . import pending
from .parts import Parts

log = logging.getLogger(__name__)

_BETWEEN_ROUNDS = 60.0
"""Seconds between looks for time-outs and for work that other processes left."""


def new_owner() -> str:
    """Names this worker in its leases, so that others can tell when it is gone."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def release_dead(parts: Parts) -> None:
    """End the leases of workers on this machine whose process no longer runs."""
    host = socket.gethostname()
    for owner in parts.store.owners():
        where, _, rest = owner.partition("/")
        pid = rest.partition("/")[0]
        if where == host and pid.isdigit() and not _runs(int(pid)):
            parts.store.release(owner)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class Background:
    """Started by the first write, woken by each; stops with the memory."""

    def __init__(self, parts: Parts, owner: str) -> None:
        self._parts = parts
        self._owner = owner
        self._wake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def wake(self) -> None:
        self._wake.set()
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._stopped:
                    self._thread = threading.Thread(
                        target=self._run, name="octopus-background", daemon=True
                    )
                    self._thread.start()

    def stop(self) -> None:
        """Finish the batch at hand and end; what is left waits in the database."""
        self._stopped = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        self._round(first=True)
        while not self._stopped:
            woken = self._wake.wait(timeout=_BETWEEN_ROUNDS)
            self._wake.clear()
            if not self._stopped:
                self._round(first=not woken)

    def _round(self, *, first: bool) -> None:
        """Embed what is there; on the `first` and on idle rounds, look after the rest too."""
        try:
            if first:
                release_dead(self._parts)
                pending.close_idle(self._parts)
            while not self._stopped and pending.embed_pending(self._parts, self._owner):
                pass
            if not self._stopped:
                pending.summarize_pending(self._parts, self._owner)
        except OctopusError as error:
            log.warning("background work is put off: %s: %s", type(error).__name__, error)
        except Exception:
            if not self._stopped:
                log.exception("background work failed")
