"""An LRU cache of scopes in memory. A cached scope is refreshed by reading only what changed."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.errors import StoreCorrupt
from ...ports.recall_rows import RecallBlock, RecallRows, RecallState

log = logging.getLogger(__name__)

DEFAULT_CACHE_BYTES = 256 * 1024 * 1024
BLOCK = 16_384
"""Rows per read, so that a large scope never stands in memory as database rows."""
_NO_STATE = RecallState(scope_id=0, version=0, epoch=0)


class CacheEntry(Protocol):
    """The cached rows of one scope. One thread at a time appends rows; rows never change.

    After rows were removed from the store, a new entry copies the remaining ones.
    """

    newest: int
    """The `seq` of the last row that was read."""

    @property
    def waiting(self) -> Sequence[int]:
        """The `seq` of each row that has no vector yet but may get one."""

    @property
    def size(self) -> int:
        """Approximate bytes in memory."""

    def reserve(self, count: int) -> None:
        """Prepare for at most `count` more rows."""

    def append(self, block: RecallBlock) -> None:
        """Add newer rows, and the vectors of rows that waited for theirs."""

    def copy_alive(self, known: Any, alive: NDArray[np.int64]) -> None:
        """Start with those rows of `known`, an entry of the same class, whose `seq` is alive."""

    def refreshed(self, scope: Scope, state: RecallState) -> None:
        """Called after every row of this state was appended."""


E = TypeVar("E", bound=CacheEntry)
MakeEntry = Callable[[str], E]
"""Makes an empty entry for vectors of one model."""
Key = tuple[Scope, str, MakeEntry[Any]]


class _Slot:
    """A place in the cache. Only the thread that holds the lock refreshes its entry."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.current: tuple[RecallState, CacheEntry] | None = None
        self.size = 0

    def since(self, state: RecallState) -> CacheEntry | None:
        """The entry, if it is of this state or a later one."""
        current = self.current
        if current is None:
            return None
        known, entry = current
        is_new = (known.scope_id, known.version) >= (state.scope_id, state.version)
        return entry if is_new else None


class ScopeCache:
    """Cached scopes, least recently used first, bounded in bytes."""

    def __init__(self, store: RecallRows, *, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._store = store
        self._cache_bytes = cache_bytes
        self._slots: OrderedDict[Key, _Slot] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    def get(self, scope: Scope, state: RecallState | None, model: str, make: MakeEntry[E]) -> E:
        """The scope's entry, made by `make`, with all rows of this state or of a later one."""
        key = scope, model, make
        if state is None:
            with self._lock:
                self._drop(key)
            empty = make(model)
            empty.refreshed(scope, _NO_STATE)
            return empty
        with self._lock:
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = _Slot()
            self._slots.move_to_end(key)
        entry = slot.since(state)
        if entry is None:
            with slot.lock:
                entry = slot.since(state) or self._refresh(slot, *key, state)
            self._measure(key, slot)
        return cast("E", entry)

    def drop_removed(self) -> None:
        """Drop rows that the store has removed from every cached scope."""
        with self._lock:
            slots = list(self._slots.items())
        for key, slot in slots:
            # Wait for a refresh in progress: it may have begun before the rows were removed.
            with slot.lock:
                is_clear = self._drop_removed_from(slot, key)
            if is_clear:
                self._measure(key, slot)
                continue
            with self._lock:
                if self._slots.get(key) is slot:
                    self._drop(key)

    def _drop_removed_from(self, slot: _Slot, key: Key) -> bool:
        """False if the slot is to be dropped: its scope is gone, or could not be read."""
        try:
            now = self._store.recall_state(key[0])
            if slot.current is None or now is None or slot.current[0].scope_id != now.scope_id:
                return False
            if not _same_epoch(slot.current[0], now):
                self._refresh(slot, *key, now)
        except Exception as error:  # noqa: BLE001 - removed rows must leave every scope
            log.warning("dropping a cached scope, refreshing it failed: %s", type(error).__name__)
            return False
        return True

    def clear(self) -> None:
        with self._lock:
            self._slots.clear()
            self._total = 0

    def _refresh(
        self, slot: _Slot, scope: Scope, model: str, make: MakeEntry[Any], state: RecallState
    ) -> CacheEntry:
        """Bring the slot's entry to this state or a later one."""
        try:
            with corrupt_rows_raise():
                now, entry = self._read_on(slot.current, scope, model, make, state)
                entry.refreshed(scope, now)
        except BaseException:
            # Rows may have been appended in part.
            slot.current = None
            raise
        slot.current = now, entry
        return entry

    def _read_on(
        self,
        current: tuple[RecallState, CacheEntry] | None,
        scope: Scope,
        model: str,
        make: MakeEntry[Any],
        state: RecallState,
    ) -> tuple[RecallState, CacheEntry]:
        """Append new rows and drop removed ones.

        Terminates under concurrent removals, because each read makes progress.
        """
        known, entry = current or (None, make(model))
        late, first = entry.waiting, None
        ask_alive = known is not None and not _same_epoch(known, state)
        while True:
            up_to = entry.newest + BLOCK
            state, block = self._store.recall_block(
                scope, after=entry.newest, up_to=up_to, late=late, model=model, alive=ask_alive
            )
            if known is not None and known.scope_id != state.scope_id:
                # The scope was erased and created again under the same name.
                known, entry, late, first = None, make(model), (), None
                continue
            if known is not None and known.epoch != state.epoch:
                if block.alive is None:
                    ask_alive = True
                    continue
                before, entry = entry, make(model)
                entry.copy_alive(before, block.alive)
            known, first, ask_alive = state, first or state, False
            entry.reserve(state.newest - entry.newest)
            entry.append(block)
            entry.newest, late = min(up_to, state.newest), ()
            if entry.newest == state.newest:
                # The first read's version: a vector stored after it must be read next time.
                return first._replace(epoch=state.epoch), entry

    def _measure(self, key: Key, slot: _Slot) -> None:
        """Update the slot's size and evict until the cache fits."""
        with self._lock:
            current = slot.current
            if self._slots.get(key) is not slot or current is None:
                return
            self._total -= slot.size
            slot.size = current[1].size
            self._total += slot.size
            # Keep the newest even if it exceeds the bound alone, because it is in use.
            while self._total > self._cache_bytes and len(self._slots) > 1:
                self._drop(next(iter(self._slots)))

    def _drop(self, key: Key) -> None:
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._total -= slot.size


def _same_epoch(known: RecallState, now: RecallState) -> bool:
    """True if no row was removed between the two states."""
    return (known.scope_id, known.epoch) == (now.scope_id, now.epoch)


@contextmanager
def corrupt_rows_raise() -> Iterator[None]:
    """Raise `StoreCorrupt` for rows that do not fit together."""
    try:
        yield
    except (IndexError, OverflowError, ValueError) as error:
        raise StoreCorrupt(
            "the recall rows are damaged: restore the database from a backup"
        ) from error
