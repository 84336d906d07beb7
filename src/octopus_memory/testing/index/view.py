"""Index suite: content, order and accuracy of a view."""

from __future__ import annotations

import numpy as np

from ...domain.search.features import ASSISTANT, SUMMARY, USER
from ...ports.index import RecallIndex
from ...ports.recall_rows import WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL
from ..fakes import (
    START,
    make_append,
    make_closing,
    make_lexical,
    make_next,
    make_scope,
    make_turn,
)
from ..store.base import ANA, BEN, after, claim_all
from ..store.isolation import crowd
from .base import (
    DIMENSION,
    MODEL,
    TOLERANCE,
    IndexTests,
    assert_true_to,
    embed,
    has_vector,
    put,
    rows_with,
    turn_refs,
    unit,
    vector_for,
)


class ViewTests(IndexTests):
    def test_a_scope_that_nothing_was_written_in_has_no_rows(
        self, store: EpisodeStore, index: RecallIndex
    ) -> None:
        store.append(make_append(BEN, "hello"))
        view = index.view(ANA, MODEL)
        assert turn_refs(view) == []
        assert len(view.episode_ids) == 0
        assert view.rows.episodes == 0
        assert view.cosine(unit([1])).shape == (0,)
        assert rows_with(view, "hello") == []

    def test_everything_is_there_as_soon_as_it_is_stored(
        self, store: EpisodeStore, index: RecallIndex
    ) -> None:
        turns = [
            make_turn({"role": "user", "content": "Is it at 7?", "name": "Ana Ng"}, at=START),
            make_turn("Yes.", role="assistant", at=after(seconds=9)),
            make_turn({"role": "user", "content": "Good.", "name": "Ana Ng"}, at=after(hours=1)),
        ]
        write = make_append(ANA, *turns)
        store.append(write)
        view = index.view(ANA, MODEL)
        assert turn_refs(view) == [(write.episode_id, ordinal) for ordinal in range(3)]
        assert view.rows.role.tolist() == [USER, ASSISTANT, USER]
        assert np.diff(view.rows.time).tolist() == [9_000_000, 3_591_000_000]
        assert view.rows.flags.tolist() == [turn.lexical and turn.lexical.flags for turn in turns]
        assert view.rows.speaker.tolist() == [0, -1, 0]
        assert list(view.speakers) == [make_lexical("", "Ana Ng").speaker]
        assert has_vector(view) == [False] * 3
        assert_true_to(store, view, ANA)

    def test_words_find_their_rows(self, store: EpisodeStore, index: RecallIndex) -> None:
        for number, said in enumerate(("a red bicycle", "a green boat", "the red boat")):
            at = after(days=number)
            store.append(make_append(ANA, said, session_id=said, at=at))
        view = index.view(ANA, MODEL)
        assert rows_with(view, "bicycle") == [0]
        assert rows_with(view, "boat") == [1, 2]
        assert rows_with(view, "submarine") == []

    def test_episodes_go_by_their_start_and_rows_by_their_place(
        self, store: EpisodeStore, index: RecallIndex
    ) -> None:
        late = make_append(ANA, "a", session_id="late", at=after(hours=2))
        early = make_append(ANA, "a", "b", session_id="early", at=START)
        middle = make_append(ANA, "a", session_id="middle", at=after(hours=1))
        for write in (late, early, middle):
            store.append(write)
        store.append(make_next(late, "b", at=after(hours=5)))
        store.append(make_next(early, "c", at=after(hours=4)))
        closing = make_closing(after(hours=6))
        store.close_episode(ANA, early.episode_id, closing, expect_messages=3)
        store.append(make_next(middle, "b", at=after(hours=3), closing=closing))
        view = index.view(ANA, MODEL)
        assert turn_refs(view) == [
            *((early.episode_id, ordinal) for ordinal in (0, 1, 2, SUMMARY_ORDINAL)),
            *((middle.episode_id, ordinal) for ordinal in (0, 1, SUMMARY_ORDINAL)),
            *((late.episode_id, ordinal) for ordinal in (0, 1)),
        ]
        assert view.rows.episode.tolist() == [0] * 4 + [1] * 3 + [2] * 2
        assert view.rows.starts.tolist() == [0, 4, 7]
        assert (view.rows.role == SUMMARY).nonzero()[0].tolist() == [3, 6]

    def test_cosines_are_exact_but_for_rounding(
        self, store: EpisodeStore, index: RecallIndex
    ) -> None:
        for number in range(4):
            said = (f"{number}/{place}" for place in range(75))
            store.append(make_append(ANA, *said, session_id=str(number), at=after(days=number)))
        embed(store, index)
        view = index.view(ANA, MODEL)
        rows = {
            (row.episode_id, row.ordinal): row.seq for row in store.recall_rows(ANA, after=0)[1]
        }
        exact = np.stack([vector_for(*place, rows[place]) for place in turn_refs(view)])
        assert exact.shape == (300, DIMENSION)
        for query in (unit([1]), unit([2]), exact[17]):
            assert np.abs(view.cosine(query) - exact @ query).max() < TOLERANCE
        assert int(np.argmax(view.cosine(exact[17]))) == 17

    def test_rows_without_a_vector_have_no_cosine(
        self, store: EpisodeStore, index: RecallIndex
    ) -> None:
        write = make_append(ANA, make_turn("a", embed=False), "b", "c", closing=make_closing())
        store.append(write)
        assert has_vector(index.view(ANA, MODEL)) == [False] * 4
        first, *_ = claim_all(store)
        put(index, [first])
        view = index.view(ANA, MODEL)
        assert has_vector(view) == [False, True, False, False]
        assert_true_to(store, view, ANA)


