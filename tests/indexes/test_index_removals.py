"""Removed rows, and only those, leave the scopes in memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from octopus_memory.adapters.indexes import scope_cache, sketch
from octopus_memory.adapters.indexes.exact import EXACT_ROWS, ExactIndex
from octopus_memory.adapters.indexes.scope_columns import ScopeColumns
from octopus_memory.adapters.indexes.sketch import Segment
from octopus_memory.adapters.stores.sql.statements import recall_rows
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.errors import StoreUnavailable
from octopus_memory.ports.index import Probe
from octopus_memory.ports.recall_rows import RecallBlock, RecallState
from octopus_memory.testing import make_append, make_closing, make_summary
from octopus_memory.testing.fakes import START
from octopus_memory.testing.index.base import MODEL, put, unit
from octopus_memory.testing.store.base import ANA, BEN, claim_all
from octopus_memory.testing.store.erasure import erase
from tests.support.random_scope import segments_of, visible_state

_HERE = "of this file alone"


class _Counting(SqliteStore):
    """Counts the recall rows that were read."""

    read = 0

    def recall_block(self, *args: Any, **named: Any) -> tuple[RecallState, RecallBlock]:
        state, block = super().recall_block(*args, **named)
        self.read += len(block)
        return state, block


@pytest.mark.parametrize("exact_rows", [EXACT_ROWS, 0], ids=["whole", "sketch"])
@pytest.mark.parametrize("segment", [65_536, 8])
def test_a_removal_does_not_reread_cached_rows(
    exact_rows: int, segment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope_cache, "BLOCK", min(segment, scope_cache.BLOCK))
    monkeypatch.setattr(sketch, "_ROWS", segment)
    monkeypatch.setattr(recall_rows, "_LISTED", segment)
    store = _Counting(":memory:")
    index = ExactIndex(store, exact_rows=exact_rows)
    writes = [
        make_append(ANA, "a", "b", "c", session_id=str(number), closing=make_closing())
        for number in range(8)
    ]
    for write in writes:
        store.append(write)
    put(index, claim_all(store))

    def count_rows() -> tuple[int, int]:
        """Number of rows in the index, and of rows read for it."""
        before = store.read
        if exact_rows:
            return len(index.view(ANA, MODEL).rows), store.read - before
        return sum(part.count for part in segments_of(index)), store.read - before

    def erase_one() -> None:
        erase(store, ANA, episode_id=writes[3].episode_id)
        index.clear_cache()

    assert count_rows() == (32, 32)
    deeds: list[tuple[Callable[[], object], tuple[int, int]]] = [
        (lambda: store.put_summary(ANA, writes[0].episode_id, make_summary("better")), (32, 1)),
        (lambda: store.archive(ANA, writes[1].episode_id), (29, 0)),
        (lambda: store.delete(ANA, writes[2].episode_id, at=START), (25, 0)),
        (erase_one, (21, 0)),
    ]
    for do, expected in deeds:
        do()
        assert count_rows() == expected
    index.close()
    store.close()


class _Restless(_Counting):
    """Archives an episode before every read, as long as there are some."""

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
    monkeypatch.setattr(scope_cache, "BLOCK", 40)
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
    assert visible_state(index.view(ANA, MODEL)) == visible_state(
        ExactIndex(store).view(ANA, MODEL)
    )
    index.close()
    store.close()


def test_erased_rows_are_in_no_column() -> None:
    store = SqliteStore(":memory:")
    index = ExactIndex(store)
    kept, gone = (
        make_append(ANA, "a thing", session_id=name, closing=make_closing())
        for name in ("kept", "gone")
    )
    for write in (kept, gone):
        store.append(write)
    index.view(ANA, _HERE)
    erase(store, ANA, episode_id=gone.episode_id)
    index.clear_cache()
    left = {row.seq for row in store.recall_rows(ANA, after=0)[1]}
    columns = _columns()
    assert [set(known.seq.tolist()) for known in columns] == [left]
    assert [known.episode_ids for known in columns] == [[kept.episode_id]]
    assert [len(known._summary_terms) for known in columns] == [1]
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
    index.view(ANA, _HERE)
    store.archive(ANA, write.episode_id)
    with monkeypatch.context() as patched:
        patched.setattr(store, call, _out_of_reach)
        index.clear_cache()
    assert _columns() == []
    assert len(index.view(ANA, _HERE).rows) == 1
    index.close()
    store.close()


def _columns() -> list[ScopeColumns]:
    """Columns that are alive; those of other tests have another model."""
    gc.collect()
    found = [known for known in gc.get_objects() if isinstance(known, ScopeColumns)]
    return [known for known in found if known.model == _HERE]


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
    index.clear_cache()
    assert _sketches() == 0
    index.close()
    store.close()


def test_a_scope_that_was_very_large_once_is_searched_exactly_again() -> None:
    store = SqliteStore(":memory:")
    index = ExactIndex(store, exact_rows=5)
    long_gone = make_append(ANA, *(f"word{number}" for number in range(8)), session_id="long gone")
    store.append(long_gone)
    store.append(make_append(ANA, "a thing", "another", session_id="kept"))
    probe = Probe(vector=unit([1]), terms=np.empty(0, np.uint32), episodes=1)
    assert index.view(ANA, MODEL, lambda: probe) is not index.view(ANA, MODEL)
    erase(store, ANA, episode_id=long_gone.episode_id)
    assert index.view(ANA, MODEL, lambda: probe) is index.view(ANA, MODEL)
    assert len(index.view(ANA, MODEL).rows) == 2
    index.close()
    store.close()


def test_a_sketch_over_the_bound_stays_until_another_scope_is_used() -> None:
    store = SqliteStore(":memory:")
    index = ExactIndex(store, exact_rows=1, cache_bytes=1)
    for scope in (ANA, BEN):
        store.append(make_append(scope, "a thing", "another"))
    probe = Probe(vector=unit([1]), terms=np.empty(0, np.uint32), episodes=1)
    for scope in (ANA, ANA, BEN):
        assert len(index.view(scope, MODEL, lambda: probe).rows) == 2
        assert _sketches() == 1
    index.close()
    store.close()


def _sketches() -> int:
    gc.collect()
    return sum(isinstance(known, Segment) for known in gc.get_objects())
