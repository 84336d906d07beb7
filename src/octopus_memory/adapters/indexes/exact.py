"""Exact search in the scope: the store's own rows, kept in memory while they are in use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...domain import hashing, vectors
from ...domain.bm25 import Postings
from ...domain.episode import Scope
from ...domain.errors import StoreCorrupt
from ...domain.rows import Rows
from ...ports.index import RecallIndex, ScopeView
from ...ports.store import EpisodeStore, RecallState, Work
from .columns import Columns

DEFAULT_CACHE_BYTES = 256 * 1024 * 1024


class ExactView(ScopeView):
    def __init__(self, columns: Columns) -> None:
        order = columns.order()
        # Episodes are numbered in the order they stand in, which numbers by first sight are not.
        seen = columns.episode[order]
        starts = np.flatnonzero(np.diff(seen, prepend=-1))
        episode = np.repeat(
            np.arange(len(starts), dtype=np.int32), np.diff(starts, append=len(seen))
        )
        self.episode_ids = [columns.episode_ids[number] for number in seen[starts]]
        self.ordinals = columns.ordinal[order]
        self.speakers = columns.speakers
        self.rows = Rows.build(
            episode=episode,
            role=columns.role[order],
            speaker=columns.speaker[order],
            time=columns.time[order],
            flags=columns.flags[order],
        )
        terms, counts, row_of = hashing.unpack_all([columns.terms[row] for row in order])
        self.postings = Postings.build(terms=terms, counts=counts, row_of=row_of, rows=self.rows)
        self._vectors = columns.vectors[order]

    def cosine(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._vectors.shape[1] != len(vector):
            return np.full(len(self._vectors), np.nan, np.float32)
        return self._vectors @ vector

    @property
    def size(self) -> int:
        """About how many bytes it keeps in memory."""
        return self._vectors.nbytes + 64 * len(self.ordinals) + 16 * len(self.postings)


@dataclass(slots=True)
class _Held:
    state: RecallState
    columns: Columns
    view: ExactView
    size: int

    def goes_on_in(self, state: RecallState) -> bool:
        """Whether its rows are still there, and only newer ones can be missing."""
        return (self.state.scope_id, self.state.epoch) == (state.scope_id, state.epoch)


class ExactIndex(RecallIndex):
    """An LRU of scopes, bounded in bytes; each is brought up to date by what is new in it."""

    def __init__(self, store: EpisodeStore, *, cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._store = store
        self._cache_bytes = cache_bytes
        self._held: OrderedDict[tuple[Scope, str], _Held] = OrderedDict()
        self._lock = threading.Lock()

    def view(self, scope: Scope, model: str) -> ExactView:
        state = self._store.recall_state(scope)
        key = scope, model
        if state is None:
            with self._lock:
                self._held.pop(key, None)
            return ExactView(Columns(model=model))
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
        if held is None or held.state != state:
            held = self._load(scope, model, held if held and held.goes_on_in(state) else None)
            self._hold(key, held)
        return held.view

    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        packed = vectors.pack(np.stack([vector for _, vector in done])) if done else []
        self._store.put_vectors(
            model, [(work, vector) for (work, _), vector in zip(done, packed, strict=True)]
        )

    def forget(self) -> None:
        with self._lock:
            held = list(self._held.items())
        for key, known in held:
            state = self._store.recall_state(key[0])
            if state is None or not known.goes_on_in(state):
                with self._lock:
                    if self._held.get(key) is known:
                        del self._held[key]

    def close(self) -> None:
        with self._lock:
            self._held.clear()

    def _load(self, scope: Scope, model: str, held: _Held | None) -> _Held:
        columns = held.columns if held else Columns(model=model)
        after = columns.settled
        state, fresh = self._store.recall_rows(scope, after=after)
        if held is not None and not held.goes_on_in(state):
            return self._load(scope, model, None)
        try:
            columns = columns.with_rows(after, fresh)
            view = ExactView(columns)
        except (IndexError, OverflowError, ValueError) as error:
            raise StoreCorrupt(
                "what recall searches is damaged: restore the database from a backup"
            ) from error
        # The columns and the view each hold the vectors.
        return _Held(state=state, columns=columns, view=view, size=2 * view.size)

    def _hold(self, key: tuple[Scope, str], held: _Held) -> None:
        with self._lock:
            self._held[key] = held
            self._held.move_to_end(key)
            total = sum(other.size for other in self._held.values())
            # The newest stays even where it alone is over the bound: it is in use right now.
            while total > self._cache_bytes and len(self._held) > 1:
                _, oldest = self._held.popitem(last=False)
                total -= oldest.size
