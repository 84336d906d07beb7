"""Group commit: concurrent writers of one process share one commit.

While a commit waits for the disk, the next writers queue up; the first of them then runs all of
them in one transaction. A caller returns only after the commit with its write, so that an
acknowledged write is durable.

Writers of other processes are waited for by polling here, because the naps of SQLite grow to a
tenth of a second, and a writer that sleeps so long among busy processes starves for seconds.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

from ..sql.lazy import ImportNeeded, load_compiler, no_imports
from .connections import Connections
from .driver import DriverConnection

T = TypeVar("T")
_MAX_BATCH = 64
"""Writes in one transaction; more would only delay the first of them."""
_PATIENCE = 1.0
"""Seconds after which a waiting writer stops waiting for its call, in case its caller was stopped.
"""
BUSY_SECONDS = 30
_NAP = 0.0002


def when_free(
    raw: sqlite3.Connection, statement: str, *, patience: float | None = None
) -> sqlite3.Cursor:
    """Execute a statement that needs the write lock, polling while another process holds it."""
    until = time.monotonic() + (BUSY_SECONDS if patience is None else patience)
    while True:
        try:
            return raw.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_NAP)


def fail_when_locked(raw: sqlite3.Connection) -> None:
    """Make SQLite fail at once when the database is locked, for `when_free`."""
    raw.execute("PRAGMA busy_timeout=0")


def wait_when_locked(raw: sqlite3.Connection) -> None:
    raw.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")


class _Batch:
    """The writes of one transaction; one assignment settles all of them."""

    __slots__ = ("is_done",)

    def __init__(self) -> None:
        self.is_done = False


_NO_BATCH = _Batch()


class _Job:
    """A write and its outcome."""

    __slots__ = ("batch", "do", "error", "outcome", "wake_lock")

    def __init__(self, do: Callable[[DriverConnection], Any]) -> None:
        self.do = do
        self.outcome: Any = None
        self.error: Exception | None = None
        self.batch = _NO_BATCH
        # One lock for each: threads that wait on a common lock pass it one at a time, and each
        # would delay the next commit.
        self.wake_lock = threading.Lock()
        self.wake_lock.acquire()

    @property
    def is_done(self) -> bool:
        return self.batch.is_done

    def wake(self) -> None:
        """Wake its thread: the write is done, or it is its turn to lead."""
        if self.wake_lock.locked():
            self.wake_lock.release()


class GroupCommit:
    """The one writing connection, and the queue in front of it. Thread-safe."""

    def __init__(self, connections: Connections, lock: threading.RLock) -> None:
        self._connections = connections
        self._lock = lock
        self._queue: deque[_Job] = deque()
        self._queueing = threading.Lock()
        self._has_leader = False
        """True if a thread leads, or was woken to lead, and will wake the next."""
        self._raw: sqlite3.Connection | None = None

    def write(self, do: Callable[[DriverConnection], T]) -> T:
        """Run `do` in a transaction; durable when it returns.

        `do` runs again if it, or another write of the same transaction, fails.
        """
        try:
            return self._write(do)
        except ImportNeeded:
            # Import without the lock, because other writers would wait for the import.
            load_compiler()
        return self._write(do)

    def _write(self, do: Callable[[DriverConnection], T]) -> T:
        job = _Job(do)
        with self._queueing:
            self._queue.append(job)
            leads, self._has_leader = not self._has_leader, True
        if leads or not self._wait_for_turn(job):
            self._lead(job)
        if job.error is not None:
            raise job.error
        outcome: T = job.outcome
        return outcome

    def _wait_for_turn(self, job: _Job) -> bool:
        """Wait to be woken; False if it is this thread's turn to lead."""
        try:
            job.wake_lock.acquire(timeout=_PATIENCE)
        except BaseException:
            self._wake_next(job)
            raise
        return job.is_done

    def _lead(self, job: _Job) -> None:
        try:
            with self._lock:
                while not job.is_done:
                    self._run()
        finally:
            self._wake_next(job)

    def _wake_next(self, job: _Job) -> None:
        with self._queueing:
            if not job.is_done:
                # The thread was stopped: do not run its write later either.
                self._queue.remove(job)
            done: list[_Job] = []
            while self._queue and self._queue[0].is_done:
                done.append(self._queue.popleft())
            self._has_leader = bool(self._queue)
            if self._has_leader:
                self._queue[0].wake()
            for each in done:
                each.wake()

    def _run(self) -> None:
        # Jobs leave the queue only when they are done, so that the next leader finishes the batch
        # of a leader that was stopped.
        with self._queueing:
            jobs = list(islice((job for job in self._queue if not job.is_done), _MAX_BATCH))
        batch = _Batch()
        for job in jobs:
            job.batch, job.error = batch, None
        try:
            self._commit(jobs, batch)
        except Exception as error:  # noqa: BLE001 - each waiting thread raises its own
            # Nothing of the batch was stored.
            for job in jobs:
                job.error = job.error or error
            batch.is_done = True
        except BaseException:
            # The connection may be in any state.
            self._drop()
            raise
        if any(job.error is not None for job in jobs):
            # An error may keep an open result, whose old snapshot would block the next write.
            self._drop()

    def _commit(self, jobs: list[_Job], batch: _Batch) -> None:
        raw = self._open()
        when_free(raw, "BEGIN IMMEDIATE")
        try:
            with no_imports():
                self._run_all(raw, jobs)
            self._end(raw, batch)
        except Exception:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            raise

    def _end(self, raw: sqlite3.Connection, batch: _Batch) -> None:
        try:
            when_free(raw, "COMMIT")
        except sqlite3.Error:
            raise
        except BaseException:
            # A signal during the commit is raised after it.
            batch.is_done = not raw.in_transaction
            raise
        batch.is_done = True

    def _run_all(self, raw: sqlite3.Connection, jobs: list[_Job]) -> None:
        """Run all jobs in one transaction; if one fails, run each in its own savepoint."""
        try:
            for job in jobs:
                job.outcome = job.do(DriverConnection(raw))
        except Exception:
            if len(jobs) == 1 or not raw.in_transaction:
                # A full disk rolls back the whole transaction.
                raise
            raw.execute("ROLLBACK")
            when_free(raw, "BEGIN IMMEDIATE")
            for job in jobs:
                self._run_in_savepoint(raw, job)

    def _run_in_savepoint(self, raw: sqlite3.Connection, job: _Job) -> None:
        raw.execute("SAVEPOINT job")
        try:
            job.outcome = job.do(DriverConnection(raw))
        except Exception as error:
            if not raw.in_transaction:
                raise
            raw.execute("ROLLBACK TO job")
            job.error = error
        raw.execute("RELEASE job")

    def _open(self) -> sqlite3.Connection:
        if self._raw is None:
            raw = self._connections.take_writer()
            fail_when_locked(raw)
            self._raw = raw
        return self._raw

    def _drop(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            self._connections.drop_writer(raw)

    def close(self) -> None:
        with self._lock:
            self._drop()
