"""The outbox: stores what was said without holding the agent up.

A call waits a short time for its messages to be stored. If that fails or takes longer, the agent
goes on, and the messages wait here, in order for each session, and are tried again. Their number,
size and age are bounded. What is given up is counted and logged, and the database records the
number when it can: `octopus doctor` and the metrics show it.
"""

from __future__ import annotations

import atexit
import contextvars
import functools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from ..domain.errors import (
    EpisodeChanged,
    IndexUnavailable,
    KeyUnavailable,
    MemoryClosed,
    ModelError,
    OctopusError,
    SchemaTooNew,
    SettingsChanged,
    StoreError,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

_THREADS = 32
_MOST = 10_000
"""Messages that wait; then the oldest session's are given up."""
_MOST_BYTES = 64 * 2**20
_LONGEST = 600.0
"""Seconds after which a message is given up."""
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_SLOW = 1.0
"""Seconds after which nobody waits behind a message that is not stored yet."""
_AT_EXIT = 5.0
"""Seconds that the end of a process waits for what is left."""
_PASSING = (
    StoreError,
    EpisodeChanged,
    SettingsChanged,
    IndexUnavailable,
    KeyUnavailable,
    ModelError,
)


@functools.cache
def threads() -> ThreadPoolExecutor:
    """Return the threads on which integrations use a memory."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="octopus-integrations")


# A forked child has the pool without its threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=threads.cache_clear)


def on_thread(do: Callable[[], T]) -> Future[T]:
    """Run a call on another thread, in the context of the caller."""
    return threads().submit(contextvars.copy_context().run, do)


def _may_pass(error: Exception) -> bool:
    return isinstance(error, _PASSING) and not isinstance(error, SchemaTooNew)


class Outgoing(NamedTuple):
    """Messages that are to be stored in one call."""

    store: Callable[[], Any]
    messages: int
    size: Callable[[], int]
    """Approximate bytes; called only if they have to wait."""
    report_lost: Callable[[int], None] | None = None
    """Records in the database that messages were given up."""


class Counts(NamedTuple):
    """Messages of this process."""

    waiting: int
    lost: int


class _Entry:
    def __init__(self, out: Outgoing) -> None:
        self.out, self.since, self.size = out, time.monotonic(), 0
        self.settled: Future[bool] = Future()
        """True when the messages are stored, False when they wait or are given up."""

    def settle(self, *, stored: bool) -> None:
        if not self.settled.done():
            self.settled.set_result(stored)


class _Lane:
    """What one session has to store, in order."""

    def __init__(self) -> None:
        self.entries: deque[_Entry] = deque()
        self.is_running = False


class Outbox:
    """Stores messages on threads, in order for each session. Thread-safe."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin empty: a forked process leaves what waits to the one that it came from."""
        self._lock = threading.Lock()
        self._lanes: dict[Hashable, _Lane] = {}
        self._waiting: set[Hashable] = set()
        """Sessions whose first entry failed and is tried again."""
        self._wait = _FIRST_WAIT
        self._timer: threading.Timer | None = None
        self._lost = 0
        self._unreported: dict[Hashable, int] = {}
        self._logged: set[tuple[str, str]] = set()

    def put(self, lane: Hashable, out: Outgoing) -> Future[bool]:
        """Store messages behind those of the same session; returns at once.

        The result is False where they have to wait.
        """
        entry = _Entry(out)
        with self._lock:
            own = self._lanes.setdefault(lane, _Lane())
            own.entries.append(entry)
            is_slow = time.monotonic() - own.entries[0].since > _SLOW
            if lane in self._waiting or is_slow:
                entry.size = out.size()
                entry.settle(stored=False)
            if lane not in self._waiting and not own.is_running:
                own.is_running = True
                on_thread(lambda: self._drain(lane))
        self._keep_bounds()
        return entry.settled

    def counts(self) -> Counts:
        """Return how many messages wait, and how many were given up."""
        with self._lock:
            entries = [entry for lane in self._lanes.values() for entry in lane.entries]
            return Counts(sum(entry.out.messages for entry in entries), self._lost)

    def flush(self, timeout: float) -> bool:
        """Try all that waits now; returns False if something is left after `timeout` seconds."""
        end = time.monotonic() + timeout
        self._resume()
        while self.counts().waiting and time.monotonic() < end:
            if not any(lane.is_running for lane in list(self._lanes.values())):
                return False
            time.sleep(0.01)
        return not self.counts().waiting

    def _drain(self, lane: Hashable) -> None:
        while (entry := self._next(lane)) is not None:
            try:
                entry.out.store()
            except Exception as error:  # noqa: BLE001 - nothing of memory's may stop the agent
                if _may_pass(error) and time.monotonic() - entry.since < _LONGEST:
                    self._try_later(lane, error)
                    return
                self._take_off(lane, entry)
                self._give_up(lane, entry, error)
            else:
                self._take_off(lane, entry)
                entry.settle(stored=True)
                self._wait = _FIRST_WAIT
                self._report(lane, entry)

    def _next(self, lane: Hashable) -> _Entry | None:
        with self._lock:
            own = self._lanes.get(lane)
            if own is not None and own.entries:
                return own.entries[0]
            self._lanes.pop(lane, None)
            return None

    def _take_off(self, lane: Hashable, entry: _Entry) -> None:
        with self._lock:
            own = self._lanes.get(lane)
            if own is not None and own.entries and own.entries[0] is entry:
                own.entries.popleft()

    def _try_later(self, lane: Hashable, error: Exception) -> None:
        self._log_once("messages wait to be stored", error)
        with self._lock:
            own = self._lanes.get(lane)
            if own is None:
                return
            own.is_running = False
            self._waiting.add(lane)
            for each in own.entries:
                each.size = each.size or each.out.size()
                each.settle(stored=False)
            if self._timer is None:
                self._timer = threading.Timer(self._wait, self._resume)
                self._timer.daemon = True
                self._timer.start()
                self._wait = min(self._wait * 2, _LONGEST_WAIT)
        self._keep_bounds()

    def _resume(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            again = [lane for lane in self._waiting if lane in self._lanes]
            self._waiting.clear()
            for lane in again:
                self._lanes[lane].is_running = True
        for lane in again:
            on_thread(functools.partial(self._drain, lane))

    def _keep_bounds(self) -> None:
        while True:
            with self._lock:
                waiting = [(lane, self._lanes[lane]) for lane in self._waiting]
                entries = [(e.since, lane, e) for lane, own in waiting for e in own.entries]
                count = sum(entry.out.messages for _, _, entry in entries)
                size = sum(entry.size for _, _, entry in entries)
                if count <= _MOST and size <= _MOST_BYTES:
                    return
                _, lane, oldest = min(entries, key=lambda each: each[0])
                self._lanes[lane].entries.remove(oldest)
            self._give_up(lane, oldest, OctopusError("too much waits to be stored"))

    def _give_up(self, lane: Hashable, entry: _Entry, error: Exception) -> None:
        with self._lock:
            self._lost += entry.out.messages
            self._unreported[lane] = self._unreported.get(lane, 0) + entry.out.messages
        self._log_once("messages could not be stored and are lost", error)
        if not isinstance(error, MemoryClosed):
            self._report(lane, entry)
        entry.settle(stored=False)

    def _report(self, lane: Hashable, entry: _Entry) -> None:
        """Record lost messages in the database, which answers again."""
        if not self._unreported or entry.out.report_lost is None:
            return
        with self._lock:
            lost = self._unreported.pop(lane, 0)
        if not lost:
            return
        try:
            entry.out.report_lost(lost)
        except Exception:  # noqa: BLE001 - it is tried again with the next message
            with self._lock:
                self._unreported[lane] = self._unreported.get(lane, 0) + lost

    def _log_once(self, what: str, error: Exception) -> None:
        """Log a reason once, because a memory that is away fails with every message."""
        reason = error.for_log() if isinstance(error, OctopusError) else type(error).__name__
        with self._lock:
            if (what, reason) in self._logged:
                return
            self._logged.add((what, reason))
        log.warning("%s: %s", what, reason)

    def at_exit(self) -> None:
        """Try what is left once more, in this thread, because the others have ended."""
        end = time.monotonic() + _AT_EXIT
        for own in list(self._lanes.values()):
            while own.entries and time.monotonic() < end:
                entry = own.entries[0]
                try:
                    entry.out.store()
                except Exception as error:  # noqa: BLE001 - the process ends
                    self._log_once("messages could not be stored at the end", error)
                    break
                own.entries.popleft()
        left = self.counts().waiting
        if left:
            log.warning("%d messages are lost with the process", left)


OUTBOX = Outbox()
atexit.register(OUTBOX.at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OUTBOX.begin)


def counts() -> Counts:
    """Return how many messages of this process wait to be stored, and how many are lost."""
    return OUTBOX.counts()


def flush(timeout: float = 10.0) -> bool:
    """Try what waits to be stored now; returns False if some of it is left."""
    return OUTBOX.flush(timeout)
