"""What the parts of the index suite share: the fixtures, vectors, and ways to look at a view."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search import term_hashing
from ...domain.search.bm25 import QueryTerms
from ...ports.index import RecallIndex, ScopeView
from ...ports.store import EpisodeStore
from ...ports.work import Work
from ..fakes import make_lexical
from ..store.base import claim_all

MODEL = "suite/48"
DIMENSION = 48
TOLERANCE = 0.02
"""What a cosine may be off by: an index may keep an int8 for each dimension."""

Places = list[tuple[UUID, int]]


class IndexTests:
    """One part of `IndexSuite`."""

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
        """A second index on the same database, as another process would have."""
        raise NotImplementedError("an index suite needs an `other_index` fixture")


def unit(seed: Sequence[int], dimension: int = DIMENSION) -> NDArray[np.float32]:
    """A unit vector that is the same for the same seed."""
    raw = np.random.default_rng(list(seed)).standard_normal(dimension)
    return (raw / np.linalg.norm(raw)).astype(np.float32)


def vector_for(
    episode_id: UUID, ordinal: int, seq: int, dimension: int = DIMENSION
) -> NDArray[np.float32]:
    """The vector that this suite gives to a row."""
    return unit([episode_id.int, ordinal + 1, seq], dimension)


def put(
    index: RecallIndex, works: Sequence[Work], model: str = MODEL, dimension: int = DIMENSION
) -> None:
    done = [
        (work, vector_for(work.episode_id, work.ordinal, work.seq, dimension)) for work in works
    ]
    index.put(model, done)


def embed(store: EpisodeStore, index: RecallIndex, model: str = MODEL) -> None:
    """Give a vector to every row that waits for one."""
    put(index, claim_all(store), model)


def places(view: ScopeView) -> Places:
    """Where each row stands, in order, after a look at whether the columns fit together."""
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
    """The rows that a search for one word finds."""
    terms, _, _ = term_hashing.unpack_all([make_lexical(word).terms])
    return [int(row) for row in np.flatnonzero(view.postings.score(QueryTerms.only(terms)).row)]


def assert_true_to(store: EpisodeStore, view: ScopeView, scope: Scope, model: str = MODEL) -> None:
    """The view holds the store's rows, each in its place and with its own vector."""
    stored = {(row.episode_id, row.ordinal): row for row in store.recall_rows(scope, after=0)[1]}
    found = places(view)
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
