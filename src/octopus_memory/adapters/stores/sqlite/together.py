"""Group commit: writers of one process that come at the same time share one commit.

A commit waits for the disk, and while it does the next writers queue up; whoever gets the lock then
runs them all in one transaction, each in a savepoint of its own. Nobody is answered before the
commit that has their write in it, so that what is acknowledged is durable, as it is for one alone.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa

from .driver import DriverConnection, Prepared

T = TypeVar("T")
_MOST = 64
"""Writes in one transaction: more would only make the first of them wait."""


class _Batch:
    """Writes of one transaction; settled for all of them by one assignment."""

    __slots__ = ("is_done",)

    def __init__(self) -> None:
        self.is_done = False


class _Job:
    """One write, and what came of it."""

    __slots__ = ("batch", "do", "error", "hot", "outcome")

    def __init__(self, do: Callable[[Any], Any], *, hot: bool) -> None:
        self.do = do
        self.hot = hot
        self.outcome: Any = None
        self.error: Exception | None = None
        self.batch = _Batch()

    @property
    def is_done(self) -> bool:
        return self.batch.is_done


class Together:
    """The one connection that writes, and the queue in front of it. Thread-safe."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], lock: threading.RLock) -> None:
        self._connect = connect
        self._lock = lock
        self._queue: deque[_Job] = deque()
        self._raw: sqlite3.Connection | None = None
        self._core: sa.Connection | None = None
        self._engine: sa.Engine | None = None
        self._known: dict[Any, Prepared] = {}

    def write(self, do: Callable[[Any], T], *, hot: bool = False) -> T:
        """Run `do` in a transaction; durable when it returns.

        A `hot` one is given the driver's connection, another one SQLAlchemy's.
        """
        job = _Job(do, hot=hot)
        self._queue.append(job)
        with self._lock:
            try:
                while not job.is_done:
                    self._run()
                self._let_go()
            finally:
                if not job.is_done:
                    # Told to stop: what nobody waits for any more is not done later either.
                    self._queue.remove(job)
        if job.error is not None:
            raise job.error
        outcome: T = job.outcome
        return outcome

    def _run(self) -> None:
        # They leave the queue only when they are done: whoever is told to stop in between leaves
        # the others' writes to the next.
        self._let_go()
        jobs = [self._queue[place] for place in range(min(len(self._queue), _MOST))]
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

    def _let_go(self) -> None:
        """What is done, and whatever it holds, is kept no longer."""
        while self._queue and self._queue[0].is_done:
            self._queue.popleft()

    def _commit(self, jobs: list[_Job], batch: _Batch) -> None:
        raw = self._open()
        try:
            raw.execute("BEGIN IMMEDIATE")
            if len(jobs) == 1:
                self._perform(raw, jobs[0])
            else:
                for job in jobs:
                    self._perform_apart(raw, job)
            self._end(raw, batch)
        except Exception:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            raise

    def _end(self, raw: sqlite3.Connection, batch: _Batch) -> None:
        try:
            raw.execute("COMMIT")
        except sqlite3.Error:
            raise
        except BaseException:
            # A signal that comes while the disk is waited for is raised after the commit.
            batch.is_done = not raw.in_transaction
            raise
        batch.is_done = True

    def _perform_apart(self, raw: sqlite3.Connection, job: _Job) -> None:
        raw.execute("SAVEPOINT job")
        try:
            self._perform(raw, job)
        except Exception as error:
            if not raw.in_transaction:
                # A full disk ends the whole transaction, with what the others wrote.
                raise
            raw.execute("ROLLBACK TO job")
            job.error = error
        raw.execute("RELEASE job")

    def _perform(self, raw: sqlite3.Connection, job: _Job) -> None:
        assert self._core is not None
        conn = DriverConnection(raw, self._core.dialect, self._known) if job.hot else self._core
        job.outcome = job.do(conn)

    def _open(self) -> sqlite3.Connection:
        if self._raw is None:
            raw = self._connect()
            # SQLAlchemy only speaks on this connection: transactions are begun and ended here.
            self._engine = sa.create_engine(
                "sqlite://", creator=lambda: raw, poolclass=sa.StaticPool, hide_parameters=True
            )
            self._core = self._engine.connect()
            self._raw = raw
        return self._raw

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
