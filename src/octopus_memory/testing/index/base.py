"""Shared parts of the index suite: fixtures, vectors, and helpers to read a view."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search import row_format
from ...domain.search.bm25 import QueryTerms
from ...ports.index import RecallIndex, ScopeView
from ...ports.recall_rows import Work
from ...ports.store import EpisodeStore
from ..fakes import make_lexical
from ..store.base import claim_all

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
