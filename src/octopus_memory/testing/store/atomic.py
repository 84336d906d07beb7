"""Store suite: a write is atomic, also among concurrent writers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ...domain.episode import Summary
from ...domain.errors import EpisodeChanged, EpisodeNotFound, IdempotencyConflict, OctopusError
from ...ports.store import EpisodeStore
from ...ports.values import Append, EpisodeQuery, NewSummary, NewTurn, Target
from ..fakes import (
    make_append,
    make_closing,
    make_key,
    make_next,
    make_scope,
    make_summary,
    make_turn,
)
from .base import ANA, BEN, StoreTests, at_once, find, raised, snapshot, texts


def _no_json_turn() -> NewTurn:
    return make_turn({"role": "user", "content": "fine", "extra": object()})


def _no_json_summary() -> NewSummary:
    unfit: Any = object()
    fine = make_summary("fine")
    return dataclasses.replace(fine, summary=Summary(text="fine", key_facts=(unfit,)))


_Spoil = Callable[[Append], Append]
_FAILING: Sequence[tuple[str, type[Exception], _Spoil]] = [
    ("session has an open one", EpisodeChanged, lambda open_: make_append(ANA, "x", "y")),
    ("scope is new", EpisodeNotFound, lambda open_: make_next(make_append(BEN), "x")),
    ("episode is unknown", EpisodeNotFound, lambda open_: make_next(make_append(ANA), "x")),
    ("not closed", EpisodeChanged, lambda open_: make_next(open_, "x", target=Target.RESUME)),
    (
        "key was used otherwise",
        IdempotencyConflict,
        lambda open_: make_next(open_, "x", idempotency=make_key("used", b"other")),
    ),
    (
        "id is taken",
        OctopusError,
        lambda open_: make_append(ANA, "x", session_id="new", episode_id=open_.episode_id),
    ),
    (
        "message is no JSON",
        OctopusError,
        lambda open_: make_next(
            open_, "x", _no_json_turn(), metadata={"new": 1}, idempotency=make_key("new")
        ),
    ),
    (
        "message is no JSON in a new scope",
        OctopusError,
        lambda open_: make_append(BEN, "x", _no_json_turn(), closing=make_closing()),
    ),
    (
        "summary is no JSON",
        OctopusError,
        lambda open_: make_next(open_, "x", closing=make_closing(summary=_no_json_summary())),
    ),
]


class AtomicityTests(StoreTests):
    def test_an_append_that_fails_leaves_nothing(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", idempotency=make_key("used"), metadata={"old": 0})
        store.append(write)
        before = snapshot(store, ANA, BEN)
        for what, error, spoil in _FAILING:
            with pytest.raises(error):
                store.append(spoil(write))
            assert snapshot(store, ANA, BEN) == before, what
        after_all = store.append(make_next(write, "b", idempotency=make_key("new")))
        assert [turn.ordinal for turn in after_all] == [1]

    def test_a_close_that_fails_leaves_nothing(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)
        before = snapshot(store, ANA)
        spoiled = make_closing(summary=_no_json_summary())
        with pytest.raises(OctopusError):
            store.close_episode(ANA, write.episode_id, spoiled, expect_messages=1)
        assert snapshot(store, ANA) == before


class ConcurrentAppendTests(StoreTests):
    def test_appends_of_many_threads_leave_no_gap(self, store: EpisodeStore) -> None:
        write = make_append(ANA)
        store.append(write)

        def add(thread: int) -> list[list[int]]:
            said = [(f"{thread}/{n}/first", f"{thread}/{n}/second") for n in range(8)]
            stored = [store.append(make_next(write, *pair)) for pair in said]
            return [[turn.ordinal for turn in turns] for turns in stored]

        outcomes = at_once(add)
        assert raised(outcomes) == []
        pairs = [pair for done in outcomes if isinstance(done, list) for pair in done]
        assert all(second == first + 1 for first, second in pairs)
        turns = store.turns(ANA, write.episode_id)
        assert [turn.ordinal for turn in turns] == list(range(128))
        assert find(store, write).message_count == 128
        assert [turn.text.split("/")[2] for turn in turns] == ["first", "second"] * 64
        seqs = [row.seq for row in store.recall_rows(ANA, after=0)[1]]
        assert len(set(seqs)) == 128

    def test_of_many_that_start_an_episode_one_does(self, store: EpisodeStore) -> None:
        outcomes = at_once(lambda thread: store.append(make_append(ANA, f"by {thread}")))
        assert raised(outcomes) == [EpisodeChanged] * (len(outcomes) - 1)
        assert store.list_episodes(EpisodeQuery(of=ANA, limit=10))[1] == 1

    def test_many_may_be_the_first_in_a_scope(self, store: EpisodeStore) -> None:
        outcomes = at_once(lambda n: store.append(make_append(ANA, "a", session_id=str(n))))
        assert raised(outcomes) == []
        assert store.list_episodes(EpisodeQuery(of=ANA, limit=10))[1] == len(outcomes)
        assert store.stats().scopes == 1

    def test_scopes_do_not_wait_for_each_other_in_vain(self, store: EpisodeStore) -> None:
        def converse(thread: int) -> list[str]:
            write = make_append(make_scope(f"user {thread}"), "0")
            store.append(write)
            for number in range(1, 6):
                store.append(make_next(write, str(number)))
            return texts(store, write)

        assert at_once(converse) == [["0", "1", "2", "3", "4", "5"]] * 8

    def test_a_reader_never_sees_half_an_append(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b", "c")
        store.append(write)

        def use(thread: int) -> set[int]:
            if thread % 2:
                for _ in range(10):
                    store.append(make_next(write, "a", "b", "c"))
                return set()
            counts = [len(store.recall_rows(ANA, after=0)[1]) for _ in range(10)]
            counts += [len(store.turns(ANA, write.episode_id)) for _ in range(10)]
            counts += [find(store, write).message_count for _ in range(10)]
            return {count % 3 for count in counts}

        outcomes = at_once(use)
        assert raised(outcomes) == []
        assert {rest for seen in outcomes if isinstance(seen, set) for rest in seen} == {0}

    def test_an_episode_closes_with_the_turns_it_was_judged_by(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)

        def use(thread: int) -> int:
            if thread:
                store.append(make_next(write, f"by {thread}"))
                return 0
            while True:
                count = find(store, write).message_count
                try:
                    store.close_episode(
                        ANA, write.episode_id, make_closing(), expect_messages=count
                    )
                except EpisodeChanged:
                    continue
                return count

        outcomes = at_once(use)
        assert set(raised(outcomes)) <= {EpisodeChanged}
        assert outcomes[0] == find(store, write).message_count
        assert outcomes[0] == len(store.turns(ANA, write.episode_id))
