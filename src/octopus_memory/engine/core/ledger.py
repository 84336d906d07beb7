"""The ledger's write side: entries wait in memory, and are stored in batches.

A call that makes a block does not wait for the disk. Where a memory has its background thread,
that thread stores what waits about a second later; else each entry is stored at once. Reading
the ledger, exporting, erasing and closing store what waits first. A process that is killed loses
the entries that wait: the ledger explains answers, and no other data depends on it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ...domain.episode import Scope
from ...domain.errors import OctopusError
from ...domain.forget_wish import is_forget_wish
from ...ports.episodes import Ledger

if TYPE_CHECKING:
    from ...domain.ledger import Injection

log = logging.getLogger(__name__)

_MOST_WAITING = 10_000
"""Entries that wait while the database is away; then the oldest are dropped."""
_BATCH = 200


class LedgerQueue:
    """Entries that are to be stored. Thread-safe."""

    def __init__(self, ledger: Ledger, *, read_only: bool) -> None:
        self._ledger = ledger
        self._read_only = read_only
        self._waiting: deque[tuple[Scope, Injection]] = deque(maxlen=_MOST_WAITING)
        self._writing = threading.Lock()
        self.wake: Callable[[], None] | None = None
        """Tells the background thread to call `flush`; without one, `note` calls it."""

    def note(self, scope: Scope, entry: Injection) -> None:
        """Take an entry; a failure to store it is logged, and never raised."""
        if self._read_only:
            return
        if entry.query is not None and is_forget_wish(entry.query):
            # The wish repeats what is to be forgotten.
            entry = replace(entry, query=None)
        self._waiting.append((scope, entry))
        if self.wake is None or len(self._waiting) >= _BATCH:
            self.flush()
        else:
            self.wake()

    def flush(self) -> None:
        """Store what waits. A batch that fails waits on, for the next call."""
        if not self._waiting:
            return
        with self._writing:
            while batch := [self._waiting[i] for i in range(min(_BATCH, len(self._waiting)))]:
                try:
                    self._store_batch(batch)
                except OctopusError as error:
                    log.warning("the ledger is not written now: %s", error.for_log())
                    return
                for _ in batch:
                    self._waiting.popleft()

    def _store_batch(self, batch: list[tuple[Scope, Injection]]) -> None:
        # Row-level security lets a transaction write for one tenant alone.
        for tenant in dict.fromkeys(scope.tenant for scope, _ in batch):
            self._ledger.record_injections(
                tenant, [(scope, entry) for scope, entry in batch if scope.tenant == tenant]
            )
