"""Keeps keys in memory for a short time, so that a warm call needs no key store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from ...ports.scope_keys import Destroyed, KeyStoreState, ScopeKeys


class CachedKeys(ScopeKeys):
    """Another key store, asked again for a key after `seconds`.

    A key that another process destroyed is dropped in that time. `most` keys are kept.
    """

    def __init__(
        self,
        inner: ScopeKeys,
        *,
        seconds: float = 60,
        most: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, bytes]] = {}
        self._destructions = 0
        self._name_key: bytes | None = None

    def name_key(self) -> bytes:
        # It is never destroyed, so it needs no limit.
        if self._name_key is None:
            self._name_key = self._inner.name_key()
        return self._name_key

    def create(self, ref: str) -> bytes:
        if ref in (known := self._known([ref])):
            return known[ref]
        seen = self._destructions
        key = self._inner.create(ref)
        self._keep({ref: key}, seen)
        return key

    def get(self, refs: Sequence[str]) -> Mapping[str, bytes]:
        known = self._known(refs)
        missing = [ref for ref in refs if ref not in known]
        if missing:
            seen = self._destructions
            found = self._inner.get(missing)
            self._keep(found, seen)
            known.update(found)
        return known

    def destroy(self, refs: Sequence[str]) -> Destroyed:
        self._drop(refs)
        try:
            return self._inner.destroy(refs)
        finally:
            self._drop(refs)

    def destroyed(self, refs: Sequence[str]) -> Mapping[str, datetime]:
        return self._inner.destroyed(refs)

    def check(self) -> KeyStoreState:
        return self._inner.check()

    def close(self) -> None:
        with self._lock:
            self._kept.clear()
            self._destructions += 1
            self._name_key = None
        self._inner.close()

    def _known(self, refs: Sequence[str]) -> dict[str, bytes]:
        now = self._clock()
        with self._lock:
            kept = {ref: self._kept[ref] for ref in refs if ref in self._kept}
        return {ref: key for ref, (until, key) in kept.items() if now < until}

    def _keep(self, found: Mapping[str, bytes], seen: int) -> None:
        until = self._clock() + self._seconds
        with self._lock:
            if seen != self._destructions:
                return  # One of them may have been destroyed after it was read.
            for ref, key in found.items():
                # Moved to the end, so that the first is the one to expire first.
                self._kept.pop(ref, None)
                self._kept[ref] = (until, key)
            while len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]

    def _drop(self, refs: Sequence[str]) -> None:
        with self._lock:
            self._destructions += 1
            for ref in refs:
                self._kept.pop(ref, None)
