"""Store suite: the mirror gets every change, and none twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from ...ports.recall_rows import Removal, RowPart, Work, WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL, Append, Target
from ...testing.store.base import release, worker_ids
from ..fakes import (
    START,
    make_append,
    make_closing,
    make_next,
    make_scope,
    make_summary,
    make_turn,
)
from .base import ANA, BEN, FAR, Reopen, StoreTests, after, claim_all, place
from .erasure import erase

_MIRROR = "somewhere/else"


def _give_vectors(store: EpisodeStore, model: str = "m") -> list[Work]:
    works = claim_all(store)
    store.put_vectors(model, [(work, bytes([work.seq])) for work in works])
    return works


def _removals(store: EpisodeStore) -> list[Removal]:
    """Every removal that waits, finished."""
    found = store.claim(
        WorkKind.UNINDEX, worker_id="suite", limit=1_000, now=FAR, until=FAR + timedelta(days=1)
    )
    store.finish(found)
    return found


def _closed(store: EpisodeStore) -> Append:
    write = make_append(ANA, "a", "b", closing=make_closing())
    store.append(write)
    store.use_model("m")
    _give_vectors(store)
    return write


class MirrorTests(StoreTests):
    def test_without_a_mirror_nothing_is_queued_for_one(self, store: EpisodeStore) -> None:
        assert store.state().mirror is None
        write = _closed(store)
        store.archive(ANA, write.episode_id)
        erase(store, ANA)
        waiting = store.backlog()
        assert waiting[WorkKind.INDEX].waiting == waiting[WorkKind.UNINDEX].waiting == 0
        assert store.queue_for_mirror() == 0

    def test_a_new_mirror_is_to_be_told_of_every_vector(self, store: EpisodeStore) -> None:
        write = _closed(store)
        store.append(make_append(BEN, "not embedded yet"))
        store.use_mirror(_MIRROR)
        assert store.state().mirror == _MIRROR
        queued = claim_all(store, WorkKind.INDEX)
        assert {place(work) for work in queued} == {
            (ANA, write.episode_id, ordinal) for ordinal in (0, 1, SUMMARY_ORDINAL)
        }
        state = store.recall_state(ANA)
        assert state is not None
        assert {work.scope_id for work in queued} == {state.scope_id}

    def test_the_same_mirror_again_changes_nothing(self, store: EpisodeStore) -> None:
        _closed(store)
        store.use_mirror(_MIRROR)
        store.finish(claim_all(store, WorkKind.INDEX))
        store.use_mirror(_MIRROR)
        assert store.backlog()[WorkKind.INDEX].waiting == 0

    def test_without_it_again_what_was_queued_is_dropped(self, store: EpisodeStore) -> None:
        write = _closed(store)
        store.use_mirror(_MIRROR)
        store.archive(ANA, write.episode_id)
        store.use_mirror(None)
        assert store.state().mirror is None
        waiting = store.backlog()
        assert waiting[WorkKind.INDEX].waiting == waiting[WorkKind.UNINDEX].waiting == 0

    def test_a_vector_that_is_put_queues_its_row(self, store: EpisodeStore) -> None:
        store.use_model("m")
        store.use_mirror(_MIRROR)
        store.append(make_append(ANA, "a", make_turn("b", embed=False), "c"))
        assert store.backlog()[WorkKind.INDEX].waiting == 0
        given = _give_vectors(store)
        queued = claim_all(store, WorkKind.INDEX)
        assert [(w.kind, w.seq) for w in queued] == [(WorkKind.INDEX, w.seq) for w in given]

    def test_a_new_vector_is_not_finished_with_the_old_one(self, store: EpisodeStore) -> None:
        """A worker that sends the old vector may finish after the new one came."""
        store.use_model("m")
        store.use_mirror(_MIRROR)
        store.append(make_append(ANA, "a"))
        _give_vectors(store)
        [old] = claim_all(store, WorkKind.INDEX)
        store.use_model("n")
        _give_vectors(store, "n")
        store.finish([old])
        [new] = claim_all(store, WorkKind.INDEX)
        assert new.id != old.id
        assert new.seq == old.seq

    def test_queueing_all_passes_over_what_waits(self, store: EpisodeStore) -> None:
        _closed(store)
        store.append(make_append(BEN, "a"))
        _give_vectors(store)
        store.use_mirror(_MIRROR)
        first, *rest = claim_all(store, WorkKind.INDEX)
        store.finish([first])
        assert store.queue_for_mirror() == 1
        assert store.queue_for_mirror() == 0
        release(store, "suite")
        again = claim_all(store, WorkKind.INDEX)
        assert {place(work) for work in again} == {place(work) for work in (first, *rest)}

    def test_queueing_one_scope(self, store: EpisodeStore) -> None:
        _closed(store)
        store.append(make_append(BEN, "a"))
        _give_vectors(store)
        store.use_mirror(_MIRROR)
        store.finish(claim_all(store, WorkKind.INDEX))
        bens = store.recall_state(BEN)
        assert bens is not None
        assert store.queue_for_mirror(bens.scope_id) == 1
        assert [work.scope for work in claim_all(store, WorkKind.INDEX)] == [BEN]

    def test_only_the_model_in_use_is_queued(self, store: EpisodeStore) -> None:
        _closed(store)
        store.use_model("another")
        store.use_mirror(_MIRROR)
        assert store.backlog()[WorkKind.INDEX].waiting == 0

    def test_it_outlives_the_object(self, store: EpisodeStore, reopened: Reopen) -> None:
        write = _closed(store)
        store.use_mirror(_MIRROR)
        store.archive(ANA, write.episode_id)
        again = reopened()
        assert again.state().mirror == _MIRROR
        assert again.backlog()[WorkKind.INDEX].waiting == 1
        assert len(_removals(again)) == 1


class MirrorRemovalTests(StoreTests):
    """Every way of removing rows, and the removal that it queues."""

    def _after(
        self, store: EpisodeStore, do: Callable[[Append], object]
    ) -> tuple[Append, list[Removal], int]:
        """The episode, the removals that `do` queued, and the first `seq` unused before it."""
        write = _closed(store)
        store.use_mirror(_MIRROR)
        state = store.recall_state(ANA)
        assert state is not None
        do(write)
        found = _removals(store)
        assert {(one.tenant, one.scope_id) for one in found} == {(ANA.tenant, state.scope_id)}
        return write, found, state.newest + 1

    def test_archiving_removes_the_turns(self, store: EpisodeStore) -> None:
        write, [found], first_new = self._after(
            store, lambda write: store.archive(ANA, write.episode_id)
        )
        assert (found.episode_id, found.part) == (write.episode_id, RowPart.TURNS)
        assert found.before_seq == first_new

    def test_a_better_summary_removes_the_old_one(self, store: EpisodeStore) -> None:
        write, [found], first_new = self._after(
            store, lambda write: store.put_summary(ANA, write.episode_id, make_summary("Better."))
        )
        assert (found.episode_id, found.part) == (write.episode_id, RowPart.SUMMARY)
        [better] = [row for row in store.recall_rows(ANA, after=0)[1] if row.ordinal < 0]
        assert found.before_seq == first_new == better.seq

    def test_resuming_removes_the_summary(self, store: EpisodeStore) -> None:
        write, [found], first_new = self._after(
            store,
            lambda write: store.append(
                make_next(write, "c", target=Target.RESUME, at=after(days=1))
            ),
        )
        assert (found.episode_id, found.part) == (write.episode_id, RowPart.SUMMARY)
        assert found.before_seq >= first_new
        closing = make_closing(after(days=2))
        store.close_episode(ANA, write.episode_id, closing, expect_messages=3)
        [new] = [row for row in store.recall_rows(ANA, after=0)[1] if row.ordinal < 0]
        assert new.seq >= found.before_seq

    def test_erasing_an_episode_removes_all_of_it(self, store: EpisodeStore) -> None:
        write, [found], first_new = self._after(
            store, lambda write: erase(store, ANA, episode_id=write.episode_id)
        )
        assert (found.episode_id, found.part) == (write.episode_id, RowPart.ALL)
        assert found.before_seq == first_new

    def test_erasing_a_user_removes_the_scope(self, store: EpisodeStore) -> None:
        _, [found], first_new = self._after(store, lambda _: erase(store, ANA))
        assert (found.episode_id, found.part) == (None, RowPart.ALL)
        assert found.before_seq == first_new
        assert claim_all(store, WorkKind.INDEX) == []

    def test_removals_are_leased_like_any_work(self, store: EpisodeStore) -> None:
        write = _closed(store)
        store.use_mirror(_MIRROR)
        store.archive(ANA, write.episode_id)
        until = FAR + timedelta(minutes=1)
        [held] = store.claim(WorkKind.UNINDEX, worker_id="one", limit=10, now=FAR, until=until)
        assert store.claim(WorkKind.UNINDEX, worker_id="two", limit=10, now=FAR, until=until) == []
        store.postpone([held], until=FAR + timedelta(hours=1), worker_id="two")
        assert worker_ids(store) == ["one"]
        store.postpone([held], until=FAR + timedelta(hours=1), worker_id="one")
        [again] = store.claim(
            WorkKind.UNINDEX,
            worker_id="two",
            limit=10,
            now=FAR + timedelta(hours=2),
            until=FAR + timedelta(hours=3),
        )
        assert (again.id, again.attempts) == (held.id, 1)
        store.finish([again])
        assert store.backlog()[WorkKind.UNINDEX].waiting == 0

    def test_removals_are_not_the_rows_own_work(self, store: EpisodeStore) -> None:
        """A second removal does not replace the first."""
        write = _closed(store)
        store.use_mirror(_MIRROR)
        store.archive(ANA, write.episode_id)
        erase(store, ANA, episode_id=write.episode_id)
        assert {found.part for found in _removals(store)} == {RowPart.TURNS, RowPart.ALL}


class WaitingRowsTests(StoreTests):
    def test_rows_that_wait_for_a_vector_or_for_the_index(self, store: EpisodeStore) -> None:
        store.use_model("m")
        store.use_mirror(_MIRROR)
        write = make_append(ANA, "a", "b", make_turn("c", embed=False))
        store.append(write)
        store.append(make_append(BEN, "d"))
        rows = {row.ordinal: row.seq for row in store.recall_rows(ANA, after=0)[1]}
        assert sorted(store.waiting_rows(ANA, limit=10)) == [rows[0], rows[1]]
        _give_vectors(store)
        assert sorted(store.waiting_rows(ANA, limit=10)) == [rows[0], rows[1]]
        assert len(store.waiting_rows(ANA, limit=1)) == 1
        [first, *_] = claim_all(store, WorkKind.INDEX)
        store.finish([first])
        assert store.waiting_rows(ANA, limit=10) == [rows[1]]
        assert store.waiting_rows(make_scope("nobody"), limit=10) == []

    def test_scopes_go_by_their_numbers(self, store: EpisodeStore) -> None:
        scopes = [make_scope(user, tenant=user) for user in ("c", "a", "b")]
        for scope in scopes:
            store.append(make_append(scope, "a", now=START))
        every = store.scopes(limit=10)
        assert [scope for _, scope in every] == scopes
        assert [number for number, _ in every] == sorted(number for number, _ in every)
        first, second = store.scopes(limit=2)
        assert [first, second] == every[:2]
        assert store.scopes(after=second[0], limit=2) == every[2:]
        erase(store, scopes[0])
        assert store.scopes(limit=10) == every[1:]

    def test_the_newest_row_has_the_highest_number(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b")
        store.append(write)
        store.append(make_next(write, "c", closing=make_closing()))
        state, rows = store.recall_rows(ANA, after=0)
        assert state.newest == rows[-1].seq == 4
        assert store.recall_state(ANA) == state
