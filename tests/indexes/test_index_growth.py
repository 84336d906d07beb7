"""A view that grew row by row equals a view made of all rows at once."""

from __future__ import annotations

import random
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.adapters.indexes import scope_cache, scope_columns, scope_views, sketch
from octopus_memory.adapters.indexes.exact import ExactIndex
from octopus_memory.adapters.indexes.sketch import count_ones_by_table
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.search import row_format, term_lists
from octopus_memory.domain.search.term_lists import Layers, TermList, with_newer
from octopus_memory.ports.index import Probe
from octopus_memory.ports.values import SUMMARY_ORDINAL
from octopus_memory.testing import (
    make_append,
    make_closing,
    make_lexical,
    make_summary,
)
from octopus_memory.testing.index.base import MODEL, unit
from octopus_memory.testing.store.base import ANA, claim_all
from tests.support.random_scope import WORDS, RandomScope, segments_of, visible_state


@pytest.fixture
def _no_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extend even small views, which are otherwise rebuilt."""
    for module in (scope_views, scope_columns, term_lists):
        monkeypatch.setattr(module, "_FEW", 0)


@pytest.mark.usefixtures("_no_few")
@pytest.mark.parametrize("seed", range(6))
def test_a_grown_view_equals_a_rebuilt_one(seed: int) -> None:
    life, most = RandomScope(seed), 0
    for step in range(80):
        life.step()
        if step % 30 == 29:
            life.erase()
        grown = life.index.view(ANA, MODEL)
        assert visible_state(grown) == visible_state(ExactIndex(life.store).view(ANA, MODEL))
        most = max(most, len(grown.rows))
    assert most > 20
    life.close()


def _found(index: ExactIndex) -> list[object]:
    """Results of a sketch that do not depend on where its segments end."""
    segments = segments_of(index)
    terms, _, _ = row_format.unpack_all([make_lexical(" ".join(WORDS)).terms])
    known = sorted({str(known) for segment in segments for known in segment._ids})
    near = []
    for include_archived in (True, False):
        for number in range(3):
            probe = Probe(
                vector=unit([number]),
                terms=terms[:0],
                episodes=1,
                include_archived=include_archived,
            )
            hits = sketch.merge_hits([segment.nearest(probe, 999) for segment in segments])
            near.append(sorted(zip(hits.seq.tolist(), hits.weight.tolist(), strict=True)))
    return [
        known,
        near,
        np.sum([segment.row_counts(terms) for segment in segments], axis=0).tolist(),
        sorted(seq for segment in segments for seq in segment.waiting),
        [segment.rows_of(map(UUID, known)).tolist() for segment in segments if segment.count],
    ]


@pytest.mark.usefixtures("_no_few")
@pytest.mark.parametrize("seed", range(4))
def test_a_grown_sketch_equals_a_rebuilt_one(seed: int) -> None:
    # All in one segment, because the segment of an episode's turns depends on how it grew.
    life = RandomScope(seed, exact_rows=-1)
    for step in range(80):
        life.step()
        if step % 30 == 29:
            life.erase()
        if life.store.recall_state(ANA) is not None:
            assert _found(life.index) == _found(ExactIndex(life.store, exact_rows=-1))
    life.close()


def test_a_summary_far_from_its_turns_is_not_taken_for_an_archived_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sketch, "_ROWS", 4)
    monkeypatch.setattr(scope_cache, "BLOCK", 4)

    store = SqliteStore(":memory:")
    first = make_append(ANA, "a question", "an answer", session_id="first")
    store.append(first)
    for number in range(5):
        store.append(make_append(ANA, "a thing", "another", session_id=str(number)))
    closing = make_closing(summary=make_summary("rare"))
    store.close_episode(ANA, first.episode_id, closing, expect_messages=2)
    works = claim_all(store)
    [summary] = [work.seq for work in works if work.ordinal == SUMMARY_ORDINAL]
    ExactIndex(store).put(MODEL, [(work, unit([1])) for work in works])
    probe = Probe(
        vector=unit([1]), terms=np.empty(0, np.uint32), episodes=1, include_archived=False
    )
    index = ExactIndex(store, exact_rows=0)
    hits = [segment.nearest(probe, 99) for segment in segments_of(index)]
    assert summary in sketch.merge_hits(hits).seq
    index.close()
    store.close()


@pytest.mark.slow
def test_a_sketch_finds_what_exact_search_finds(tmp_path: Path) -> None:
    chance = random.Random(11)
    subjects = [[f"topic{number}{end}" for end in "abcdefgh"] for number in range(40)]
    with EpisodicMemory.open(
        tmp_path / "memory.db", embedder=HashingEmbedder(), background=False
    ) as memory:
        scope = memory.scope(tenant="acme", user="ana")
        for number in range(160):
            words = subjects[number % 40] + WORDS
            said = [("user", " ".join(chance.choices(words, k=12))) for _ in range(6)]
            scope.store(said, session_id=str(number))
        memory.flush()
        asked = [" ".join(chance.sample(subject, 4)) for subject in subjects[:10]]
        exact = [[hit.episode_id for hit in scope.recall(query)] for query in asked]
        object.__setattr__(
            memory.runtime, "index", ExactIndex(memory.runtime.store, exact_rows=100)
        )
        found = [[hit.episode_id for hit in scope.recall(query)] for query in asked]
    assert [some[0] for some in found] == [some[0] for some in exact]
    shared = sum(len(set(mine) & set(theirs)) for mine, theirs in zip(found, exact, strict=True))
    assert shared >= 45


def test_bits_are_counted_without_the_newest_numpy() -> None:
    numbers = np.random.default_rng(3).integers(0, 2**64, 1_000, dtype=np.uint64)
    assert count_ones_by_table(numbers).tolist() == [
        number.bit_count() for number in numbers.tolist()
    ]


@pytest.mark.usefixtures("_no_few")
def test_lists_of_terms_that_grew_are_the_lists_made_at_once() -> None:
    chance = np.random.default_rng(5)
    terms = chance.integers(0, 2**32, 50, dtype=np.uint32)[chance.integers(0, 50, 4_000)]
    rows = np.repeat(np.arange(400, dtype=np.int32), 10)
    often = chance.integers(1, 200, 4_000).astype(np.uint8)
    layers: Layers = ()
    for start in range(0, 4_000, 10):
        some = slice(start, start + 10)
        layers = with_newer(layers, TermList.build(terms[some], often[some], rows[some]))
    whole = TermList.build(terms, often, rows)
    assert len(layers) == 2
    grown = layers[0].joined(layers[1])
    for name in ("vocabulary", "offsets", "row_of", "often"):
        assert getattr(grown, name).tolist() == getattr(whole, name).tolist()
    left = np.arange(400, dtype=np.int32) - 1
    left[7] = -1
    fewer = grown.renumbered(left)
    assert set(fewer.row_of.tolist()) == set(range(399)) - {6}
    assert len(fewer) == len(grown) - 20
