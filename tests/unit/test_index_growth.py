"""A view that grew row by row is the view that is made of all rows at once."""

from __future__ import annotations

import dataclasses
import gc
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.adapters.indexes import cache, large, ordering, sketch, views
from octopus_memory.adapters.indexes.columns import Columns
from octopus_memory.adapters.indexes.exact import EXACT_ROWS, ExactIndex
from octopus_memory.adapters.indexes.sketch import Segment, ones_by_table
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.adapters.stores.statements import recalling
from octopus_memory.domain import hashing, term_lists
from octopus_memory.domain.bm25 import Sought
from octopus_memory.domain.errors import StoreUnavailable
from octopus_memory.domain.message import Json
from octopus_memory.domain.term_lists import Layers, TermList, with_newer
from octopus_memory.ports.index import Probe, ScopeView
from octopus_memory.ports.recall import RecallBlock, RecallState
from octopus_memory.ports.store import SUMMARY_ORDINAL, Append, NewTurn, Target
from octopus_memory.testing import make_append, make_closing, make_lexical, make_summary, make_turn
from octopus_memory.testing.fakes import START, make_next
from octopus_memory.testing.index_tests import MODEL, put, unit
from octopus_memory.testing.store_suite_erasing import erase
from octopus_memory.testing.store_suite_keeping import findable
from octopus_memory.testing.store_tests import ANA, claim_all

_WORDS = [f"word{number}" for number in range(40)]


class _Counting(SqliteStore):
    """Tells how many recall rows were read whole."""

    read = 0

    def recall_block(self, *args: Any, **named: Any) -> tuple[RecallState, RecallBlock]:
        state, block = super().recall_block(*args, **named)
        self.read += len(block)
        return state, block


class _Life:
    """A scope, and whatever may happen to it."""

    def __init__(self, seed: int, *, exact_rows: int = EXACT_ROWS) -> None:
        self.store = _Counting(":memory:")
        self.index = ExactIndex(self.store, exact_rows=exact_rows)
        self._chance = random.Random(seed)
        self._open: list[Append] = []
        self._closed: list[Append] = []
        self._deleted: list[Append] = []
        self._deeds: list[Callable[[], None]] = [
            *(self._start, self._start, self._add, self._add, self._add, self._add, self._add),
            *(self._close, self._close, self._resume, self._archive, self._resummarize),
            *(self._delete, self._restore, self._embed, self._embed, self._embed),
        ]

    def go_on(self) -> None:
        self._chance.choice(self._deeds)()

    def erase(self) -> None:
        """Some episode, open or closed."""
        for writes in (self._open, self._closed):
            for write in self._one_of(writes):
                erase(self.store, ANA, episode_id=write.episode_id)
                writes.remove(write)
        self.index.forget()

    def close(self) -> None:
        self.index.close()
        self.store.close()

    def _turns(self, count: int) -> list[dict[str, Json]]:
        return [
            {"role": role, "content": " ".join(self._chance.choices(_WORDS, k=5))}
            | ({"name": self._chance.choice(["Ana", "Ben"])} if role == "user" else {})
            for role in self._chance.choices(["user", "assistant"], k=count)
        ]

    def _said(self, most: int) -> list[NewTurn]:
        at = START + timedelta(minutes=self._chance.randint(0, 500))
        return [make_turn(said, at=at) for said in self._turns(self._chance.randint(1, most))]

    def _start(self) -> None:
        said = self._said(4)
        write = make_append(ANA, *said, session_id=str(len(self._open) + self._chance.random()))
        write = dataclasses.replace(write, at=said[0].at, now=said[0].at)
        self.store.append(write)
        self._open.append(write)

    def _add(self) -> None:
        for write in self._one_of(self._open):
            self.store.append(make_next(write, *self._said(3)))

    def _close(self) -> None:
        for write in self._one_of(self._open):
            count = self.store.episodes(ANA, [write.episode_id])[write.episode_id].message_count
            closing = make_closing(START, " ".join(self._chance.choices(_WORDS, k=8)))
            self.store.close_episode(ANA, write.episode_id, closing, expect_messages=count)
            self._open.remove(write)
            self._closed.append(write)

    def _resume(self) -> None:
        for write in self._one_of(self._closed):
            self.store.append(make_next(write, *self._said(2), target=Target.RESUME))
            self._closed.remove(write)
            self._open.append(write)

    def _archive(self) -> None:
        for write in self._one_of(self._closed):
            self.store.archive(ANA, write.episode_id)
            self._closed.remove(write)

    def _delete(self) -> None:
        for write in self._one_of(self._closed):
            self.store.delete(ANA, write.episode_id, at=START)
            self._closed.remove(write)
            self._deleted.append(write)

    def _restore(self) -> None:
        for write in self._one_of(self._deleted):
            self.store.restore(ANA, write.episode_id, findable(self.store, write), at=START)
            self._deleted.remove(write)
            self._closed.append(write)

    def _resummarize(self) -> None:
        for write in self._one_of(self._closed):
            self.store.put_summary(ANA, write.episode_id, make_summary("word1 word2 better"))

    def _embed(self) -> None:
        put(self.index, [work for work in claim_all(self.store) if self._chance.random() < 0.7])
        self.store.release("suite")

    def _one_of(self, writes: list[Append]) -> list[Append]:
        return self._chance.sample(writes, min(1, len(writes)))


