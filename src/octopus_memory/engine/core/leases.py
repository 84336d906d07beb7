"""Who holds a lease, told so that others can see when it is gone."""

from __future__ import annotations

import logging
import os
import platform
import uuid
from datetime import timedelta

from .runtime import Runtime

log = logging.getLogger(__name__)

_LONGEST = timedelta(hours=1)
"""Leases last minutes, as waits do; the rest is for clocks of machines that differ."""
_PROCESS_NUMBERS = "/proc/self/ns/pid"
"""Where Linux names the space that a process's number is of."""


def new_owner() -> str:
    """Names whoever works in this process, once."""
    return f"{_machine()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def release_dead(runtime: Runtime) -> None:
    """End the leases of workers on this machine whose process no longer runs.

    And those that a clock which was ahead made too long, whoever holds them.
    """
    now = runtime.clock.now()
    if freed := runtime.store.release_stale(now=now, latest=now + _LONGEST):
        log.warning("%d pieces of work were put off beyond %s: a clock was ahead", freed, _LONGEST)
    here = _machine()
    for owner in runtime.store.owners():
        where, _, rest = owner.partition("/")
        pid = rest.partition("/")[0]
        if where == here and pid.isdigit() and not _runs(int(pid)):
            runtime.store.release(owner)


def _machine() -> str:
    """Where a process's number means one process: containers may share a name, not its numbers."""
    try:
        space = os.stat(_PROCESS_NUMBERS).st_ino  # noqa: PTH116 - a path would cost an import
    except OSError:
        return platform.node()
    return f"{platform.node()}:{space}"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