class PutTests(IndexTests):
    def test_vectors_are_there_as_soon_as_they_are_put(
        self, store: EpisodeStore, index: RecallIndex
    ) -> None:
        store.append(make_append(ANA, "a", "b", closing=make_closing()))
        embed(store, index)
        assert has_vector(index.view(ANA, MODEL)) == [True] * 3
        assert store.backlog()[WorkKind.EMBED].waiting == 0
        assert_true_to(store, index.view(ANA, MODEL), ANA)

    def test_putting_twice_changes_nothing(self, store: EpisodeStore, index: RecallIndex) -> None:
        store.append(make_append(ANA, "a", "b"))
        claimed = claim_all(store)
        put(index, claimed)
        before = index.view(ANA, MODEL).cosine(unit([1]))
        put(index, claimed)
        put(index, [])
        again = index.view(ANA, MODEL).cosine(unit([1]))
        assert np.allclose(again, before, rtol=0, atol=1e-5)

    def test_rows_that_are_gone_are_passed_over(
        self, store: EpisodeStore, index: RecallIndex
    ) -> None:
        gone = make_append(ANA, "a", closing=make_closing())
        kept = make_append(ANA, "b", session_id="kept", at=after(days=1))
        for write in (gone, kept):
            store.append(write)
        claimed = claim_all(store)
        store.archive(ANA, gone.episode_id)
        put(index, claimed)
        view = index.view(ANA, MODEL)
        assert turn_refs(view) == [(gone.episode_id, SUMMARY_ORDINAL), (kept.episode_id, 0)]
        assert has_vector(view) == [True, True]

    def test_vectors_may_come_in_any_order(self, store: EpisodeStore, index: RecallIndex) -> None:
        write = make_append(ANA, *"abcdef")
        store.append(write)
        claimed = claim_all(store)
        done: set[int] = set()
        for number in (4, 1, 5, 0, 3, 2):
            put(index, [claimed[number]])
            done.add(number)
            view = index.view(ANA, MODEL)
            assert has_vector(view) == [place in done for place in range(6)]
            assert_true_to(store, view, ANA)


class IndexIsolationTests(IndexTests):
    def test_a_view_has_its_own_scope_only(self, store: EpisodeStore, index: RecallIndex) -> None:
        scopes = crowd()[::4]
        writes = {scope: make_append(scope, "hello") for scope in scopes}
        for write in writes.values():
            store.append(write)
        embed(store, index)
        for scope, write in writes.items():
            view = index.view(scope, MODEL)
            assert turn_refs(view) == [(write.episode_id, 0)]
            assert_true_to(store, view, scope)

    def test_other_scopes_take_nothing_away(self, store: EpisodeStore, index: RecallIndex) -> None:
        mine = make_append(ANA, *(f"mine {number}" for number in range(40)))
        store.append(mine)
        for user in range(5):
            said = (f"theirs {number}" for number in range(60))
            store.append(make_append(make_scope(f"user {user}"), *said))
        works = claim_all(store)
        wanted = next(work for work in works if work.scope == ANA)
        near = vector_for(wanted.episode_id, wanted.ordinal, wanted.seq)
        # Every row of the other scopes is closer to the query than any of these.
        index.put(
            MODEL,
            [(work, near if work.scope != ANA else unit([work.ordinal, 1])) for work in works],
        )
        view = index.view(ANA, MODEL)
        assert len(view.cosine(near)) == 40
        assert has_vector(view) == [True] * 40
        assert float(view.cosine(near).max()) < 0.9

    def test_a_vector_reaches_its_own_scope_only(
        self, store: EpisodeStore, index: RecallIndex
    ) -> None:
        for scope in (ANA, BEN):
            store.append(make_append(scope, "a"))
        [anas] = [work for work in claim_all(store) if work.scope == ANA]
        stray = anas._replace(scope=make_scope("nobody"), scope_id=anas.scope_id + 1_000)
        put(index, [stray])
        assert has_vector(index.view(ANA, MODEL)) == [False]
        put(index, [anas])
        assert has_vector(index.view(ANA, MODEL)) == [True]
        assert has_vector(index.view(BEN, MODEL)) == [False]
        assert turn_refs(index.view(make_scope("nobody"), MODEL)) == []
