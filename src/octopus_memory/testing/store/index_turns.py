"""Store suite: turns that are stored first and indexed later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import pytest

from ...domain.episode import Scope
from ...domain.errors import EpisodeChanged
from ...domain.facts import Fact
from ...domain.ids import new_id
from ...ports.recall_rows import UnindexedTurns, WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import Append, IndexEntry, SummarySource
from ..fakes import (
    make_append,
    make_closing,
    make_fact,
    make_key,
    make_lexical,
    make_next,
    make_scope,
    make_summary,
)
from .base import ANA, BEN, Reopen, StoreTests, after, at_once, claim_all, find, place, texts
from .erasure import erase
from .retention import LATER, index_entries, tell
from .scrub import rewritten, stored

_MANY = 300
"""More turns of an episode than are indexed at a time."""
_ELSEWHERE = make_scope("ana", tenant="other")


def later(write: Append) -> Append:
    """An append of turns that are indexed later."""
    return replace(write, turns=[replace(turn, lexical=None) for turn in write.turns])


def say(store: EpisodeStore, *said: str, scope: Scope = ANA, session_id: str = "session") -> Append:
    write = later(make_append(scope, *(said or ("a", "b")), session_id=session_id))
    store.append(write)
    return write


def how(store: EpisodeStore, found: UnindexedTurns) -> list[IndexEntry]:
    turns = store.turns(found.scope, found.episode_id, start=found.first, stop=found.stop)
    return [
        IndexEntry(
            ordinal=turn.ordinal, lexical=make_lexical(turn.text), embed=turn.text != "short"
        )
        for turn in turns
    ]


def make_all(store: EpisodeStore, found: Sequence[UnindexedTurns]) -> int:
    return store.index_turns([(each, how(store, each)) for each in found])


def index_facts(store: EpisodeStore, *facts: Fact) -> None:
    """Index what waits, with these facts of its turns."""
    [found] = store.unindexed_turns(limit=10)
    entries = [
        entry._replace(facts=tuple(fact for fact in facts if fact.ordinal == entry.ordinal))
        for entry in how(store, found)
    ]
    assert store.index_turns([(found, entries)]) == 1


def ordinals(store: EpisodeStore, write: Append) -> list[int]:
    rows = store.recall_rows(write.scope, after=0)[1]
    return [row.ordinal for row in rows if row.episode_id == write.episode_id]


class UnindexedTurnsTests(StoreTests):
    def test_facts_are_stored_with_the_recall_rows_of_their_turns(
        self, store: EpisodeStore
    ) -> None:
        write = say(store, "a", "b")
        cat, dog = make_fact("Has a cat.", ordinal=0), make_fact("Has a dog.", ordinal=1)
        index_facts(store, cat, dog)
        assert {fact.text: fact.episode_id for fact in store.facts(ANA)} == {
            "Has a cat.": write.episode_id,
            "Has a dog.": write.episode_id,
        }
        store.delete_fact(ANA, dog.id, at=LATER)
        store.append(later(make_next(write, "c", "d")))
        # What was deleted does not come back, what is said again is no news.
        bird = make_fact("Has a bird.", ordinal=3)
        again = replace(cat, id=new_id(), ordinal=2)
        index_facts(store, again, replace(dog, id=new_id(), ordinal=2), bird)
        known = [fact.text for fact in store.facts(ANA) if not fact.is_deleted]
        assert sorted(known) == ["Has a bird.", "Has a cat."]

    def test_turns_whose_facts_are_known_get_no_others(self, store: EpisodeStore) -> None:
        write = say(store, "a", "b")
        summary = make_summary("They met.", facts=[make_fact("Has a cat.", ordinal=1)])
        store.close_episode(ANA, write.episode_id, make_closing(summary=summary), expect_messages=2)
        index_facts(store, make_fact("Has a dog.", ordinal=0))
        assert [fact.text for fact in store.facts(ANA)] == ["Has a cat."]

    def test_what_has_no_words_is_stored_and_not_found(self, store: EpisodeStore) -> None:
        write = say(store, "a", "b")
        assert texts(store, write) == ["a", "b"]
        assert find(store, write).message_count == 2
        assert ordinals(store, write) == []
        assert claim_all(store) == []
        [found] = store.unindexed_turns(limit=10)
        assert (found.scope, found.episode_id) == (ANA, write.episode_id)
        assert (found.first, found.stop) == (0, 2)

    def test_the_state_of_its_scope_says_so(self, store: EpisodeStore) -> None:
        def says(scope: Scope) -> bool | None:
            state = store.recall_state(scope)
            return None if state is None else state.has_unindexed

        store.append(make_append(ANA, "a"))
        store.append(make_append(BEN, "a"))
        assert (says(ANA), says(BEN), says(_ELSEWHERE)) == (False, False, None)
        say(store, "b", session_id="other")
        assert (says(ANA), says(BEN)) == (True, False)
        make_all(store, store.unindexed_turns(limit=10))
        assert says(ANA) is False

    def test_it_counts_as_waiting(self, store: EpisodeStore) -> None:
        say(store, "a", "b")
        say(store, "c", scope=BEN)
        waiting = store.backlog()[WorkKind.EMBED]
        assert (waiting.waiting, waiting.oldest) == (3, after())
        make_all(store, store.unindexed_turns(limit=10))
        assert store.backlog()[WorkKind.EMBED].waiting == 3

    def test_what_has_its_words_is_none_of_it(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a"))
        assert store.unindexed_turns(limit=10) == []

    def test_others_see_nothing_of_it(self, store: EpisodeStore) -> None:
        say(store)
        for scope in (BEN, _ELSEWHERE, make_scope("ana", agent="another")):
            assert store.unindexed_turns(scope, limit=10) == []
        assert len(store.unindexed_turns(ANA, limit=10)) == 1

    def test_no_more_episodes_than_asked_for(self, store: EpisodeStore) -> None:
        for name in ("s", "t", "u"):
            say(store, session_id=name)
        assert len(store.unindexed_turns(limit=2)) == 2
        assert len(store.unindexed_turns(ANA, limit=2)) == 2

    def test_of_one_episode_alone(self, store: EpisodeStore) -> None:
        say(store, session_id="s")
        write = say(store, "c", session_id="t")
        [found] = store.unindexed_turns(ANA, episode_id=write.episode_id, limit=10)
        assert (found.episode_id, found.count) == (write.episode_id, 1)
        assert store.unindexed_turns(BEN, episode_id=write.episode_id, limit=10) == []

    def test_the_turns_of_several_are_read_at_once(self, store: EpisodeStore) -> None:
        write = say(store, "a", "b")
        make_all(store, store.unindexed_turns(limit=10))
        store.append(later(make_next(write, "c")))
        say(store, "d", "e", scope=_ELSEWHERE)
        found = store.unindexed_turns(limit=10)
        read = sorted(store.turns_of(found), key=lambda turn: turn.text)
        assert [turn.text for turn in read] == ["c", "d", "e"]
        assert read[:1] == store.turns(ANA, write.episode_id, start=2)
        erase(store, _ELSEWHERE)
        assert [turn.text for turn in store.turns_of(found)] == ["c"]
        assert store.turns_of([]) == []
        make_all(store, found)
        assert store.turns_of(found) == []

    def test_it_outlives_the_store(self, store: EpisodeStore, reopened: Reopen) -> None:
        say(store)
        before = store.unindexed_turns(limit=10)
        assert reopened().unindexed_turns(limit=10) == before

    def test_a_key_gives_back_what_is_not_indexed_yet(self, store: EpisodeStore) -> None:
        write = replace(later(make_append(ANA, "a")), idempotency=make_key())
        assert store.append(write) == store.append(write)
        assert [found.stop for found in store.unindexed_turns(limit=10)] == [1]


class IndexTurnsTests(StoreTests):
    def test_each_turn_gets_its_row_in_order(self, store: EpisodeStore) -> None:
        write = say(store, "a", "short", "c")
        assert make_all(store, store.unindexed_turns(limit=10)) == 1
        rows = store.recall_rows(ANA, after=0)[1]
        assert [row.ordinal for row in rows] == [0, 1, 2]
        assert [row.lexical for row in rows] == [make_lexical(t) for t in ("a", "short", "c")]
        assert [row.model for row in rows] == [None, "", None]
        assert [row.at for row in rows] == [int(t.at.timestamp() * 1e6) for t in write.turns]
        assert [place(work)[1:] for work in claim_all(store)] == [
            (write.episode_id, 0),
            (write.episode_id, 2),
        ]
        assert store.unindexed_turns(limit=10) == []

    def test_recall_is_told_that_there_are_rows(self, store: EpisodeStore) -> None:
        say(store)
        before = store.recall_state(ANA)
        make_all(store, store.unindexed_turns(limit=10))
        state = store.recall_state(ANA)
        assert before is not None
        assert state is not None
        assert state.version > before.version
        assert (state.epoch, state.newest) == (before.epoch, before.newest + 2)

    def test_what_comes_after_waits_anew(self, store: EpisodeStore) -> None:
        write = say(store, "a")
        [first] = store.unindexed_turns(limit=10)
        store.append(later(make_next(write, "b")))
        assert make_all(store, [first]) == 1
        [second] = store.unindexed_turns(limit=10)
        assert (second.first, second.stop) == (1, 2)
        make_all(store, [second])
        store.append(later(make_next(write, "c", "d")))
        [third] = store.unindexed_turns(limit=10)
        assert (third.first, third.stop) == (2, 4)
        make_all(store, [third])
        assert ordinals(store, write) == [0, 1, 2, 3]

    def test_a_long_episode_is_made_in_pieces(self, store: EpisodeStore) -> None:
        write = say(store, *(["short"] * _MANY))
        rounds = 0
        while found := store.unindexed_turns(limit=10):
            rounds += make_all(store, found)
        assert rounds > 1
        assert ordinals(store, write) == list(range(_MANY))

    def test_who_was_slower_changes_nothing(self, store: EpisodeStore) -> None:
        write = say(store)
        found = store.unindexed_turns(limit=10)
        done = [(each, how(store, each)) for each in found]
        outcomes = at_once(lambda _: store.index_turns(done))
        assert sorted(map(str, outcomes)) == ["0"] * 7 + ["1"]
        assert ordinals(store, write) == [0, 1]
        assert len(claim_all(store)) == 2

    def test_several_scopes_at_once(self, store: EpisodeStore) -> None:
        writes = [say(store, scope=scope) for scope in (BEN, ANA, _ELSEWHERE)]
        found = store.unindexed_turns(limit=10)
        assert {each.scope for each in found} == {ANA, BEN, _ELSEWHERE}
        assert make_all(store, found) == 3
        assert [ordinals(store, write) for write in writes] == [[0, 1]] * 3

    def test_an_episode_is_indexed_once(self, store: EpisodeStore) -> None:
        write = say(store)
        assert make_all(store, store.unindexed_turns(limit=10) * 2) == 1
        assert ordinals(store, write) == [0, 1]

    def test_another_scopes_episode_is_passed_over(self, store: EpisodeStore) -> None:
        write = say(store)
        say(store, scope=BEN)
        found = store.unindexed_turns(ANA, limit=10)[0]
        assert make_all(store, [replace(found, scope=BEN)]) == 0
        assert ordinals(store, write) == []

    def test_what_was_read_before_something_was_removed_is_passed_over(
        self, store: EpisodeStore
    ) -> None:
        """The same ordinal may name another turn by then."""
        write = say(store, session_id="s")
        gone = say(store, session_id="t")
        done = [(each, how(store, each)) for each in store.unindexed_turns(limit=10)]
        erase(store, ANA, episode_id=gone.episode_id)
        assert store.index_turns(done) == 0
        assert ordinals(store, write) == []
        assert make_all(store, store.unindexed_turns(limit=10)) == 1

    def test_what_was_erased_does_not_come_back(self, store: EpisodeStore) -> None:
        say(store)
        done = [(each, how(store, each)) for each in store.unindexed_turns(limit=10)]
        erase(store, ANA)
        assert store.unindexed_turns(limit=10) == []
        assert store.index_turns(done) == 0
        assert store.scopes(tenant=ANA.tenant, user=ANA.user) == []
        say(store, session_id="new")
        assert store.index_turns(done) == 0
        assert store.recall_rows(ANA, after=0)[1] == []


Done: TypeAlias = list[tuple[UnindexedTurns, Sequence[IndexEntry]]]


def say_and_close(store: EpisodeStore) -> tuple[Append, Done]:
    """An episode that closed before its turns were indexed, and their entries."""
    write = say(store)
    store.close_episode(ANA, write.episode_id, make_closing(), expect_messages=2)
    return write, [(each, how(store, each)) for each in store.unindexed_turns(limit=10)]


class UnindexedStageTests(StoreTests):
    def test_a_closing_leaves_them(self, store: EpisodeStore) -> None:
        write = say(store)
        store.close_episode(ANA, write.episode_id, make_closing(), expect_messages=2)
        make_all(store, store.unindexed_turns(limit=10))
        assert sorted(ordinals(store, write)) == [-1, 0, 1]

    @pytest.mark.parametrize("cold", [False, True])
    def test_an_archive_has_none(self, store: EpisodeStore, cold: bool) -> None:
        write, done = say_and_close(store)
        store.archive(ANA, write.episode_id, cold=cold)
        assert store.unindexed_turns(limit=10) == []
        assert store.index_turns(done) == 0
        assert ordinals(store, write) == [-1]

    def test_what_is_deleted_has_none(self, store: EpisodeStore) -> None:
        write, done = say_and_close(store)
        store.delete(ANA, write.episode_id, at=LATER)
        assert store.unindexed_turns(limit=10) == []
        assert store.index_turns(done) == 0
        store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER)
        assert store.index_turns(done) == 0
        assert sorted(ordinals(store, write)) == [-1, 0, 1]

    def test_their_text_is_not_replaced_before(self, store: EpisodeStore) -> None:
        """A worker that read the old text must not index it after a rewrite."""
        write = say(store, "I am Ana", "Hello")
        done = [(each, how(store, each)) for each in store.unindexed_turns(limit=10)]
        with pytest.raises(EpisodeChanged):
            store.rewrite(stored(store, write), turns=[rewritten(0, "I am X")], now=LATER)
        make_all(store, store.unindexed_turns(limit=10))
        store.rewrite(stored(store, write), turns=[rewritten(0, "I am X")], now=LATER)
        assert store.index_turns(done) == 0
        rows = {row.ordinal: row for row in store.recall_rows(ANA, after=0)[1]}
        assert rows[0].lexical == make_lexical("I am X")
        assert len(rows) == 2

    def test_a_restoring_that_read_the_old_text_is_refused(self, store: EpisodeStore) -> None:
        write = tell(store, "I am Ana")
        store.delete(ANA, write.episode_id, at=LATER)
        state = store.recall_state(ANA)
        assert state is not None
        old = index_entries(store, write)
        store.rewrite(stored(store, write), turns=[rewritten(0, "I am X")], now=LATER)
        with pytest.raises(EpisodeChanged):
            store.restore(ANA, write.episode_id, old, at=LATER, epoch=state.epoch)
        state = store.recall_state(ANA)
        assert state is not None
        new = index_entries(store, write)
        store.restore(ANA, write.episode_id, new, at=LATER, epoch=state.epoch)
        assert store.recall_rows(ANA, after=0)[1][0].lexical == make_lexical("I am X")

    def test_a_summary_of_turns_that_were_archived_meanwhile_is_refused(
        self, store: EpisodeStore
    ) -> None:
        """Refuse the summary: the turns may have been rewritten, and no recall row tells."""
        write = tell(store, "I am Ana")
        state = store.recall_state(ANA)
        assert state is not None
        made_of = SummarySource(turns=1, newest=state.newest)
        store.archive(ANA, write.episode_id, cold=True)
        with pytest.raises(EpisodeChanged):
            store.put_summary(ANA, write.episode_id, replace(make_summary("Ana"), made_of=made_of))

    def test_words_that_are_given_do_not_pass_those_that_are_not(self, store: EpisodeStore) -> None:
        write = say(store, "a")
        with pytest.raises(ValueError, match="indexed"):
            store.append(make_next(write, "b"))
        assert texts(store, write) == ["a"]
