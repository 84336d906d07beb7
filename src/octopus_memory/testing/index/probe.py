"""Index suite: a view by a probe may be part of its scope, but never lacks what is near."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search import row_format
from ...domain.search.bm25 import QueryTerms
from ...ports.index import Probe, RecallIndex, ScopeView
from ...ports.store import EpisodeStore
from ...ports.values import Append
from ..fakes import make_append, make_closing, make_lexical
from ..store.base import ANA, BEN, after, claim_all
from .base import MODEL, TOLERANCE, IndexTests, embed, turn_refs, unit, vector_for

_EPISODES = 12
_NO_TERMS: NDArray[np.uint32] = np.empty(0, np.uint32)


def _fill(store: EpisodeStore, scope: Scope = ANA) -> list[Append]:
    """Store episodes of two turns and a summary, a day apart; each has a word of its own."""
    writes = [
        make_append(
            scope,
            f"common special{number}",
            "common words",
            session_id=str(number),
            at=after(days=number),
            closing=make_closing(after(days=number, hours=1)),
        )
        for number in range(_EPISODES)
    ]
    for write in writes:
        store.append(write)
    return writes


def _view(index: RecallIndex, probe: Probe, scope: Scope = ANA) -> ScopeView:
    asked: list[Probe] = []

    def ask() -> Probe:
        asked.append(probe)
        return probe

    view = index.view(scope, MODEL, ask)
    assert len(asked) <= 1
    return view


class ProbeTests(IndexTests):
    @pytest.fixture
    def eager_index(self, index: RecallIndex) -> RecallIndex:
        """The index under test, set to use the probe even in the smallest scope, if it can."""
        return index

    def test_what_is_near_is_there(
        self, store: EpisodeStore, index: RecallIndex, eager_index: RecallIndex
    ) -> None:
        writes = _fill(store)
        embed(store, index)
        rows = store.recall_rows(ANA, after=0)[1]
        for wanted in (rows[0], rows[17], rows[-1]):
            vector = vector_for(wanted.episode_id, wanted.ordinal, wanted.seq)
            view = _view(eager_index, Probe(vector=vector, terms=_NO_TERMS, episodes=1))
            best = int(np.nanargmax(view.cosine(vector)))
            assert turn_refs(view)[best] == (wanted.episode_id, wanted.ordinal)
            assert float(view.cosine(vector)[best]) > 1 - TOLERANCE
        assert len(writes) == _EPISODES

    def test_words_are_there(
        self, store: EpisodeStore, index: RecallIndex, eager_index: RecallIndex
    ) -> None:
        writes = _fill(store)
        embed(store, index)
        terms, _, _ = row_format.unpack_all([make_lexical("special7").terms])
        view = _view(eager_index, Probe(vector=None, terms=terms, episodes=1))
        best = int(np.argmax(view.postings.score(QueryTerms.only(terms)).row))
        assert turn_refs(view)[best] == (writes[7].episode_id, 0)

    def test_an_episode_is_there_with_all_its_rows(
        self, store: EpisodeStore, index: RecallIndex, eager_index: RecallIndex
    ) -> None:
        _fill(store)
        embed(store, index)
        view = _view(eager_index, Probe(vector=unit([5]), terms=_NO_TERMS, episodes=2))
        stored = {(row.episode_id, row.ordinal) for row in store.recall_rows(ANA, after=0)[1]}
        shown = set(view.episode_ids)
        assert set(turn_refs(view)) == {place for place in stored if place[0] in shown}

    def test_never_fewer_episodes_than_asked_for(
        self, store: EpisodeStore, index: RecallIndex, eager_index: RecallIndex
    ) -> None:
        _fill(store)
        embed(store, index)
        for wanted in (1, 5, _EPISODES, 1_000):
            for vector in (None, unit([3])):
                probe = Probe(vector=vector, terms=_NO_TERMS, episodes=wanted)
                assert len(_view(eager_index, probe).episode_ids) >= min(wanted, _EPISODES)

    def test_what_waits_is_always_there(
        self, store: EpisodeStore, index: RecallIndex, eager_index: RecallIndex
    ) -> None:
        _fill(store)
        embed(store, index)
        new = make_append(ANA, "not embedded yet", session_id="new", at=after(days=-1))
        store.append(new)
        view = _view(eager_index, Probe(vector=unit([3]), terms=_NO_TERMS, episodes=1))
        assert (new.episode_id, 0) in turn_refs(view)

    def test_others_that_are_nearer_take_nothing_away(
        self, store: EpisodeStore, index: RecallIndex, eager_index: RecallIndex
    ) -> None:
        mine = {write.episode_id for write in _fill(store)}
        _fill(store, BEN)
        near = unit([3])
        works = claim_all(store)
        # Every row of the other scope is closer to the query than any of these.
        index.put(
            MODEL, [(work, near if work.scope == BEN else unit([work.seq, 9])) for work in works]
        )
        view = _view(eager_index, Probe(vector=near, terms=_NO_TERMS, episodes=6))
        assert len(view.episode_ids) >= 6
        assert set(view.episode_ids) <= mine

    def test_a_filter_leaves_what_there_is(
        self, store: EpisodeStore, index: RecallIndex, eager_index: RecallIndex
    ) -> None:
        writes = _fill(store)
        store.archive(ANA, writes[4].episode_id)
        embed(store, index)
        first, last = (round(after(days=day).timestamp() * 1e6) for day in (3, 6))
        probe = Probe(
            # Closest to an episode that the filter excludes.
            vector=vector_for(writes[9].episode_id, 0, 28),
            terms=_NO_TERMS,
            episodes=3,
            since=first,
            until=last,
            include_archived=False,
        )
        view = _view(eager_index, probe)
        assert {writes[day].episode_id for day in (3, 5)} <= set(view.episode_ids)

    def test_a_scope_without_rows(self, store: EpisodeStore, eager_index: RecallIndex) -> None:
        store.append(make_append(BEN, "hello"))
        view = _view(eager_index, Probe(vector=unit([3]), terms=_NO_TERMS, episodes=5))
        assert turn_refs(view) == []
