"""Store suite: erasures and their receipts, removals, compaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from uuid import UUID

import pytest

from ...domain.ids import new_id
from ...domain.message import Json
from ...ports.recall_rows import WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import Append, EpisodeQuery, Target
from ..fakes import make_append, make_closing, make_next, make_scope, make_summary
from .base import ANA, BEN, FAR, Reopen, StoreTests, after, at_once, claim_all, raised, snapshot
from .erasure import ANA_ELSEWHERE, entry, erase, fill
from .index_turns import later, make_all, ordinals
from .retention import LATER, index_entries, tell
from .scrub import rewritten, stored


def compact(store: EpisodeStore) -> None:
    """Compact, if the store may; a store whose role does not own the files still owes it."""
    if not store.compact():
        assert store.state().owes_compaction
        pytest.skip("this store may not rewrite its files")


def receipt_of(store: EpisodeStore, tenant: str, erasure_id: UUID) -> Mapping[str, Json] | None:
    found = store.erasures(tenant, erasure_id=erasure_id)
    assert [each.id for each in found] in ([], [erasure_id])
    return found[0].receipt if found else None


class ErasureTests(StoreTests):
    def test_an_erasure_is_unfinished_until_its_receipt_says_so(self, store: EpisodeStore) -> None:
        fill(store, ANA)
        done = erase(store, ANA)
        assert store.erasures(unfinished=True) == [done]
        assert receipt_of(store, "acme", done.id) is None
        assert store.keep_receipt(done, {"n": 1}, entry(action="receipt"), finished=False)
        assert store.erasures(unfinished=True) == [done]
        assert receipt_of(store, "acme", done.id) == {"n": 1}
        assert store.keep_receipt(done, {"n": 2, "é": "\0"}, entry(), finished=True)
        assert store.erasures(unfinished=True) == []
        assert receipt_of(store, "acme", done.id) == {"n": 2, "é": "\0"}
        assert len(store.audit("acme")) == 3

    def test_a_finished_receipt_stays(self, store: EpisodeStore) -> None:
        done = erase(store, ANA)
        store.keep_receipt(done, {"n": 1}, entry(), finished=True)
        for finished in (True, False):
            assert not store.keep_receipt(done, {"n": 2}, entry(), finished=finished)
        assert receipt_of(store, "acme", done.id) == {"n": 1}
        assert len(store.audit("acme")) == 2

    def test_a_receipt_belongs_to_its_tenant(self, store: EpisodeStore) -> None:
        done = erase(store, ANA)
        store.keep_receipt(done, {"n": 1}, entry(), finished=True)
        assert receipt_of(store, "other", done.id) is None
        assert receipt_of(store, "acme", new_id()) is None
        assert store.erasures("other") == []

    def test_erasures_newest_first_in_pages(self, store: EpisodeStore) -> None:
        made = [erase(store, scope) for scope in (ANA, BEN, ANA_ELSEWHERE)]
        erase(store, make_scope(tenant="other"))
        store.keep_receipt(made[1], {}, entry(), finished=True)
        assert store.erasures("acme") == made[::-1]
        assert store.erasures("acme", limit=2) == [made[2], made[1]]
        assert store.erasures("acme", before=made[1].id) == [made[0]]
        waiting = store.erasures(unfinished=True)
        assert [each.tenant for each in waiting] == ["other", "acme", "acme"]
        assert store.erasures("acme", unfinished=True, limit=1) == made[2:]

    def test_an_erasure_outlives_the_object(self, store: EpisodeStore, reopened: Reopen) -> None:
        fill(store, ANA)
        done = erase(store, ANA)
        again = reopened()
        assert again.erasures(unfinished=True) == [done]
        assert done.actor == "tester"
        assert again.state().removals == done.number

    def test_the_same_erasure_twice(self, store: EpisodeStore) -> None:
        fill(store, ANA)
        first, second = erase(store, ANA), erase(store, ANA)
        assert set(second.removed.values()) == {0}
        assert second.number == first.number


class RemovalTests(StoreTests):
    def test_a_new_store_has_no_words_of_memorys_own(self, store: EpisodeStore) -> None:
        assert not store.state().owes_own_words
        store.own_words_removed()
        assert not store.state().owes_own_words

    def test_every_removal_is_counted(self, store: EpisodeStore) -> None:
        seen = [store.state().removals]

        def look() -> None:
            seen.append(store.state().removals)

        write = make_append(ANA, "a", closing=make_closing())
        store.append(write)
        look()
        assert seen[1] == seen[0]
        store.archive(ANA, write.episode_id)
        look()
        store.delete(ANA, write.episode_id, at=after(days=1))
        look()
        store.purge(ANA, write.episode_id)
        look()
        store.append(make_append(BEN, "b"))
        erase(store, BEN)
        look()
        assert sorted(set(seen[1:])) == seen[1:]
        assert store.state().owes_compaction

    def test_compacting_pays_what_was_owed(self, store: EpisodeStore) -> None:
        assert not store.state().owes_compaction
        store.append(make_append(ANA, "a"))
        done = erase(store, ANA)
        assert store.state().owes_compaction
        assert store.state().compacted < done.number
        compact(store)
        assert not store.state().owes_compaction
        assert store.state().compacted >= done.number
        store.append(make_append(ANA, "a"))
        assert not store.state().owes_compaction
        erase(store, ANA)
        assert store.state().owes_compaction

    def test_compacting_changes_nothing_that_is_there(self, store: EpisodeStore) -> None:
        for scope in (ANA, BEN):
            fill(store, scope)
        erase(store, ANA)
        before = (
            snapshot(store, BEN),
            store.list_episodes(EpisodeQuery(of=BEN, deleted=True))[0],
            store.audit("acme"),
        )
        compact(store)
        assert (
            snapshot(store, BEN),
            store.list_episodes(EpisodeQuery(of=BEN, deleted=True))[0],
            store.audit("acme"),
        ) == before

    def test_removals_at_once_are_all_counted(self, store: EpisodeStore) -> None:
        users = [make_scope(f"user {number}") for number in range(8)]
        for scope in users:
            store.append(make_append(scope, "a"))
        before = store.state().removals
        outcomes = at_once(lambda number: erase(store, users[number]))
        assert raised(outcomes) == []
        assert store.state().removals == before + len(users)

    def test_what_a_remote_index_must_still_be_told(self, store: EpisodeStore) -> None:
        store.use_mirror("remote")
        store.use_model("m")
        for scope in (ANA, BEN):
            store.append(make_append(scope, "a"))
        store.put_vectors("m", [(work, b"\x01") for work in claim_all(store)])
        done = erase(store, ANA)
        assert store.waiting_removals(done) == 1
        assert set(store.left_of(done).values()) == {0}
        untouched = erase(store, make_scope("nobody"))
        assert store.waiting_removals(untouched) == 0
        until = FAR + timedelta(days=1)
        [removal] = store.claim(WorkKind.UNINDEX, worker_id="o", limit=9, now=FAR, until=until)
        assert (removal.tenant, removal.scope_id) == ("acme", done.scope_ids[0])
        assert removal.episode_id is None
        store.finish([removal])
        assert store.waiting_removals(done) == 0
        assert [work.scope for work in claim_all(store, WorkKind.INDEX)] == [BEN]

    def test_without_a_remote_index_nothing_waits(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a"))
        done = erase(store, ANA)
        assert store.waiting_removals(done) == 0
        assert store.backlog()[WorkKind.UNINDEX].waiting == 0


def _indexed_later(store: EpisodeStore, write: Append) -> None:
    ended = make_closing(at=after(hours=3), summary=make_summary("They met twice."))
    more = make_next(write, "c", at=after(hours=2), target=Target.RESUME, closing=ended)
    store.append(later(more))
    make_all(store, store.unindexed_turns(limit=9))


def _restored(store: EpisodeStore, write: Append) -> None:
    store.delete(ANA, write.episode_id, at=LATER)
    store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER)


_WAYS: dict[str, Callable[[EpisodeStore, Append], object]] = {
    "gone on": lambda store, write: store.append(
        make_next(write, "c", at=after(hours=2), target=Target.RESUME)
    ),
    "indexed later": _indexed_later,
    "summed up again": lambda store, write: store.put_summary(
        ANA, write.episode_id, make_summary("Better.")
    ),
    "rewritten": lambda store, write: store.rewrite(
        stored(store, write), turns=[rewritten(0, "x")], now=LATER
    ),
    "restored": _restored,
}


class OwnRowsTests(StoreTests):
    @pytest.mark.parametrize("way", _WAYS)
    def test_no_row_stays_however_late_it_came(self, store: EpisodeStore, way: str) -> None:
        first, write = tell(store, session_id="before"), tell(store)
        between = tell(store, session_id="between")
        _WAYS[way](store, write)
        last = tell(store, session_id="after")
        others = [ordinals(store, each) for each in (first, between, last)]
        assert len(ordinals(store, write)) >= 3
        if store.episodes(ANA, [write.episode_id])[write.episode_id].is_open:
            store.close_episode(ANA, write.episode_id, make_closing(), expect_messages=3)
        store.archive(ANA, write.episode_id)
        assert set(ordinals(store, write)) <= {-1}
        store.delete(ANA, write.episode_id, at=LATER)
        assert ordinals(store, write) == []
        assert [ordinals(store, each) for each in (first, between, last)] == others
        assert write.episode_id not in {work.episode_id for work in claim_all(store)}