def _told(view: ScopeView) -> list[object]:
    """All that recall can see of a view, in arrays that are compared exactly."""
    asked = [unit([number]) for number in range(3)]
    terms, _, _ = hashing.unpack_all([make_lexical(" ".join(_WORDS[:6])).terms])
    scores = view.postings.score(Sought.only(terms))
    names = [field.name for field in dataclasses.fields(view.rows)]
    speakers = [view.speakers[n] if n >= 0 else b"" for n in view.rows.speaker.tolist()]
    return [
        list(view.episode_ids),
        view.ordinals.tolist(),
        speakers,
        *(np.asarray(getattr(view.rows, name)).tolist() for name in names if name != "speaker"),
        *(np.nan_to_num(view.cosine(vector), nan=9.0).tolist() for vector in asked),
        scores.row.tolist(),
        scores.episode.tolist(),
        scores.whole,
    ]


@pytest.fixture
def _no_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows are looked at anew; here even those are joined to what is known."""
    for module in (views, ordering, term_lists):
        monkeypatch.setattr(module, "_FEW", 0)


@pytest.mark.usefixtures("_no_few")
@pytest.mark.parametrize("seed", range(6))
def test_a_view_that_grew_is_the_view_made_anew(seed: int) -> None:
    life, most = _Life(seed), 0
    for step in range(80):
        life.go_on()
        if step % 30 == 29:
            life.erase()
        grown = life.index.view(ANA, MODEL)
        assert _told(grown) == _told(ExactIndex(life.store).view(ANA, MODEL))
        most = max(most, len(grown.rows))
    assert most > 20
    life.close()


def _found(index: ExactIndex) -> list[object]:
    """All that the segments of a sketch tell that does not depend on where one ends."""
    segments = _segments(index)
    terms, _, _ = hashing.unpack_all([make_lexical(" ".join(_WORDS)).terms])
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
            hits = sketch.together([segment.near(probe, 999) for segment in segments])
            near.append(sorted(zip(hits.seq.tolist(), hits.weight.tolist(), strict=True)))
    return [
        known,
        near,
        np.sum([segment.having(terms) for segment in segments], axis=0).tolist(),
        sorted(seq for segment in segments for seq in segment.waiting),
        [segment.rows_of(map(UUID, known)).tolist() for segment in segments if segment.count],
    ]


@pytest.mark.usefixtures("_no_few")
@pytest.mark.parametrize("seed", range(4))
def test_a_sketch_that_grew_is_the_sketch_made_anew(seed: int) -> None:
    # All in one segment: which of them an episode's turns stand in depends on how it grew.
    life = _Life(seed, exact_rows=-1)
    for step in range(80):
        life.go_on()
        if step % 30 == 29:
            life.erase()
        if life.store.recall_state(ANA) is not None:
            assert _found(life.index) == _found(ExactIndex(life.store, exact_rows=-1))
    life.close()


@pytest.mark.parametrize("exact_rows", [EXACT_ROWS, 0], ids=["whole", "sketch"])
@pytest.mark.parametrize("segment", [65_536, 8])
def test_what_is_known_is_not_read_again_because_rows_went(
    exact_rows: int, segment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (cache, large):
        monkeypatch.setattr(module, "BLOCK", min(segment, module.BLOCK))
    monkeypatch.setattr(sketch, "_ROWS", segment)
    monkeypatch.setattr(recalling, "_LISTED", segment)
    store = _Counting(":memory:")
    index = ExactIndex(store, exact_rows=exact_rows)
    writes = [
        make_append(ANA, "a", "b", "c", session_id=str(number), closing=make_closing())
        for number in range(8)
    ]
    for write in writes:
        store.append(write)
    put(index, claim_all(store))

    def look() -> tuple[int, int]:
        """How many rows there are, and how many were read to know it."""
        before = store.read
        if exact_rows:
            return len(index.view(ANA, MODEL).rows), store.read - before
        return sum(part.count for part in _segments(index)), store.read - before

    def erase_one() -> None:
        erase(store, ANA, episode_id=writes[3].episode_id)
        index.forget()

    assert look() == (32, 32)
    deeds: list[tuple[Callable[[], object], tuple[int, int]]] = [
        (lambda: store.put_summary(ANA, writes[0].episode_id, make_summary("better")), (32, 1)),
        (lambda: store.archive(ANA, writes[1].episode_id), (29, 0)),
        (lambda: store.delete(ANA, writes[2].episode_id, at=START), (25, 0)),
        (erase_one, (21, 0)),
    ]
    for do, expected in deeds:
        do()
        assert look() == expected
    index.close()
    store.close()


class _Restless(_Counting):
    """Somebody archives an episode before every read, as long as there are some."""

    def __init__(self, episodes: list[UUID]) -> None:
        super().__init__(":memory:")
        self._episodes = episodes

    def recall_block(self, *args: Any, **named: Any) -> tuple[RecallState, RecallBlock]:
        if self._episodes:
            self.archive(ANA, self._episodes.pop())
        return super().recall_block(*args, **named)


@pytest.mark.parametrize("held", [True, False])
def test_a_view_need_not_wait_until_nothing_is_removed_any_more(
    held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "BLOCK", 40)
    episodes: list[UUID] = []
    store = _Restless(episodes)
    index = ExactIndex(store)
    writes = [
        make_append(ANA, "a", "b", session_id=str(number), closing=make_closing())
        for number in range(60)
    ]
    for write in writes:
        store.append(write)
    if held:
        index.view(ANA, MODEL)
        store.put_summary(ANA, writes[0].episode_id, make_summary("better"))
    episodes += [write.episode_id for write in writes[20:]]
    index.view(ANA, MODEL)
    assert 0 < len(episodes) < 40
    episodes.clear()
    assert _told(index.view(ANA, MODEL)) == _told(ExactIndex(store).view(ANA, MODEL))
    index.close()
    store.close()


def test_what_was_erased_is_in_no_column_any_more() -> None:
    store = SqliteStore(":memory:")
    index = ExactIndex(store)
    kept, gone = (
        make_append(ANA, "a thing", session_id=name, closing=make_closing())
        for name in ("kept", "gone")
    )
    for write in (kept, gone):
        store.append(write)
    put(index, claim_all(store))
    index.view(ANA, MODEL)
    erase(store, ANA, episode_id=gone.episode_id)
    index.forget()
    left = {row.seq for row in store.recall_rows(ANA, after=0)[1]}
    gc.collect()
    columns = [known for known in gc.get_objects() if isinstance(known, Columns)]
    assert [set(known.seq.tolist()) for known in columns] == [left]
    assert [known.episode_ids for known in columns] == [[kept.episode_id]]
    assert [len(known._summaries) for known in columns] == [1]
    index.close()
    store.close()


@pytest.mark.parametrize("call", ["recall_state", "recall_block"])
def test_forgetting_does_not_fail_with_the_store(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(":memory:")
    index = ExactIndex(store)
    write = make_append(ANA, "a thing", "another", closing=make_closing())
    store.append(write)
    index.view(ANA, MODEL)
    store.archive(ANA, write.episode_id)
    with monkeypatch.context() as patched:
        patched.setattr(store, call, _out_of_reach)
        index.forget()
    gc.collect()
    assert not any(isinstance(known, Columns) for known in gc.get_objects())
    assert len(index.view(ANA, MODEL).rows) == 1
    index.close()
    store.close()


def _out_of_reach(*_args: object, **_named: object) -> None:
    raise StoreUnavailable("gone for a moment")


def test_an_erasure_leaves_no_sketch_in_memory() -> None:
    store = SqliteStore(":memory:")
    index = ExactIndex(store, exact_rows=0)
    store.append(make_append(ANA, "a secret", "another"))
    probe = Probe(vector=unit([1]), terms=np.empty(0, np.uint32), episodes=1)
    assert len(index.view(ANA, MODEL, lambda: probe).rows) == 2
    assert _sketches() == 1
    erase(store, ANA)
    index.forget()
    assert _sketches() == 0
    index.close()
    store.close()


def test_a_scope_that_was_very_large_once_is_not_streamed_for_ever() -> None:
    store = SqliteStore(":memory:")
    # Room for a sketch of five rows.
    index = ExactIndex(store, exact_rows=1, cache_bytes=1_000)
    long_gone = make_append(ANA, *(f"word{number}" for number in range(8)), session_id="long gone")
    store.append(long_gone)
    store.append(make_append(ANA, "a thing", "another", session_id="kept"))
    erase(store, ANA, episode_id=long_gone.episode_id)
    probe = Probe(vector=unit([1]), terms=np.empty(0, np.uint32), episodes=1)
    for sketches in (0, 1):
        assert len(index.view(ANA, MODEL, lambda: probe).rows) == 2
        assert _sketches() == sketches
    index.close()
    store.close()


def test_a_summary_far_from_its_turns_is_not_taken_for_an_archived_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sketch, "_ROWS", 4)
    monkeypatch.setattr(cache, "BLOCK", 4)
    monkeypatch.setattr(large, "BLOCK", 4)
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
    for room in (1_000_000, 1):
        index = ExactIndex(store, exact_rows=0, cache_bytes=room)
        hits = [segment.near(probe, 99) for segment in _segments(index)]
        assert summary in sketch.together(hits).seq
        index.close()
    store.close()


def _segments(index: ExactIndex) -> list[Segment]:
    state = index._store.recall_state(ANA)
    assert state is not None
    source = index._source(ANA, state, MODEL)
    assert source is not None
    return list(source.segments)


def _sketches() -> int:
    gc.collect()
    return sum(isinstance(known, Segment) for known in gc.get_objects())


def test_a_sketch_finds_what_exact_search_finds(tmp_path: Path) -> None:
    chance = random.Random(11)
    subjects = [[f"topic{number}{end}" for end in "abcdefgh"] for number in range(40)]
    with EpisodicMemory.open(
        tmp_path / "memory.db", embedder=HashingEmbedder(), background=False
    ) as memory:
        scope = memory.scope(tenant="acme", user="ana")
        for number in range(160):
            words = subjects[number % 40] + _WORDS
            said = [("user", " ".join(chance.choices(words, k=12))) for _ in range(6)]
            scope.store(said, session_id=str(number))
        memory.flush()
        asked = [" ".join(chance.sample(subject, 4)) for subject in subjects[:10]]
        exact = [[hit.episode_id for hit in scope.recall(query)] for query in asked]
        object.__setattr__(memory.parts, "index", ExactIndex(memory.parts.store, exact_rows=100))
        found = [[hit.episode_id for hit in scope.recall(query)] for query in asked]
    assert [some[0] for some in found] == [some[0] for some in exact]
    shared = sum(len(set(mine) & set(theirs)) for mine, theirs in zip(found, exact, strict=True))
    assert shared >= 45


def test_bits_are_counted_without_the_newest_numpy() -> None:
    numbers = np.random.default_rng(3).integers(0, 2**64, 1_000, dtype=np.uint64)
    assert ones_by_table(numbers).tolist() == [number.bit_count() for number in numbers.tolist()]


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
