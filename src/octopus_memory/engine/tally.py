"""How much background work this process has done, and how much it had to put off."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from ..ports.store import WorkKind


class Tally:
    """Counts since the memory was opened. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done: Counter[WorkKind] = Counter()
        self._failed: Counter[WorkKind] = Counter()
        self.watch: Callable[[WorkKind, int, int], None] = lambda *_: None
        """Is told what is counted: the kind, how many are done, and how many tries failed."""

    def count(self, kind: WorkKind, *, done: int = 0, failed: int = 0) -> None:
        """`failed` are tries, so that one piece of work may be among them more than once."""
        with self._lock:
            self._done[kind] += done
            self._failed[kind] += failed
        self.watch(kind, done, failed)

    def done(self, kind: WorkKind) -> int:
        return self._done[kind]

    def failed(self, kind: WorkKind) -> int:
        return self._failed[kind]
