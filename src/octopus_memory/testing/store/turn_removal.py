"""Store suite: removing single turns, and all that was made of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ...domain.errors import EpisodeChanged, EpisodeDeleted, EpisodeNotFound, LegalHold
from ...domain.ids import new_id
from ...domain.retention import Hold
from ...ports.privacy import TurnRemoval
from ...ports.recall_rows import WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL, Append, StoredEpisode, SummarySource
from ..fakes import (
    START,
    make_append,
    make_closing,
    make_fact,
    make_key,
    make_next,
    make_summary,
    make_turn,
)
from .base import (
    ANA,
    BEN,
    Reopen,
    StoreTests,
    at_once,
    claim_all,
    find,
    raised,
    snapshot,
    texts,
)
from .retention import LATER, make_entry
from .scrub import rows_of, stored

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
