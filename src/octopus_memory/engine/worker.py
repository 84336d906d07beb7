"""The pending work: done in a background thread, or in the thread that calls `run_pending`."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
import traceback
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from ..domain.errors import OctopusError
from ..ports.recall_rows import WorkKind
from .core import leases
from .core.runtime import Runtime
from .work import mirror, pending
from .work.pending import PendingReport

if TYPE_CHECKING:
    from ..domain.retention import RetentionReport

log = logging.getLogger(__name__)

_BETWEEN_ROUNDS = 60.0
"""Seconds between full rounds, which check time-outs and work of other processes."""
_BETWEEN_LOOKS = 5.0
"""Seconds between checks for removals by other processes, while there is much work."""
_BEFORE_FIRST_ROUND = 1.0
"""Seconds before the first round, so that it does not slow down a process that only reads."""
_GATHERING = 0.2
"""Seconds to wait for more writes after one, because a batch costs little more than one turn."""
_GATHERING_LEDGER = 1.0
"""Seconds to wait for more ledger entries after one, because a batch costs less than half."""
_AT_EXIT = 10.0
"""Seconds that the end of a process waits for the current batch."""
_STILL_ERASING = timedelta(minutes=2)
"""Age below which an erasure is left to the call that began it."""


class _Stopped(Exception):
    """The memory is closing. The rest of the work is done after the next start."""


def _where(error: Exception) -> str:
    """Format an error's type and traceback without its message, which may quote a user."""
    return type(error).__name__ + "\n" + "".join(traceback.format_tb(error.__traceback__))


def run_pending(runtime: Runtime, worker_id: str) -> PendingReport:
    """Do all work that can be claimed now: time-outs, summaries, vectors, unfinished erasures."""
    from .privacy import erasure, stored_turns

    runtime.check_for_removals()
    # Feed the mirror first, so that receipts of erasures see it without the erased rows.
    fed = mirror.feed(runtime, worker_id, verify=False)
    erasure.finish(runtime)
    stored_turns.remove_own_words(runtime)
    timed_out = pending.close_idle(runtime)
    summarized = pending.summarize_pending(runtime, worker_id)
    embedded = 0
    while done := pending.embed_pending(runtime, worker_id):
        embedded += done
    fed += mirror.feed(runtime, worker_id)
    pending.resolve_times(runtime, worker_id)
    pending.prune(runtime)
    return PendingReport(
        embedded=embedded, summarized=summarized, timed_out=timed_out, indexed=fed.given
    )


class WorkerState(NamedTuple):
    """State of a background worker."""

    is_working: bool
    last_round: datetime | None
    """Time at which it last finished its work; None before the first time."""


