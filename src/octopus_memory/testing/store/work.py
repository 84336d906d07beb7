"""Store suite: the work queue."""

from __future__ import annotations

from datetime import datetime, timedelta

from ...domain.search.features import USER
from ...ports.recall_rows import Work, WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL, Append
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
from .base import ANA, BEN, Reopen, StoreTests, after, at_once, claim_all, place, raised

_LEASE = timedelta(minutes=1)


def _claim(
    store: EpisodeStore, *, limit: int = 100, now: datetime = START, owner: str = "worker"
) -> list[Work]:
    return store.claim(WorkKind.EMBED, worker_id=owner, limit=limit, now=now, until=now + _LEASE)


def _queue(store: EpisodeStore, count: int = 3) -> Append:
    write = make_append(ANA, *(make_turn(str(number)) for number in range(count)))
    store.append(write)
    return write


class ClaimTests(StoreTests):
    def test_work_names_what_it_is_about(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", make_turn("b", embed=False), "c")
        store.append(write)
        claimed = _claim(store)
        seqs = {row.ordinal: row.seq for row in store.recall_rows(ANA, after=0)[1]}
        assert [place(work) for work in claimed] == [
            (ANA, write.episode_id, 0),
            (ANA, write.episode_id, 2),
        ]
        assert [work.seq for work in claimed] == [seqs[0], seqs[2]]
        assert len({work.id for work in claimed}) == 2
        assert {(work.kind, work.attempts) for work in claimed} == {(WorkKind.EMBED, 0)}

    def test_the_turns_it_is_about_are_read_at_once(self, store: EpisodeStore) -> None:
        """Turns come with the turn before, which they may answer."""
        write = make_append(ANA, "a", make_turn("b", embed=False), "c", "d", make_turn("e"))
        store.append(write)
        store.append(make_append(BEN, "f", closing=make_closing(summary=make_summary())))
        work = _claim(store)
        read = sorted(store.turns_of(work), key=lambda turn: turn.text)
        assert [turn.text for turn in read] == ["a", "b", "c", "d", "e", "f"]
        assert read[:5] == store.turns(ANA, write.episode_id)
        last = [piece for piece in work if piece.ordinal == 3]
        assert sorted(turn.text for turn in store.turns_of(last)) == ["c", "d"]
        store.finish(work)
        assert store.turns_of(work) == []

    def test_the_oldest_is_claimed_first(self, store: EpisodeStore) -> None:
        for hour in (2, 0, 1):
            scope = make_scope(f"user {hour}")
            store.append(make_append(scope, "a", "b", now=after(hours=hour)))
        first = _claim(store, limit=3, now=after(hours=3))
        rest = _claim(store, now=after(hours=3))
        users = [work.scope.user for work in first + rest]
        assert users == ["user 0"] * 2 + ["user 1"] * 2 + ["user 2"] * 2
        assert [work.ordinal for work in first] == [0, 1, 0]

    def test_no_more_than_asked_for(self, store: EpisodeStore) -> None:
        _queue(store, 5)
        taken = [len(_claim(store, limit=2)) for _ in range(4)]
        assert taken == [2, 2, 1, 0]

    def test_kinds_are_apart(self, store: EpisodeStore) -> None:
        closing = make_closing(summary=make_summary(improve=True))
        write = make_append(ANA, make_turn("a", embed=False), closing=closing)
        store.append(write)
        [embed] = claim_all(store, WorkKind.EMBED)
        [better] = claim_all(store, WorkKind.SUMMARIZE)
        assert (embed.kind, better.kind) == (WorkKind.EMBED, WorkKind.SUMMARIZE)
        assert place(embed) == place(better) == (ANA, write.episode_id, SUMMARY_ORDINAL)
        store.finish([embed])
        assert store.backlog()[WorkKind.SUMMARIZE].waiting == 1

    def test_a_claim_holds_until_its_lease_ends(self, store: EpisodeStore) -> None:
        _queue(store)
        claimed = _claim(store, owner="first")
        nearly = START + _LEASE - timedelta(microseconds=1)
        assert _claim(store, owner="second", now=nearly) == []
        again = _claim(store, owner="second", now=START + _LEASE + timedelta(seconds=1))
        assert [work.id for work in again] == [work.id for work in claimed]
        assert worker_ids(store) == ["second"]

    def test_no_piece_is_handed_to_two(self, store: EpisodeStore) -> None:
        for user in ("a", "b", "c"):
            store.append(make_append(make_scope(user), *(str(number) for number in range(40))))

        def work(thread: int) -> list[int]:
            mine: list[int] = []
            while claimed := _claim(store, limit=3, now=after(hours=1), owner=f"w{thread}"):
                mine += [piece.id for piece in claimed]
            return mine

        outcomes = at_once(work)
        assert raised(outcomes) == []
        taken = [piece for mine in outcomes if isinstance(mine, list) for piece in mine]
        assert len(taken) == len(set(taken)) == 120

    def test_all_is_done_once_by_many(self, store: EpisodeStore) -> None:
        write = _queue(store, 30)

        def work(thread: int) -> int:
            done = 0
            while claimed := _claim(store, limit=2, owner=f"w{thread}"):
                store.put_vectors("m", [(piece, bytes([piece.ordinal])) for piece in claimed])
                done += len(claimed)
                if thread == 0:
                    store.append(make_next(write, make_turn("more", role="user", embed=False)))
            return done

        outcomes = at_once(work)
        assert raised(outcomes) == []
        assert sum(done for done in outcomes if isinstance(done, int)) == 30
        rows = store.recall_rows(ANA, after=0)[1]
        assert [row.vector for row in rows[:30]] == [bytes([n]) for n in range(30)]
        assert {row.role for row in rows} == {USER}


class LeaseTests(StoreTests):
    def test_finished_work_is_gone(self, store: EpisodeStore) -> None:
        _queue(store)
        first, second, third = _claim(store)
        store.finish([first, third])
        store.finish([first])
        store.finish([])
        assert store.backlog()[WorkKind.EMBED].waiting == 1
        assert [work.id for work in _claim(store, now=after(days=1))] == [second.id]

    def test_finished_work_leaves_the_times_that_turns_tell_of(self, store: EpisodeStore) -> None:
        _queue(store)
        before = [row.lexical.told for row in store.recall_rows(ANA)[1]]
        first, second, third = _claim(store)
        store.finish([first, second], told={first.id: 12_345, third.id: 6})
        assert store.backlog()[WorkKind.EMBED].waiting == 1
        rows = store.recall_rows(ANA)[1]
        assert [row.lexical.told for row in rows] == [12_345, *before[1:]]

    def test_postponed_work_comes_back_and_counts(self, store: EpisodeStore) -> None:
        _queue(store)
        first, second, third = _claim(store)
        store.postpone([first, second], until=after(hours=1))
        assert _claim(store, now=after(seconds=30)) == []
        [held] = _claim(store, now=after(minutes=59))
        assert (held.id, held.attempts) == (third.id, 0)
        again = _claim(store, now=after(hours=1, seconds=1))
        tries = {work.id: work.attempts for work in again}
        assert (tries[first.id], tries[second.id]) == (1, 1)
        store.postpone(again, until=after(hours=2))
        later = {work.id: work.attempts for work in _claim(store, now=after(hours=3))}
        assert (later[first.id], later[second.id]) == (2, 2)

    def test_postponed_work_holds_up_nothing_else(self, store: EpisodeStore) -> None:
        _queue(store, 2)
        store.postpone(_claim(store), until=after(hours=1))
        store.append(make_append(BEN, "new"))
        assert [work.scope for work in _claim(store, limit=1)] == [BEN]

    def test_owners_are_those_with_leases(self, store: EpisodeStore) -> None:
        assert worker_ids(store) == []
        _queue(store, 4)
        held = {owner: _claim(store, limit=1, owner=owner) for owner in ("a", "b", "c")}
        assert sorted(worker_ids(store)) == ["a", "b", "c"]
        store.finish(held["a"])
        store.postpone(held["b"], until=after(hours=1))
        assert worker_ids(store) == ["c"]
        release(store, "c")
        assert worker_ids(store) == []

    def test_what_an_owner_held_can_be_claimed_at_once(self, store: EpisodeStore) -> None:
        _queue(store, 4)
        lost = _claim(store, limit=2, owner="gone")
        _claim(store, limit=2, owner="alive")
        release(store, "gon")
        release(store, "GONE")
        assert _claim(store, owner="new") == []
        release(store, "gone")
        assert [work.id for work in _claim(store, owner="new")] == [work.id for work in lost]
        assert sorted(worker_ids(store)) == ["alive", "new"]

    def test_leases_that_are_too_long_end(self, store: EpisodeStore) -> None:
        """A clock was ahead when they were claimed, postponed or queued."""
        _queue(store, 3)
        held, late, kept = _claim(store, limit=3, now=after(days=365), owner="ahead")
        store.postpone([late], until=after(days=400))
        store.postpone([kept], until=after(minutes=30))
        store.append(make_append(BEN, "new", now=after(days=365)))
        assert _claim(store, now=START) == []
        assert (
            store.release_leases(lambda _: False, now=after(seconds=1), latest=after(hours=1)) == 3
        )
        assert (
            store.release_leases(lambda _: False, now=after(seconds=1), latest=after(hours=1)) == 0
        )
        assert worker_ids(store) == []
        again = _claim(store, now=after(seconds=1))
        assert {work.id for work in again} > {held.id, late.id}
        assert [work.scope for work in again if work.id not in (held.id, late.id)] == [BEN]
        oldest = store.backlog()[WorkKind.EMBED].oldest
        assert oldest is not None
        assert oldest <= after(seconds=1)

    def test_leases_that_may_last_stay(self, store: EpisodeStore) -> None:
        _queue(store, 2)
        _claim(store, limit=1, owner="working")
        assert store.release_leases(lambda _: False, now=START, latest=after(hours=1)) == 0
        assert worker_ids(store) == ["working"]
        assert len(_claim(store)) == 1

    def test_much_work_at_once(self, store: EpisodeStore) -> None:
        _queue(store, 900)
        claimed = _claim(store, limit=2_000)
        assert len(claimed) == 900
        store.postpone(claimed, until=START)
        again = _claim(store, limit=2_000, now=after(seconds=1))
        assert {work.attempts for work in again} == {1}
        store.finish(again)
        assert store.backlog()[WorkKind.EMBED].waiting == 0

    def test_work_and_leases_outlive_the_object(
        self, store: EpisodeStore, reopened: Reopen
    ) -> None:
        _queue(store)
        [held] = _claim(store, limit=1, owner="killed")
        again = reopened()
        assert worker_ids(again) == ["killed"]
        assert len(_claim(again, owner="new")) == 2
        release(again, "killed")
        assert [work.id for work in _claim(again, owner="new")] == [held.id]


class BacklogTests(StoreTests):
    def test_every_kind_is_there_when_nothing_waits(self, store: EpisodeStore) -> None:
        backlog = store.backlog()
        assert set(backlog) == set(WorkKind)
        assert {(each.waiting, each.oldest) for each in backlog.values()} == {(0, None)}

    def test_claimed_work_counts(self, store: EpisodeStore) -> None:
        _queue(store, 3)
        store.append(make_append(BEN, "a", now=after(days=1)))
        for _ in range(2):
            backlog = store.backlog()[WorkKind.EMBED]
            assert (backlog.waiting, backlog.oldest) == (4, START)
            claimed = _claim(store, now=after(days=2))
        store.postpone(claimed, until=after(days=9))
        store.finish(_claim(store, limit=3, now=after(days=10)))
        assert store.backlog()[WorkKind.EMBED].oldest == after(days=1)
        assert store.stats().backlog == store.backlog()
