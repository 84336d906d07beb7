"""The scopes in use, kept in memory and brought up to date by what is new in each."""

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
from ...ports.store import EpisodeStore, RecallBlock, RecallState

log = logging.getLogger(__name__)

DEFAULT_CACHE_BYTES = 256 * 1024 * 1024
BLOCK = 16_384
"""Rows read at once: a large scope is never in memory as the database gives it."""
_NOTHING = RecallState(scope_id=0, version=0, epoch=0)


class Kept(Protocol):
    """What is kept of a scope. Rows are only ever added to it; one thread does so at a time.

    Where rows are gone, another takes over what is left.
    """

    newest: int
    """The `seq` up to which rows were taken in."""

    @property
    def waiting(self) -> Sequence[int]:
        """The `seq` of the rows that may still get their vector."""

    @property
    def size(self) -> int:
        """About how many bytes it keeps in memory."""

    def reserve(self, count: int) -> None:
        """At most so many rows more are going to be taken in."""

    def take_in(self, block: RecallBlock) -> None:
        """Newer rows, and vectors of those that waited."""

    def take_over(self, known: Any, alive: NDArray[np.int64]) -> None:
        """Begin with the rows of `known`, one of the same kind, that have one of these `seq`."""

    def settle(self, scope: Scope, state: RecallState) -> None:
        """Everything was taken in that was there in this state."""


K = TypeVar("K", bound=Kept)
Make = Callable[[str], K]
"""Makes what is kept, without rows as yet, for vectors of one model."""


class _Slot:
    """A place in the cache; whoever has its lock may bring what is held up to date."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held: tuple[RecallState, Kept] | None = None
        self.size = 0

    def since(self, state: RecallState) -> Kept | None:
        """What was read in this state, or in a later one."""
        held = self.held
        if held is None:
            return None
        known, kept = held
        is_new = (known.scope_id, known.version) >= (state.scope_id, state.version)
        return kept if is_new else None


class ScopeCache:
    """An LRU of scopes, bounded in bytes."""

    def __init__(self, store: EpisodeStore, *, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._store = store
        self._cache_bytes = cache_bytes
        self._slots: OrderedDict[tuple[Scope, str, Make[Any]], _Slot] = OrderedDict()
        self._total = 0
        self._lock = threading.Lock()

    def get(self, scope: Scope, state: RecallState | None, model: str, make: Make[K]) -> K:
        """What `make` makes, with all that was there in the scope's `state`, or more."""
        key = scope, model, make
        if state is None:
            with self._lock:
                self._drop(key)
            nothing = make(model)
            nothing.settle(scope, _NOTHING)
            return nothing
        with self._lock:
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = _Slot()
            self._slots.move_to_end(key)
        kept = slot.since(state)
        if kept is None:
            with slot.lock:
                kept = slot.since(state) or self._refresh(slot, *key, state)
            self._weigh(key, slot)
        return cast("K", kept)

    def drop_removed(self) -> None:
        with self._lock:
            slots = list(self._slots.items())
        for key, slot in slots:
            # Whoever is reading rows right now may have begun before they were removed.
            with slot.lock:
                is_clear = self._clear_of_gone(slot, key)
            if is_clear:
                self._weigh(key, slot)
                continue
            with self._lock:
                if self._slots.get(key) is slot:
                    self._drop(key)

    def _clear_of_gone(self, slot: _Slot, key: tuple[Scope, str, Make[Any]]) -> bool:
        """Leave rows that are gone out of what is held; whether there is something left to hold."""
        try:
            now = self._store.recall_state(key[0])
            if slot.held is None or now is None or slot.held[0].scope_id != now.scope_id:
                return False
            if not _goes_on(slot.held[0], now):
                self._refresh(slot, *key, now)
        except Exception as error:  # noqa: BLE001 - what was removed must leave every scope
            log.warning("a scope is read anew when it is next used: %s", type(error).__name__)
            return False
        return True

    def clear(self) -> None:
        with self._lock:
            self._slots.clear()
            self._total = 0

    def _refresh(
        self, slot: _Slot, scope: Scope, model: str, make: Make[Any], state: RecallState
    ) -> Kept:
        """Bring what is held to this state, or a later one."""
        try:
            with damage_told():
                now, kept = self._read_on(slot.held, scope, model, make, state)
                kept.settle(scope, now)
        except BaseException:
            # It may be half taken in.
            slot.held = None
            raise
        slot.held = now, kept
        return kept

    def _read_on(
        self,
        held: tuple[RecallState, Kept] | None,
        scope: Scope,
        model: str,
        make: Make[Any],
        state: RecallState,
    ) -> tuple[RecallState, Kept]:
        """What is held with all that is new, and without what is gone by then.

        However often rows are removed meanwhile, every read brings it further.
        """
        known, kept = held or (None, make(model))
        late, first = kept.waiting, None
        asks = known is not None and not _goes_on(known, state)
        while True:
            up_to = kept.newest + BLOCK
            state, block = self._store.recall_block(
                scope, after=kept.newest, up_to=up_to, late=late, model=model, alive=asks
            )
            if known is not None and known.scope_id != state.scope_id:
                # Another scope, of the same name.
                known, kept, late, first = None, make(model), (), None
                continue
            if known is not None and known.epoch != state.epoch:
                if block.alive is None:
                    asks = True
                    continue
                before, kept = kept, make(model)
                kept.take_over(before, block.alive)
            known, first, asks = state, first or state, False
            kept.reserve(state.newest - kept.newest)
            kept.take_in(block)
            kept.newest, late = min(up_to, state.newest), ()
            if kept.newest == state.newest:
                # A vector that came after the first read is still awaited.
                return first._replace(epoch=state.epoch), kept

    def _weigh(self, key: tuple[Scope, str, Make[Any]], slot: _Slot) -> None:
        with self._lock:
            held = slot.held
            if self._slots.get(key) is not slot or held is None:
                return
            self._total -= slot.size
            slot.size = held[1].size
            self._total += slot.size
            # The newest stays even where it alone is over the bound: it is in use right now.
            while self._total > self._cache_bytes and len(self._slots) > 1:
                self._drop(next(iter(self._slots)))

    def _drop(self, key: tuple[Scope, str, Make[Any]]) -> None:
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._total -= slot.size


def _goes_on(known: RecallState, now: RecallState) -> bool:
    """Whether the rows known are still there, and only newer ones can be missing."""
    return (known.scope_id, known.epoch) == (now.scope_id, now.epoch)


@contextmanager
def damage_told() -> Iterator[None]:
    """Rows that do not fit together."""
    try:
        yield
    except (IndexError, OverflowError, ValueError) as error:
        raise StoreCorrupt(
            "what recall searches is damaged: restore the database from a backup"
        ) from error
