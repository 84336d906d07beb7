"""Counters of the background work that this process has done."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from ...ports.recall_rows import WorkKind

Watcher: TypeAlias = Callable[[WorkKind, int, int], None]
"""Takes a kind of work, how many pieces were done, and how many attempts failed."""


class WorkCounters:
    """Counts since the memory was opened, for metrics. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: Counter[WorkKind] = Counter()
        self._failed: Counter[WorkKind] = Counter()
        self._watcher: Watcher | None = None

    def count(self, kind: WorkKind, *, done: int = 0, failed: int = 0) -> None:
        """Add to a kind's counts; `failed` counts attempts, so one piece may count repeatedly."""
        with self._lock:
            self._done[kind] += done
            self._failed[kind] += failed
            if self._watcher is not None:
                self._watcher(kind, done, failed)

    def counts(self) -> dict[WorkKind, tuple[int, int]]:
        """Return the finished pieces and the failed attempts of each kind."""
        with self._lock:
            return {kind: (self._done[kind], self._failed[kind]) for kind in WorkKind}

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` with the counts so far, and from now on with every change."""
        with self._lock:
            for kind in WorkKind:
                watcher(kind, self._done[kind], self._failed[kind])
            self._watcher = watcher