class BackgroundWorker:
    """A thread that does the pending work. Starts on first use, wakes on each write, stops on
    close.
    """

    def __init__(self, runtime: Runtime, worker_id: str) -> None:
        self._runtime = runtime
        self._worker_id = worker_id
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._due = 0.0
        """The monotonic time at which the next full round is due."""
        self._has_work = False
        """True if other work than the ledger's is waiting."""
        self._has_entries = False
        """True if ledger entries are waiting and the thread was told."""
        self.is_working = False
        self._last_round: datetime | None = None

    @property
    def state(self) -> WorkerState:
        return WorkerState(self.is_working, self._last_round)

    def wake(self) -> None:
        self._has_work = True
        self._wake.set()
        self.start()

    def wake_for_ledger(self) -> None:
        """Wake the worker to store the ledger's entries, and for no other work."""
        if not self._has_entries:
            self._has_entries = True
            self._wake.set()
            self.start()

    def start(self) -> None:
        """Start the thread, also for a process that only reads: its rounds clear caches of erased
        content.
        """
        if self._thread is None:
            with self._lock:
                # Never in a forked process, because its connections belong to the parent.
                if self._thread is None and not self._stopped and self._process == os.getpid():
                    self._thread = threading.Thread(
                        target=self._run, name="octopus-background", daemon=True
                    )
                    self._thread.start()
                    # The interpreter aborts if it ends while a model runs in a thread.
                    atexit.register(self._stop_at_exit)

    def stop(self, *, timeout: float | None = None) -> None:
        """Finish the current batch and end the thread. Other work stays in the database."""
        atexit.unregister(self._stop_at_exit)
        self._stop.set()
        self._wake.set()
        with self._lock:
            # A thread that is being started can be joined once the lock is free.
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    @property
    def _stopped(self) -> bool:
        return self._stop.is_set()

    def _stop_at_exit(self) -> None:
        """Stop the thread of a memory that was not closed."""
        if self._process == os.getpid():
            self.stop(timeout=_AT_EXIT)

    def _run(self) -> None:
        self._due = time.monotonic() + _BETWEEN_ROUNDS
        self._wake.wait(timeout=_BEFORE_FIRST_ROUND)
        self._wake.clear()
        self._has_work = False
        if not self._stopped:
            self._runtime.ledger.flush()
            self._round(whole=True)
        while not self._stopped:
            woken = self._wake.wait(timeout=_BETWEEN_ROUNDS)
            if woken and not self._has_work:
                self._wake.clear()
                self._wake.wait(_GATHERING_LEDGER)
            if woken and self._has_work:
                self._stop.wait(_GATHERING)
            self._wake.clear()
            # A steady stream of writes must not delay the full round forever.
            whole = not woken or time.monotonic() >= self._due
            if whole:
                self._due = time.monotonic() + _BETWEEN_ROUNDS
            has_work, self._has_work = self._has_work, False
            self._has_entries = False
            if not self._stopped:
                self._runtime.ledger.flush()
                if whole or has_work:
                    self._round(whole=whole)
        # A memory that is not closed ends here, with its process.
        self._runtime.ledger.flush()

    def _round(self, *, whole: bool) -> None:
        """Embed the waiting texts; in a `whole` round, do every other kind of work, too."""
        self.is_working = True
        try:
            self._runtime.check_for_removals(every=_BETWEEN_LOOKS)
            if whole:
                leases.release_dead_leases(self._runtime)
                pending.close_idle(self._runtime, between=self._end_if_stopped)
                from .privacy import erasure, stored_turns

                erasure.finish(self._runtime, younger_than=_STILL_ERASING)
                stored_turns.remove_own_words(self._runtime, go_on=self._goes_on)
            # Stop at the first batch that is not full, so that new texts can gather: writers wait
            # for each batch.
            while not self._stopped and pending.embed_batch(self._runtime, self._worker_id).is_full:
                pass
            if not self._stopped:
                self._feed(verify=whole)
                pending.summarize_pending(self._runtime, self._worker_id, go_on=self._has_time)
            if whole and not self._stopped:
                pending.resolve_times(self._runtime, self._worker_id)
                from . import retention

                retention.run_if_due(self._runtime, self._worker_id, self._between_batches)
        except _Stopped:
            pass
        except OctopusError as error:
            log.warning("background work failed and will be retried: %s", error.for_log())
        except Exception as error:  # noqa: BLE001 - the thread must live on
            if not self._stopped:
                log.error("background work failed: %s", _where(error))  # noqa: TRY400 - not its words
        else:
            self._last_round = self._runtime.clock.now()
        finally:
            self.is_working = False

    def _feed(self, *, verify: bool) -> None:
        fed = mirror.feed(self._runtime, self._worker_id, verify=verify, stop=self._stop.is_set)
        counts = self._runtime.counts
        counts.count_work(WorkKind.INDEX, done=fed.given, failed=int(fed.failed))
        counts.count_work(WorkKind.UNINDEX, done=fed.removed)

    def _between_batches(self, _: RetentionReport) -> None:
        self._embed_meanwhile()

    def _embed_meanwhile(self) -> None:
        """Embed new turns between the steps of long work."""
        self._end_if_stopped()
        with contextlib.suppress(OctopusError):
            while pending.embed_batch(self._runtime, self._worker_id).is_full:
                self._end_if_stopped()
            self._feed(verify=False)

    def _has_time(self) -> bool:
        """Return whether another summary may follow: False if a full round is due."""
        self._embed_meanwhile()
        if time.monotonic() < self._due:
            return True
        self._wake.set()
        return False

    def _goes_on(self) -> bool:
        self._embed_meanwhile()
        return not self._stopped

    def _end_if_stopped(self) -> None:
        if self._stopped:
            raise _Stopped
