"""How much background work this process has done, and how much it had to put off."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from ...ports.store import WorkKind

Watcher: TypeAlias = Callable[[WorkKind, int, int], None]
"""Is told the kind, how many pieces are done, and how many tries failed."""


class Tally:
    """Counts since the memory was opened, for whoever watches. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: Counter[WorkKind] = Counter()
        self._failed: Counter[WorkKind] = Counter()
        self._watcher: Watcher | None = None

    def count(self, kind: WorkKind, *, done: int = 0, failed: int = 0) -> None:
        """`failed` are tries, so that one piece of work may be among them more than once."""
        with self._lock:
            self._done[kind] += done
            self._failed[kind] += failed
            if self._watcher is not None:
                self._watcher(kind, done, failed)

    def watch(self, watcher: Watcher) -> None:
        """Have it told what is counted, and at once what was counted before it came."""
        with self._lock:
            for kind in WorkKind:
                watcher(kind, self._done[kind], self._failed[kind])
            self._watcher = watcher
