"""Index suite: fixtures, vectors, helpers to read a view, and views by a probe."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search import row_format
from ...domain.search.bm25 import QueryTerms
from ...ports.index import Probe, RecallIndex, ScopeView
from ...ports.recall_rows import Work
from ...ports.store import EpisodeStore
from ...ports.values import Append
from ..fakes import make_append, make_closing, make_lexical
from ..store.base import ANA, BEN, after, claim_all

MODEL = "suite/48"
DIMENSION = 48
TOLERANCE = 0.02
"""Allowed error of a cosine, because an index may store one int8 per dimension."""

TurnRefs = list[tuple[UUID, int]]


class IndexTests:
    """A part of `IndexSuite`."""

    @pytest.fixture
    def store(self) -> EpisodeStore:
        """A new, empty store for each test."""
        raise NotImplementedError("an index suite needs a `store` fixture")

    @pytest.fixture
    def index(self, store: EpisodeStore) -> RecallIndex:
        """The index under test, on that store."""
        raise NotImplementedError("an index suite needs an `index` fixture")

    @pytest.fixture
    def other_index(self, store: EpisodeStore) -> RecallIndex:
        """A second index on the same database, as in another process."""
        raise NotImplementedError("an index suite needs an `other_index` fixture")


def unit(seed: Sequence[int], dimension: int = DIMENSION) -> NDArray[np.float32]:
    """A unit vector, equal for equal seeds."""
    raw = np.random.default_rng(list(seed)).standard_normal(dimension)
    return (raw / np.linalg.norm(raw)).astype(np.float32)


def vector_for(
    episode_id: UUID, ordinal: int, seq: int, dimension: int = DIMENSION
) -> NDArray[np.float32]:
    """The vector that this suite gives a row."""
    return unit([episode_id.int, ordinal + 1, seq], dimension)


def put(
    index: RecallIndex, works: Sequence[Work], model: str = MODEL, dimension: int = DIMENSION
) -> None:
    done = [
        (work, vector_for(work.episode_id, work.ordinal, work.seq, dimension)) for work in works
    ]
    index.put(model, done)


def embed(store: EpisodeStore, index: RecallIndex, model: str = MODEL) -> None:
    """Embed every row that waits for its vector."""
    put(index, claim_all(store), model)


def turn_refs(view: ScopeView) -> TurnRefs:
    """(Episode, ordinal) of each row in order, after checking that the columns are consistent."""
    count = len(view.rows)
    columns = (view.ordinals, view.rows.episode, view.rows.role, view.rows.time)
    assert {len(column) for column in columns} == {count}
    assert len(view.cosine(unit([0]))) == count
    return [
        (view.episode_ids[number], ordinal)
        for number, ordinal in zip(view.rows.episode.tolist(), view.ordinals.tolist(), strict=True)
    ]


def has_vector(view: ScopeView) -> list[bool]:
    return [bool(known) for known in ~np.isnan(view.cosine(unit([0])))]


def rows_with(view: ScopeView, word: str) -> list[int]:
    """Rows that a search for one word finds."""
    terms, _, _ = row_format.unpack_all([make_lexical(word).terms])
    return [int(row) for row in np.flatnonzero(view.postings.score(QueryTerms.only(terms)).row)]


def assert_true_to(store: EpisodeStore, view: ScopeView, scope: Scope, model: str = MODEL) -> None:
    """Assert that the view holds exactly the store's rows, in order and with their vectors."""
    stored = {(row.episode_id, row.ordinal): row for row in store.recall_rows(scope, after=0)[1]}
    found = turn_refs(view)
    assert len(found) == len(stored)
    assert set(found) == set(stored)
    query = unit([7])
    cosines = view.cosine(query)
    for number, place in enumerate(found):
        row = stored[place]
        assert view.rows.role[number] == row.role
        assert view.rows.time[number] == row.at
        assert view.rows.flags[number] == row.lexical.flags
        speaker = int(view.rows.speaker[number])
        assert (view.speakers[speaker] if speaker >= 0 else b"") == row.lexical.speaker
        if row.model == model:
            exact = float(vector_for(row.episode_id, row.ordinal, row.seq) @ query)
            assert abs(float(cosines[number]) - exact) < TOLERANCE
        else:
            assert np.isnan(cosines[number])


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
