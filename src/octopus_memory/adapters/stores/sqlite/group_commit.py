"""Group commit: writers of one process that come at the same time share one commit.

A commit waits for the disk, and while it does the next writers queue up; the first of them then
runs them all in one transaction. Nobody is answered before the commit that has their write in it,
so that what is acknowledged is durable, as it is for one alone.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

from ..sql.lazy import Connection, load, sa
from .driver import DriverConnection, Prepared

T = TypeVar("T")
_MOST = 64
"""Writes in one transaction: more would only make the first of them wait."""
_PATIENCE = 1.0
"""Seconds after which a writer no longer waits to be called, in case who should was stopped."""
BUSY_SECONDS = 30
_NAP = 0.0002


def when_free(
    raw: sqlite3.Connection, statement: str, *, patience: float | None = None
) -> sqlite3.Cursor:
    """Run a statement that takes or needs the lock, on a connection that does not wait itself."""
    until = time.monotonic() + (BUSY_SECONDS if patience is None else patience)
    while True:
        try:
            return raw.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(_NAP)


def wait_oneself(raw: sqlite3.Connection) -> None:
    """Have `when_free` wait on this connection, and not SQLite."""
    raw.execute("PRAGMA busy_timeout=0")


def let_it_wait(raw: sqlite3.Connection) -> None:
    raw.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")


class _Batch:
    """Writes of one transaction; settled for all of them by one assignment."""

    __slots__ = ("is_done",)

    def __init__(self) -> None:
        self.is_done = False


_NONE_YET = _Batch()


class _Job:
    """One write, and what came of it."""

    __slots__ = ("batch", "do", "error", "gate", "hot", "outcome")

    def __init__(self, do: Callable[[Any], Any], *, hot: bool) -> None:
        self.do = do
        self.hot = hot
        self.outcome: Any = None
        self.error: Exception | None = None
        self.batch = _NONE_YET
        # Each waits at its own: at one for all of them they would pass one at a time, and every
        # one of them would keep the next commit waiting.
        self.gate = threading.Lock()
        self.gate.acquire()

    @property
    def is_done(self) -> bool:
        return self.batch.is_done

    def call(self) -> None:
        """Let its thread go on: it is done, or it is its turn to write."""
        if self.gate.locked():
            self.gate.release()


class Together:
    """The one connection that writes, and the queue in front of it. Thread-safe."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], lock: threading.RLock) -> None:
        self._connect = connect
        self._lock = lock
        self._queue: deque[_Job] = deque()
        self._queueing = threading.Lock()
        self._is_led = False
        """Whether a thread writes, or is called to, and will call the next."""
        self._raw: sqlite3.Connection | None = None
        self._core: Connection | None = None
        self._engine: sa.Engine | None = None
        self._known: dict[Any, Prepared] = {}

    def write(self, do: Callable[[Any], T], *, hot: bool = False) -> T:
        """Run `do` in a transaction; durable when it returns.

        A `hot` one is given the driver's connection, another one SQLAlchemy's; either way it is
        the driver's error that is raised.
        """
        if not hot:
            # Importing it takes far longer than others should wait in the queue.
            load("sqlalchemy")
        job = _Job(do, hot=hot)
        with self._queueing:
            self._queue.append(job)
            leads, self._is_led = not self._is_led, True
        if leads or not self._was_done(job):
            self._lead(job)
        if job.error is not None:
            raise job.error
        outcome: T = job.outcome
        return outcome

    def _was_done(self, job: _Job) -> bool:
        """Wait to be called: whether another wrote it, else it is this thread's turn."""
        try:
            job.gate.acquire(timeout=_PATIENCE)
        except BaseException:
            self._call_next(job)
            raise
        return job.is_done

    def _lead(self, job: _Job) -> None:
        try:
            with self._lock:
                while not job.is_done:
                    self._run()
        finally:
            self._call_next(job)

    def _call_next(self, job: _Job) -> None:
        with self._queueing:
            if not job.is_done:
                # Told to stop: what nobody waits for any more is not done later either.
                self._queue.remove(job)
            done: list[_Job] = []
            while self._queue and self._queue[0].is_done:
                done.append(self._queue.popleft())
            self._is_led = bool(self._queue)
            if self._is_led:
                self._queue[0].call()
            for each in done:
                each.call()

    def _run(self) -> None:
        # They leave the queue only when they are done: whoever is told to stop in between leaves
        # the others' writes to the next.
        with self._queueing:
            jobs = list(islice((job for job in self._queue if not job.is_done), _MOST))
        batch = _Batch()
        for job in jobs:
            job.batch, job.error = batch, None
        try:
            self._commit(jobs, batch)
        except Exception as error:  # noqa: BLE001 - each waiting thread raises its own
            # Nothing of the batch is stored.
            for job in jobs:
                job.error = job.error or error
            batch.is_done = True
        except BaseException:
            # The connection may be in any state.
            self._drop()
            raise

    def _commit(self, jobs: list[_Job], batch: _Batch) -> None:
        raw = self._open()
        if self._core is None and not all(job.hot for job in jobs):
            self._open_core(raw)
        when_free(raw, "BEGIN IMMEDIATE")
        try:
            self._perform_all(raw, jobs)
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
            # A signal that comes while the disk is waited for is raised after the commit.
            batch.is_done = not raw.in_transaction
            raise
        batch.is_done = True

    def _perform_all(self, raw: sqlite3.Connection, jobs: list[_Job]) -> None:
        """One after the other; where one of them fails, which few do, again and each apart."""
        try:
            for job in jobs:
                self._perform(raw, job)
        except Exception:
            if len(jobs) == 1 or not raw.in_transaction:
                # A full disk ends the whole transaction, with what the others wrote.
                raise
            raw.execute("ROLLBACK")
            when_free(raw, "BEGIN IMMEDIATE")
            for job in jobs:
                self._perform_apart(raw, job)

    def _perform_apart(self, raw: sqlite3.Connection, job: _Job) -> None:
        raw.execute("SAVEPOINT job")
        try:
            self._perform(raw, job)
        except Exception as error:
            if not raw.in_transaction:
                raise
            raw.execute("ROLLBACK TO job")
            job.error = error
        raw.execute("RELEASE job")

    def _perform(self, raw: sqlite3.Connection, job: _Job) -> None:
        if job.hot:
            job.outcome = job.do(DriverConnection(raw, self._known))
            return
        try:
            job.outcome = job.do(self._core)
        except sa.exc.DBAPIError as error:
            # Who waits for the same commit need not know what others' writes went through.
            raise error.orig or error from None

    def _open(self) -> sqlite3.Connection:
        if self._raw is None:
            raw = self._connect()
            wait_oneself(raw)
            self._raw = raw
        return self._raw

    def _open_core(self, raw: sqlite3.Connection) -> None:
        """Outside of a transaction: SQLAlchemy would end it when it connects."""
        # It only speaks on this connection: transactions are begun and ended here.
        self._engine = sa.create_engine(
            "sqlite://", creator=lambda: raw, poolclass=sa.StaticPool, hide_parameters=True
        )
        self._core = Connection(self._engine.connect())

    def _drop(self) -> None:
        raw, self._raw, self._core = self._raw, None, None
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        if raw is not None:
            # What was not committed is rolled back by this.
            raw.close()

    def close(self) -> None:
        with self._lock:
            self._drop()
