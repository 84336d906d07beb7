"""Index suite: a view shows everything acknowledged before it, also by other processes."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from ...ports.index import RecallIndex, ScopeView
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL, Append, Target
from ...testing.store.base import release
from ..fakes import make_append, make_closing, make_next, make_scope, make_summary, make_turn
from ..store.base import ANA, after, at_once, claim_all, raised
from .base import (
    MODEL,
    TOLERANCE,
    IndexTests,
    assert_true_to,
    embed,
    has_vector,
    put,
    turn_refs,
    unit,
    vector_for,
)


def _warm(store: EpisodeStore, index: RecallIndex) -> tuple[Append, Append]:
    """Store a closed and an open episode, embed them, and let the index load them."""
    closed = make_append(ANA, "a", "b", session_id="closed", closing=make_closing(after(hours=1)))
    opened = make_append(ANA, "c", session_id="open", at=after(days=1))
    for write in (closed, opened):
        store.append(write)
    embed(store, index)
    assert_true_to(store, index.view(ANA, MODEL), ANA)
    return closed, opened


class RefreshTests(IndexTests):
    def test_after_new_turns(self, store: EpisodeStore, index: RecallIndex) -> None:
        closed, opened = _warm(store, index)
        store.append(make_next(opened, "d", at=after(days=2)))
        new = make_append(ANA, "e", session_id="new", at=after(days=1, hours=1))
        store.append(new)
        view = index.view(ANA, MODEL)
        assert turn_refs(view)[3:] == [
            (opened.episode_id, 0),
            (opened.episode_id, 1),
            (new.episode_id, 0),
        ]
        assert turn_refs(view)[0] == (closed.episode_id, 0)
        assert has_vector(view) == [True] * 4 + [False] * 2
        embed(store, index)
        assert has_vector(index.view(ANA, MODEL)) == [True] * 6
        assert_true_to(store, index.view(ANA, MODEL), ANA)

    def test_after_a_close(self, store: EpisodeStore, index: RecallIndex) -> None:
        _, opened = _warm(store, index)
        closing = make_closing(after(days=2))
        store.close_episode(ANA, opened.episode_id, closing, expect_messages=1)
        view = index.view(ANA, MODEL)
        assert turn_refs(view)[-1] == (opened.episode_id, SUMMARY_ORDINAL)
        assert has_vector(view) == [True] * 4 + [False]
        assert_true_to(store, view, ANA)

    def test_after_a_better_summary(self, store: EpisodeStore, index: RecallIndex) -> None:
        closed, _ = _warm(store, index)
        store.put_summary(ANA, closed.episode_id, make_summary("Better."))
        view = index.view(ANA, MODEL)
        assert has_vector(view) == [True, True, False, True]
        assert_true_to(store, view, ANA)
        embed(store, index)
        assert_true_to(store, index.view(ANA, MODEL), ANA)

    def test_after_an_archiving(self, store: EpisodeStore, index: RecallIndex) -> None:
        closed, opened = _warm(store, index)
        store.archive(ANA, closed.episode_id)
        view = index.view(ANA, MODEL)
        assert turn_refs(view) == [(closed.episode_id, SUMMARY_ORDINAL), (opened.episode_id, 0)]
        assert has_vector(view) == [True, True]
        assert_true_to(store, view, ANA)

    def test_after_a_resumption(self, store: EpisodeStore, index: RecallIndex) -> None:
        closed, _ = _warm(store, index)
        store.append(make_next(closed, "z", target=Target.RESUME, at=after(days=3)))
        view = index.view(ANA, MODEL)
        assert turn_refs(view)[:3] == [(closed.episode_id, ordinal) for ordinal in (0, 1, 2)]
        assert has_vector(view) == [True, True, False, True]
        assert_true_to(store, view, ANA)

    def test_after_a_change_of_model(self, store: EpisodeStore, index: RecallIndex) -> None:
        store.use_model(MODEL)
        _warm(store, index)
        before = index.view(ANA, MODEL).cosine(unit([1]))
        store.use_model("small")
        query = unit([1], 16)
        assert np.isnan(index.view(ANA, "small").cosine(query)).all()
        first, *rest = claim_all(store)
        put(index, [first], "small", 16)
        cosines = index.view(ANA, "small").cosine(query)
        assert np.isnan(cosines).sum() == 3
        put(index, rest, "small", 16)
        cosines = index.view(ANA, "small").cosine(query)
        rows = {
            (row.episode_id, row.ordinal): row.seq for row in store.recall_rows(ANA, after=0)[1]
        }
        found = turn_refs(index.view(ANA, "small"))
        exact = [vector_for(*place, rows[place], 16) @ query for place in found]
        assert np.abs(cosines - exact).max() < TOLERANCE
        # For the former model, the index has that model's vectors or none.
        former = index.view(ANA, MODEL).cosine(unit([1]))
        assert (np.isnan(former) | (former == before)).all()

    def test_after_anything(self, store: EpisodeStore, index: RecallIndex) -> None:
        """Apply random operations to a scope, and check the view after each."""
        chance = random.Random(20250314)
        story = _Story(store, index, chance)
        for step in range(60):
            chance.choice(story.deeds)(step)
            if chance.random() < 0.7:
                assert_true_to(store, index.view(ANA, MODEL), ANA)
        assert_true_to(store, index.view(ANA, MODEL), ANA)
        assert len(turn_refs(index.view(ANA, MODEL))) > 10


class _Story:
    """The operations of the random test."""

    def __init__(self, store: EpisodeStore, index: RecallIndex, chance: random.Random) -> None:
        self._store, self._index, self._chance = store, index, chance
        self._open: list[Append] = []
        self._closed: list[Append] = []
        self.deeds: list[Callable[[int], None]] = [
            *(self.start, self.start, self.add, self.add, self.add),
            *(self.end, self.resume, self.archive, self.resummarize),
            *(self.give_vectors, self.give_vectors),
        ]

    def start(self, step: int) -> None:
        said = [f"{step}/{number}" for number in range(self._chance.randint(0, 4))]
        write = make_append(ANA, *said, session_id=str(step), at=after(minutes=step))
        self._store.append(write)
        self._open.append(write)

    def add(self, step: int) -> None:
        for write in self._some(self._open):
            said = [f"{step}/{number}" for number in range(self._chance.randint(1, 3))]
            self._store.append(make_next(write, *said, at=after(minutes=step)))

    def end(self, step: int) -> None:
        for write in self._some(self._open):
            count = self._store.episodes(ANA, [write.episode_id])[write.episode_id].message_count
            self._store.close_episode(
                ANA,
                write.episode_id,
                make_closing(after(minutes=step), f"Ended at {step}."),
                expect_messages=count,
            )
            self._open.remove(write)
            self._closed.append(write)

    def resume(self, step: int) -> None:
        for write in self._some(self._closed):
            at = after(minutes=step)
            self._store.append(make_next(write, f"again {step}", target=Target.RESUME, at=at))
            self._closed.remove(write)
            self._open.append(write)

    def archive(self, _step: int) -> None:
        for write in self._some(self._closed):
            self._store.archive(ANA, write.episode_id)
            self._closed.remove(write)

    def resummarize(self, step: int) -> None:
        for write in self._some(self._closed):
            self._store.put_summary(ANA, write.episode_id, make_summary(f"Better {step}."))

    def give_vectors(self, _step: int) -> None:
        claimed = claim_all(self._store)
        chosen = [work for work in claimed if self._chance.random() < 0.6]
        put(self._index, chosen)
        release(self._store, "suite")

    def _some(self, writes: list[Append]) -> list[Append]:
        return self._chance.sample(writes, min(1, len(writes)))


class SharedTests(IndexTests):
    def test_two_indexes_see_what_the_other_wrote(
        self, store: EpisodeStore, index: RecallIndex, other_index: RecallIndex
    ) -> None:
        closed, opened = _warm(store, index)
        assert_true_to(store, other_index.view(ANA, MODEL), ANA)
        store.append(make_next(opened, "d"))
        assert len(turn_refs(other_index.view(ANA, MODEL))) == 5
        put(other_index, claim_all(store))
        assert has_vector(index.view(ANA, MODEL)) == [True] * 5
        store.archive(ANA, closed.episode_id)
        for either in (index, other_index):
            assert len(turn_refs(either.view(ANA, MODEL))) == 3
            assert_true_to(store, either.view(ANA, MODEL), ANA)

    def test_a_new_scope_of_the_others(
        self, store: EpisodeStore, index: RecallIndex, other_index: RecallIndex
    ) -> None:
        for either in (index, other_index):
            assert turn_refs(either.view(ANA, MODEL)) == []
        write = make_append(ANA, "a")
        store.append(write)
        embed(store, index)
        for either in (index, other_index):
            assert turn_refs(either.view(ANA, MODEL)) == [(write.episode_id, 0)]
            assert has_vector(either.view(ANA, MODEL)) == [True]

    def test_a_view_stays_as_it_was(self, store: EpisodeStore, index: RecallIndex) -> None:
        closed, opened = _warm(store, index)
        store.append(make_next(opened, "waits for its vector"))
        view = index.view(ANA, MODEL)
        before = _all_of(view)
        embed(store, index)
        index.view(ANA, MODEL)
        store.append(make_next(opened, make_turn({"role": "user", "content": "e", "name": "Eve"})))
        index.view(ANA, MODEL)
        assert _all_of(view) == before
        store.archive(ANA, closed.episode_id)
        index.view(ANA, MODEL)
        index.close()
        assert _all_of(view) == before

    def test_many_threads_read_while_others_write(
        self, store: EpisodeStore, index: RecallIndex
    ) -> None:
        write = make_append(ANA, "a", "b")
        store.append(write)

        def use(thread: int) -> None:
            for number in range(8):
                match thread % 4:
                    case 0:
                        store.append(make_next(write, f"{thread}/{number}", "and more"))
                    case 1:
                        embed(store, index)
                    case _:
                        found = turn_refs(index.view(ANA, MODEL))
                        assert len(found) % 2 == 0
                        assert [ordinal for _, ordinal in found] == list(range(len(found)))

        assert raised(at_once(use)) == []
        release(store, "suite")
        embed(store, index)
        view = index.view(ANA, MODEL)
        assert has_vector(view) == [True] * 34
        assert_true_to(store, view, ANA)

    def test_many_scopes_in_turns(self, store: EpisodeStore, index: RecallIndex) -> None:
        writes = [make_append(make_scope(str(user)), "a", "b") for user in range(6)]
        for write in writes:
            store.append(write)
        embed(store, index)
        for round_ in range(3):
            for write in writes:
                assert_true_to(store, index.view(write.scope, MODEL), write.scope)
                store.append(make_next(write, f"more in round {round_}"))
                assert len(turn_refs(index.view(write.scope, MODEL))) == 3 + round_

    def test_closing_twice_does_nothing(self, index: RecallIndex) -> None:
        index.close()
        index.close()


def _all_of(view: ScopeView) -> tuple[object, ...]:
    """A copy of everything in a view."""
    cosines = np.nan_to_num(view.cosine(unit([3])), nan=9.0)
    return (
        turn_refs(view),
        view.rows.role.tolist(),
        view.rows.time.tolist(),
        view.rows.flags.tolist(),
        view.rows.speaker.tolist(),
        list(view.speakers),
        list(view.episode_ids),
        cosines.tolist(),
        len(view.postings),
    )
