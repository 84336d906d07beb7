"""Store suite: removal of rows, of a user's or of single turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ...domain.errors import EpisodeChanged, EpisodeDeleted, EpisodeNotFound, LegalHold
from ...domain.ids import new_id
from ...domain.message import Json
from ...domain.retention import Hold
from ...ports.privacy import TurnRemoval
from ...ports.recall_rows import WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import (
    SUMMARY_ORDINAL,
    Append,
    EpisodeQuery,
    StoredEpisode,
    SummarySource,
    Target,
)
from ..fakes import (
    START,
    make_append,
    make_closing,
    make_fact,
    make_key,
    make_next,
    make_scope,
    make_summary,
    make_turn,
)
from .base import (
    ANA,
    BEN,
    FAR,
    Reopen,
    StoreTests,
    after,
    at_once,
    claim_all,
    find,
    raised,
    snapshot,
    texts,
)
from .erasure import ANA_ELSEWHERE, entry, erase, fill
from .index_turns import later, make_all, ordinals
from .retention import LATER, index_entries, make_entry, tell
from .scrub import rewritten, rows_of, stored


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


SAID = ("zero", "one", "two", "three", "four")


def told(store: EpisodeStore, **more: Any) -> Append:
    """An open episode of five turns, all embedded."""
    write = make_append(ANA, *SAID, **more)
    store.append(write)
    store.use_model("m")
    store.put_vectors("m", [(work, bytes([work.seq])) for work in claim_all(store)])
    return write


def removal(store: EpisodeStore, write: Append, *ordinals: int, **more: Any) -> TurnRemoval:
    was = stored(store, write)
    ids = frozenset(was.turns[ordinal].id for ordinal in ordinals)
    return TurnRemoval(was=was, ids=ids, **more)


class TurnRemovalTests(StoreTests):
    @pytest.mark.parametrize("gone", [(0,), (4,), (1, 3), (0, 1, 2), (0, 1, 2, 3, 4)])
    def test_the_turns_that_are_left_are_numbered_anew(
        self, store: EpisodeStore, gone: tuple[int, ...]
    ) -> None:
        write = told(store)
        before = store.turns(ANA, write.episode_id)
        vectors = {row.ordinal: row.vector for row in rows_of(store, write).values()}
        store.remove_turns([removal(store, write, *gone)], now=LATER)
        left = [ordinal for ordinal in range(5) if ordinal not in gone]
        turns = store.turns(ANA, write.episode_id)
        assert [turn.ordinal for turn in turns] == list(range(len(left)))
        assert [(t.id, t.message, t.at) for t in turns] == [
            (before[old].id, before[old].message, before[old].at) for old in left
        ]
        rows = rows_of(store, write)
        assert {new: row.vector for new, row in rows.items()} == {
            new: vectors[old] for new, old in enumerate(left)
        }
        assert [turn.embedding_ref for turn in turns] == [
            f"m/{rows[number].seq}" for number in range(len(left))
        ]
        assert find(store, write).message_count == len(left)
        assert claim_all(store) == []

    def test_more_is_added_after_a_removal(self, store: EpisodeStore) -> None:
        write = told(store)
        store.remove_turns([removal(store, write, 2, 4)], now=LATER)
        store.append(make_next(write, "five"))
        assert texts(store, write) == ["zero", "one", "three", "five"]
        assert [t.ordinal for t in store.turns(ANA, write.episode_id)] == [0, 1, 2, 3]

    def test_counts_go_down(self, store: EpisodeStore) -> None:
        turns = [make_turn("q", tokens=5), make_turn("a", role="assistant", tokens=7)]
        write = make_append(ANA, *turns, "last")
        store.append(write)
        before = find(store, write)
        store.remove_turns([removal(store, write, 1, 2)], now=LATER)
        after_it = find(store, write)
        assert (before.output_tokens, after_it.output_tokens) == (7, 0)
        assert after_it.input_tokens == 5
        assert after_it.last_message_at == turns[0].at

    def test_epoch_and_removals_tell_caches(self, store: EpisodeStore) -> None:
        write = told(store)
        state, made = store.recall_state(ANA), store.state().removals
        assert state is not None
        store.remove_turns([removal(store, write, 4)], now=LATER)
        after_it = store.recall_state(ANA)
        assert after_it is not None
        assert after_it.epoch > state.epoch
        assert store.state().removals > made

    def test_turns_that_wait_for_their_words_or_vectors_go_on_waiting(
        self, store: EpisodeStore
    ) -> None:
        bare = [replace(make_turn(text), lexical=None, embed=False) for text in ("a", "b", "c")]
        write = make_append(ANA, *bare)
        store.append(write)
        store.remove_turns([removal(store, write, 0)], now=LATER)
        [waits] = store.unindexed_turns(limit=10)
        assert (waits.first, waits.stop, waits.count) == (0, 2, 2)
        store.remove_turns([removal(store, write, 0, 1)], now=LATER)
        assert store.unindexed_turns(limit=10) == []
        other = make_append(ANA, "x", "y", session_id="other")
        store.append(other)
        store.remove_turns([removal(store, other, 0)], now=LATER)
        [work] = claim_all(store)
        assert (work.episode_id, work.ordinal) == (other.episode_id, 0)

    def test_words_told_for_the_old_turns_are_refused(self, store: EpisodeStore) -> None:
        bare = [replace(make_turn(text), lexical=None, embed=False) for text in ("a", "b")]
        write = make_append(ANA, *bare)
        store.append(write)
        found = store.unindexed_turns(limit=10)
        store.remove_turns([removal(store, write, 0)], now=LATER)
        assert store.index_turns([(found[0], [])]) == 0

    def test_facts_of_a_removed_turn_go_and_others_follow_theirs(self, store: EpisodeStore) -> None:
        turns = [make_turn(text) for text in SAID]
        facts = [
            make_fact(f"Fact {n}.", ordinal=n, turn_id=turns[n].id, is_pinned=n == 1)
            for n in (0, 1, 3)
        ]
        closing = make_closing(summary=make_summary("All.", facts=facts))
        write = make_append(ANA, *turns, closing=closing)
        store.append(write)
        new = make_summary("Less.", facts=[replace(facts[2], ordinal=2), facts[0]])
        store.remove_turns([removal(store, write, 1, summary=new)], now=LATER)
        left = {fact.text: fact.ordinal for fact in store.facts(ANA)}
        assert left == {"Fact 0.": 0, "Fact 3.": 2}

    def test_an_ended_episode_gets_the_new_summary_or_none(self, store: EpisodeStore) -> None:
        closing = make_closing(summary=make_summary("Said two.", "two", improve=True))
        write = make_append(ANA, *SAID, closing=closing)
        store.append(write)
        store.remove_turns([removal(store, write, 2, summary=make_summary("The rest."))], now=LATER)
        assert (find(store, write).summary, find(store, write).key_facts) == ("The rest.", ())
        assert SUMMARY_ORDINAL in rows_of(store, write)
        assert claim_all(store, WorkKind.SUMMARIZE) == []
        store.remove_turns([removal(store, write, 0, 1, 2, 3)], now=LATER)
        gone = find(store, write)
        assert (gone.summary, gone.summarized_by, gone.message_count) == (None, None, 0)
        assert rows_of(store, write) == {}

    def test_a_cold_episode_loses_its_turns_too(self, store: EpisodeStore) -> None:
        write = told(store, closing=make_closing(summary=make_summary("All of it.")))
        store.archive(ANA, write.episode_id, cold=True, at=LATER)
        new = make_summary("Some of it.")
        store.remove_turns([removal(store, write, 0, 4, summary=new)], now=LATER)
        kept = stored(store, write)
        assert [turn.text for turn in kept.turns] == ["one", "two", "three"]
        assert (kept.episode.summary, kept.episode.is_cold) == ("Some of it.", True)
        assert list(rows_of(store, write)) == [SUMMARY_ORDINAL]

    def test_a_key_stands_for_what_is_left(self, store: EpisodeStore) -> None:
        key = make_key("k")
        write = make_append(ANA, "before")
        store.append(write)
        store.append(make_next(write, "a", "b", "c", idempotency=key))
        store.remove_turns([removal(store, write, 0, 2)], now=LATER)
        again = store.append(make_next(write, "a", "b", "c", idempotency=key))
        assert [turn.text for turn in again] == ["a", "c"]
        store.remove_turns([removal(store, write, 0, 1)], now=LATER)
        with pytest.raises(EpisodeDeleted):
            store.append(make_next(write, "a", "b", "c", idempotency=key))

    def test_two_episodes_lose_turns_in_one_transaction(self, store: EpisodeStore) -> None:
        first, second = told(store), told(store, session_id="other")
        wrong = removal(store, second, 0)
        store.append(make_next(second, "meanwhile"))
        before = snapshot(store, ANA)
        with pytest.raises(EpisodeChanged):
            store.remove_turns([removal(store, first, 0), wrong], now=LATER)
        assert snapshot(store, ANA) == before
        store.remove_turns([removal(store, first, 0), removal(store, second, 5)], now=LATER)
        assert texts(store, first) == list(SAID[1:])
        assert texts(store, second) == list(SAID)

    def test_it_is_refused_where_the_episode_is_another(self, store: EpisodeStore) -> None:
        write = told(store)
        stale = removal(store, write, 0)
        store.remove_turns([removal(store, write, 1)], now=LATER)
        for wrong, error in (
            (stale, EpisodeChanged),
            (replace(stale, was=_of(stale, scope=BEN)), EpisodeNotFound),
            (replace(stale, was=_of(stale, id=new_id())), EpisodeNotFound),
        ):
            with pytest.raises(error):
                store.remove_turns([wrong], now=LATER)
        fresh = removal(store, write, 0)
        hold = Hold(
            id=new_id(),
            tenant=ANA.tenant,
            episode_id=write.episode_id,
            reason="a case",
            placed_at=START,
            placed_by="test",
        )
        store.place_hold(hold)
        with pytest.raises(LegalHold):
            store.remove_turns([fresh], now=LATER)
        assert len(texts(store, write)) == 4

    def test_a_summary_of_the_old_turns_is_refused(self, store: EpisodeStore) -> None:
        write = told(store)
        state = store.recall_state(ANA)
        assert state is not None
        made_of = SummarySource(turns=5, newest=state.newest)
        stale = make_closing(summary=replace(make_summary("Said four."), made_of=made_of))
        store.remove_turns([removal(store, write, 4)], now=LATER)
        bare = replace(make_turn("new"), lexical=None, embed=False)
        store.append(make_next(write, bare))
        with pytest.raises(EpisodeChanged):
            store.close_episode(ANA, write.episode_id, stale, expect_messages=5)
        with pytest.raises(EpisodeChanged):
            store.append(make_next(write, closing=stale))
        assert find(store, write).is_open

    def test_a_mirror_is_told(self, store: EpisodeStore) -> None:
        store.use_model("m")
        store.use_mirror("copy")
        write = told(store)
        claim_all(store, WorkKind.INDEX)
        store.remove_turns([removal(store, write, 1)], now=LATER)
        until = LATER + timedelta(days=1)
        [told_it] = store.claim(WorkKind.UNINDEX, worker_id="w", limit=10, now=LATER, until=until)
        rows = rows_of(store, write)
        assert told_it.episode_id == write.episode_id
        assert told_it.before_seq <= min(row.seq for row in rows.values())
        given = claim_all(store, WorkKind.INDEX, worker_id="again")
        assert sorted(work.seq for work in given) == sorted(row.seq for row in rows.values())

    def test_it_outlives_the_store_and_is_recorded(
        self, store: EpisodeStore, reopened: Reopen
    ) -> None:
        write = told(store)
        entry = make_entry(action="remove_turns")
        store.remove_turns([removal(store, write, 0)], now=LATER, entry=entry)
        again = reopened()
        assert texts(again, write) == list(SAID[1:])
        assert [each.action for each in again.audit(ANA.tenant, limit=10)] == ["remove_turns"]

    def test_of_several_at_once_one_is_done(self, store: EpisodeStore) -> None:
        write = told(store)
        planned = removal(store, write, 4)
        done = at_once(lambda _: store.remove_turns([planned], now=LATER), 4)
        assert raised(done) == [EpisodeChanged] * 3
        assert texts(store, write) == list(SAID[:4])


def _of(stale: TurnRemoval, **changed: Any) -> StoredEpisode:
    record = stale.was.record
    return replace(stale.was, record=replace(record, episode=replace(record.episode, **changed)))
