"""A part of a very large scope, found by its sketch and read from the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Protocol
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search.bm25 import Beyond
from ...ports.index import Probe
from ...ports.store import EpisodeStore
from .partial_view import MOST_EPISODES, MOST_WAITING, view_of
from .reading import stored_cosines
from .scope_cache import BLOCK, damage_told
from .scope_views import ExactView
from .sketch import Hits, Segment, together


class Source(Protocol):
    """Where the segments of a scope come from."""

    @property
    def segments(self) -> Iterable[Segment]:
        """They are gone through more than once."""

    def sample(self, take: Callable[[], ExactView]) -> ExactView:
        """What `take` gives, now or not long ago."""


class Streamed:
    """Segments that are made while they are looked at, and not kept."""

    def __init__(
        self, store: EpisodeStore, scope: Scope, model: str, count: Callable[[int, int], None]
    ) -> None:
        """`count` is told how many rows there are up to which `seq`, once all were seen."""
        self._store, self._scope, self._model, self._count = store, scope, model, count

    @property
    def segments(self) -> Iterator[Segment]:
        after, newest, rows = 0, 1, 0
        spoken: set[UUID] = set()
        while after < newest:
            state, block = self._store.recall_block(self._scope, after=after, up_to=after + BLOCK)
            after, newest = after + BLOCK, state.newest
            segment = Segment(spoken)
            with damage_told():
                segment.take_in(block, self._model)
                segment.settle()
            rows += segment.count
            yield segment
        self._count(newest, rows)

    def sample(self, take: Callable[[], ExactView]) -> ExactView:
        return take()


_COMPARED = 600
"""How many rows that the signs bring near are compared by their vectors: signs order them roughly.
"""
_STRETCHES, _STRETCH = 50, 64
_LEAST_SAMPLE = 500
_ROWS = 10_000
"""The most rows that are read for one question, but for a long list that is asked for."""


def part_of(
    store: EpisodeStore, scope: Scope, model: str, probe: Probe, source: Source, newest: int
) -> ExactView:
    """The view of the episodes that the probe comes near to, and of what waits."""
    wanted = max(MOST_EPISODES, probe.episodes)
    seen = _Seen(probe, max(_COMPARED, 2 * wanted))
    for segment in source.segments:
        seen.look_at(segment)
    meaning = _compared(store, scope, model, probe, seen.near)
    hits = _in_turns(meaning, seen.like, wanted)
    if len(set(hits.episode_ids)) < probe.episodes:
        last = [segment.newest(probe, probe.episodes) for segment in source.segments]
        hits = together([hits, together(last).best(probe.episodes)])
    chosen = frozenset(hits.episode_ids)
    rows = np.concatenate([segment.rows_of(chosen) for segment in source.segments])
    seqs = _nearest(rows, hits.seq, max(_ROWS, 20 * wanted))
    view = view_of(store, scope, model, sorted({*seqs, *sorted(seen.waiting)[-MOST_WAITING:]}))
    sample = source.sample(lambda: view_of(store, scope, model, _stretches(newest)))
    seen.tell(view, sample)
    return view


class _Seen:
    """What one look at every segment brings."""

    def __init__(self, probe: Probe, most: int) -> None:
        self._probe, self._most = probe, most
        self._terms = np.unique(probe.terms)
        self._having = np.zeros(len(self._terms), np.intp)
        self._near: list[Hits] = []
        self._like: list[Hits] = []
        self._rows = self._episodes = 0
        self.waiting: list[int] = []

    def look_at(self, segment: Segment) -> None:
        self._near.append(segment.near(self._probe, self._most))
        self._like.append(segment.like(self._probe, self._most))
        self._having += segment.having(self._terms)
        self._rows += segment.count
        self._episodes += segment.episodes
        self.waiting += segment.waiting

    @property
    def near(self) -> Hits:
        return together(self._near).best(self._most)

    @property
    def like(self) -> Hits:
        return together(self._like).best(self._most)

    def tell(self, view: ExactView, sample: ExactView) -> None:
        """How rare words are in the scope, and what its rows are like."""
        if len(sample.rows) < _LEAST_SAMPLE:
            return
        beyond = Beyond(
            rows=self._rows,
            episodes=self._episodes,
            terms=self._terms,
            having=self._having,
            sampled=sample.rows.episodes,
            sampled_having=sample.postings.episodes_having(self._terms),
        )
        view.sample = copy(sample)
        for either in (view, view.sample):
            either.postings = replace(either.postings, beyond=beyond)


def _stretches(newest: int) -> list[int]:
    """Rows from all over the scope, some that stand together at a time."""
    starts = range(1, newest + 1, max(_STRETCH, newest // _STRETCHES))
    return [seq for start in starts for seq in range(start, start + _STRETCH)]


def _compared(store: EpisodeStore, scope: Scope, model: str, probe: Probe, near: Hits) -> Hits:
    """By the vectors themselves."""
    if probe.vector is None or not len(near.seq):
        return near
    cosines = stored_cosines(store, scope, model, near.seq.tolist(), probe.vector)
    known = int(np.count_nonzero(~np.isnan(cosines)))
    return replace(near, weight=np.nan_to_num(cosines, nan=-2.0)).best(known)


def _in_turns(meaning: Hits, words: Hits, episodes: int) -> Hits:
    """The best of the one, the best of the other, and so on, up to so many episodes."""
    turns = [
        np.arange(len(meaning.seq)) * 2.0,
        np.arange(len(words.seq)) * 2.0 + 1,
    ]
    both = replace(together([meaning, words]), weight=-np.concatenate(turns).astype(np.float32))
    both = both.best(len(both.seq))
    seen: set[UUID] = set()
    for place, episode_id in enumerate(both.episode_ids):
        seen.add(episode_id)
        if len(seen) == episodes:
            return both.best(place + 1)
    return both


def _nearest(rows: NDArray[np.int64], hits: NDArray[np.int64], most: int) -> list[int]:
    """So many of these rows, those that stand next to what was found."""
    if len(rows) > most:
        found = np.sort(hits)
        after = np.searchsorted(found, rows).clip(1, len(found) - 1)
        apart = np.minimum(abs(rows - found[after - 1]), abs(rows - found[after]))
        rows = rows[np.argsort(apart, kind="stable")[:most]]
    near: list[int] = rows.tolist()
    return near
