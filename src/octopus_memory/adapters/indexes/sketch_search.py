"""Search of a very large scope: candidates from its sketch, then exact ranking from the store."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search.bm25 import ScopeCounts
from ...ports.index import Probe
from ...ports.recall_rows import RecallRows
from .partial_view import MAX_EPISODES, MAX_UNINDEXED, stored_cosines, view_of_rows
from .scope_views import ExactView
from .sketch import Hits, Segment, Sketch, merge_hits

_COMPARED = 600
"""Candidates by signs that are compared by their vectors, because signs order them only roughly."""
_STRETCHES, _STRETCH = 50, 64
_MIN_SAMPLE = 500
_ROWS = 10_000
"""Most rows read for one question, unless a long list of episodes is asked for."""


def search_sketch(
    store: RecallRows, scope: Scope, model: str, probe: Probe, sketch: Sketch, newest: int
) -> ExactView:
    """A view of the episodes near the probe and of the rows without a vector yet."""
    wanted = max(MAX_EPISODES, probe.episodes)
    found = _Candidates(probe, max(_COMPARED, 2 * wanted))
    for segment in sketch.segments:
        found.search(segment)
    meaning = _rerank(store, scope, model, probe, found.near)
    hits = _interleave(meaning, found.by_terms, wanted)
    if len(set(hits.episode_ids)) < probe.episodes:
        newest_hits = [
            segment.newest_episodes(probe, probe.episodes) for segment in sketch.segments
        ]
        hits = merge_hits([hits, merge_hits(newest_hits).best(probe.episodes)])
    chosen = frozenset(hits.episode_ids)
    rows = np.concatenate([segment.rows_of(chosen) for segment in sketch.segments])
    seqs = _around_hits(rows, hits.seq, max(_ROWS, 20 * wanted))
    view = view_of_rows(
        store, scope, model, sorted({*seqs, *sorted(found.waiting)[-MAX_UNINDEXED:]})
    )
    sample = sketch.sample(lambda: view_of_rows(store, scope, model, _stretches(newest)))
    found.normalize(view, sample)
    return view


class _Candidates:
    """Candidate rows of all segments, and counts over the whole scope."""

    def __init__(self, probe: Probe, most: int) -> None:
        self._probe, self._most = probe, most
        self._terms = np.unique(probe.terms)
        self._having = np.zeros(len(self._terms), np.intp)
        self._near: list[Hits] = []
        self._by_terms: list[Hits] = []
        self._rows = self._episodes = 0
        self.waiting: list[int] = []

    def search(self, segment: Segment) -> None:
        self._near.append(segment.nearest(self._probe, self._most))
        self._by_terms.append(segment.best_by_terms(self._probe, self._most))
        self._having += segment.row_counts(self._terms)
        self._rows += segment.count
        self._episodes += segment.episodes
        self.waiting += segment.waiting

    @property
    def near(self) -> Hits:
        return merge_hits(self._near).best(self._most)

    @property
    def by_terms(self) -> Hits:
        return merge_hits(self._by_terms).best(self._most)

    def normalize(self, view: ExactView, sample: ExactView) -> None:
        """Give the view term counts of the whole scope and a sample of its rows."""
        if len(sample.rows) < _MIN_SAMPLE:
            return
        scope_counts = ScopeCounts(
            rows=self._rows,
            episodes=self._episodes,
            terms=self._terms,
            having=self._having,
            sampled=sample.rows.episodes,
            sampled_having=sample.postings.episodes_having(self._terms),
        )
        view.sample = copy(sample)
        for either in (view, view.sample):
            either.postings = replace(either.postings, scope_counts=scope_counts)


def _stretches(newest: int) -> list[int]:
    """The `seq` of rows in stretches from all over the scope."""
    starts = range(1, newest + 1, max(_STRETCH, newest // _STRETCHES))
    return [seq for start in starts for seq in range(start, start + _STRETCH)]


def _rerank(store: RecallRows, scope: Scope, model: str, probe: Probe, near: Hits) -> Hits:
    """Hits weighted by the cosine of their stored vectors, without rows that have none."""
    if probe.vector is None or not len(near.seq):
        return near
    cosines = stored_cosines(store, scope, model, near.seq.tolist(), probe.vector)
    known = int(np.count_nonzero(~np.isnan(cosines)))
    return replace(near, weight=np.nan_to_num(cosines, nan=-2.0)).best(known)


def _interleave(meaning: Hits, words: Hits, episodes: int) -> Hits:
    """Hits of both lists taken alternately, best first, until they cover `episodes` episodes."""
    ranks = [
        np.arange(len(meaning.seq)) * 2.0,
        np.arange(len(words.seq)) * 2.0 + 1,
    ]
    both = replace(merge_hits([meaning, words]), weight=-np.concatenate(ranks).astype(np.float32))
    both = both.best(len(both.seq))
    seen: set[UUID] = set()
    for i, episode_id in enumerate(both.episode_ids):
        seen.add(episode_id)
        if len(seen) == episodes:
            return both.best(i + 1)
    return both


def _around_hits(rows: NDArray[np.int64], hits: NDArray[np.int64], most: int) -> list[int]:
    """At most `most` of these rows: those closest to a hit."""
    if len(rows) > most:
        found = np.sort(hits)
        after = np.searchsorted(found, rows).clip(1, len(found) - 1)
        apart = np.minimum(abs(rows - found[after - 1]), abs(rows - found[after]))
        rows = rows[np.argsort(apart, kind="stable")[:most]]
    near: list[int] = rows.tolist()
    return near
