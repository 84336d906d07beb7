"""Worker ids that tell other processes when the worker is gone, and the release of its leases."""

from __future__ import annotations

import logging
import os
import platform
import uuid
from datetime import timedelta
from functools import partial

from .runtime import Runtime

log = logging.getLogger(__name__)

_LONGEST = timedelta(hours=1)
"""Leases and retries last minutes. The rest allows for clocks that differ between machines."""
_PID_NAMESPACE = "/proc/self/ns/pid"
"""The file by which Linux identifies the namespace of a process id."""


def new_worker_id() -> str:
    """Make an id for a worker: machine, process and a random suffix."""
    return f"{_machine()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def release_dead_leases(runtime: Runtime) -> None:
    """Release the leases of workers on this machine whose process has died.

    Also ends the leases and retries of any worker that lie too far in the future, because they were
    written by a clock that was ahead.
    """
    now = runtime.clock.now()
    is_gone = partial(_is_gone, _machine())
    if freed := runtime.store.release_leases(is_gone, now=now, latest=now + _LONGEST):
        log.warning(
            "released %d pieces of work that were postponed by more than %s: a clock was ahead",
            freed,
            _LONGEST,
        )


def _is_gone(here: str, worker_id: str) -> bool:
    """True for a worker of this machine whose process does not run."""
    machine, _, rest = worker_id.partition("/")
    pid = rest.partition("/")[0]
    return machine == here and pid.isdigit() and not _is_running(int(pid))


def _machine() -> str:
    """The host name with its process namespace: containers may share the name, but not the pids."""
    try:
        namespace = os.stat(_PID_NAMESPACE).st_ino  # noqa: PTH116 - a path would cost an import
    except OSError:
        return platform.node()
    return f"{platform.node()}:{namespace}"


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
