"""Store suite: closing, archiving and restoring an episode."""

from __future__ import annotations

import pytest

from ...domain.episode import EndReason, SessionStatus
from ...domain.errors import (
    EpisodeArchived,
    EpisodeChanged,
    EpisodeClosed,
    EpisodeNotFound,
    SessionNotFound,
)
from ...domain.ids import new_id
from ...domain.retention import Stage
from ...ports.recall_rows import RecallRow, WorkKind
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL, EpisodeQuery, IndexEntry, Target
from ..fakes import (
    START,
    make_append,
    make_closing,
    make_lexical,
    make_next,
    make_summary,
    make_turn,
)
from .base import (
    ANA,
    BEN,
    FAR,
    StoreTests,
    after,
    at_once,
    claim_all,
    cold_turns,
    find,
    marked_turns,
    raised,
    snapshot,
    texts,
)
from .retention import LATER, aged, index_entries, make_entry, tell

_STATUSES = {
    EndReason.USER_CLOSED: SessionStatus.ENDED,
    EndReason.AGENT_CLOSED: SessionStatus.ENDED,
    EndReason.TIMEOUT: SessionStatus.TIMED_OUT,
    EndReason.ERROR_CLOSED: SessionStatus.ERROR,
    EndReason.TOPIC_SHIFT: SessionStatus.ACTIVE,
}


def _summary_rows(store: EpisodeStore) -> list[RecallRow]:
    return [row for row in store.recall_rows(ANA, after=0)[1] if row.ordinal == SUMMARY_ORDINAL]


class CloseTests(StoreTests):
    def test_a_closed_episode_has_its_end_and_summary(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b")
        store.append(write)
        before = find(store, write)
        summary = make_summary("They met.", "likes tea", "lives in Oslo", by="some model")
        closed = store.close_episode(
            ANA, write.episode_id, make_closing(after(hours=2), summary), expect_messages=2
        )
        assert closed == find(store, write)
        assert not closed.is_open
        assert (closed.ended_at, closed.end_reason) == (after(hours=2), EndReason.USER_CLOSED)
        assert (closed.summary, closed.summarized_by) == ("They met.", "some model")
        assert closed.key_facts == ("likes tea", "lives in Oslo")
        assert (closed.started_at, closed.last_message_at) == (START, before.last_message_at)
        assert texts(store, write) == ["a", "b"]

    def test_the_session_has_the_status_of_its_end(self, store: EpisodeStore) -> None:
        for reason, status in _STATUSES.items():
            closing = make_closing(reason=reason)
            write = make_append(ANA, "a", session_id=reason)
            store.append(write)
            store.append(make_append(ANA, "b", session_id=f"{reason} whole", closing=closing))
            closed = store.close_episode(ANA, write.episode_id, closing, expect_messages=1)
            assert closed.end_reason is reason
            for session_id in (reason, f"{reason} whole"):
                state = store.session(ANA, session_id)
                assert state is not None
                assert state.session.status is status, session_id

    def test_tokens_are_as_given_or_as_counted(self, store: EpisodeStore) -> None:
        turns = make_turn("a", tokens=3), make_turn("b", role="assistant", tokens=5)
        kept = {(None, None): (3, 5), (0, None): (0, 5), (None, 0): (3, 0), (8, 9): (8, 9)}
        for (spent, made), counted in kept.items():
            write = make_append(ANA, *turns)
            store.append(write)
            closing = make_closing(input_tokens=spent, output_tokens=made)
            closed = store.close_episode(ANA, write.episode_id, closing, expect_messages=2)
            assert (closed.input_tokens, closed.output_tokens) == counted

    def test_an_episode_with_another_number_of_turns_stays_open(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b")
        store.append(write)
        before = snapshot(store, ANA)
        for expected in (0, 1, 3):
            with pytest.raises(EpisodeChanged):
                store.close_episode(ANA, write.episode_id, make_closing(), expect_messages=expected)
        assert snapshot(store, ANA) == before

    def test_an_unknown_episode_is_not_found(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a"))
        unknown = new_id()
        with pytest.raises(EpisodeNotFound) as caught:
            store.close_episode(ANA, unknown, make_closing(), expect_messages=0)
        assert caught.value.episode_id == unknown

    def test_an_episode_ends_once(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", closing=make_closing())
        store.append(write)
        before = snapshot(store, ANA)
        later = make_closing(after(days=9), "Another.", reason=EndReason.TIMEOUT)
        for expected in (0, 1):
            with pytest.raises(EpisodeClosed) as caught:
                store.close_episode(ANA, write.episode_id, later, expect_messages=expected)
            assert caught.value.episode_id == write.episode_id
        assert snapshot(store, ANA) == before

    def test_of_many_that_close_one_does(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)

        def close(thread: int) -> object:
            closing = make_closing(summary=f"by {thread}")
            return store.close_episode(ANA, write.episode_id, closing, expect_messages=1)

        outcomes = at_once(close)
        assert raised(outcomes) == [EpisodeClosed] * (len(outcomes) - 1)
        assert find(store, write) in outcomes
        assert len(_summary_rows(store)) == 1

    def test_an_episode_may_close_without_a_summary(self, store: EpisodeStore) -> None:
        write = make_append(ANA)
        store.append(write)
        closing = make_closing(summary=None)
        closed = store.close_episode(ANA, write.episode_id, closing, expect_messages=0)
        assert (closed.summary, closed.key_facts, closed.summarized_by) == (None, (), None)
        assert store.recall_rows(ANA, after=0)[1] == []
        assert all(backlog.waiting == 0 for backlog in store.backlog().values())

    @pytest.mark.parametrize("improve", [False, True])
    def test_a_summary_can_be_found_and_waits_for_its_vector(
        self, store: EpisodeStore, improve: bool
    ) -> None:
        write = make_append(ANA, make_turn("a", embed=False))
        store.append(write)
        summary = make_summary("They met.", improve=improve)
        store.close_episode(
            ANA, write.episode_id, make_closing(after(hours=3), summary), expect_messages=1
        )
        [row] = _summary_rows(store)
        assert (row.episode_id, row.lexical) == (write.episode_id, summary.lexical)
        assert (row.model, row.vector) == (None, None)
        [embed] = claim_all(store)
        assert (embed.episode_id, embed.ordinal) == (write.episode_id, SUMMARY_ORDINAL)
        assert embed.seq == row.seq
        better = claim_all(store, WorkKind.SUMMARIZE)
        assert [work.episode_id for work in better] == [write.episode_id] * improve


class PutSummaryTests(StoreTests):
    def test_a_better_summary_takes_the_place_of_the_first(self, store: EpisodeStore) -> None:
        first = make_summary("Rough.", "old fact", improve=True)
        write = make_append(ANA, "a", closing=make_closing(summary=first))
        store.append(write)
        before, [old] = find(store, write), _summary_rows(store)
        better = make_summary("Polished.", "new fact", by="a model")
        store.put_summary(ANA, write.episode_id, better)
        episode = find(store, write)
        assert (episode.summary, episode.key_facts) == ("Polished.", ("new fact",))
        assert episode.summarized_by == "a model"
        assert (episode.ended_at, episode.end_reason) == (before.ended_at, before.end_reason)
        [row] = _summary_rows(store)
        assert (row.lexical, row.vector) == (better.lexical, None)
        assert row.seq > old.seq
        assert [work.seq for work in claim_all(store) if work.ordinal == SUMMARY_ORDINAL] == [
            row.seq
        ]
        assert claim_all(store, WorkKind.SUMMARIZE) == []

    def test_a_summary_can_come_after_the_end(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", closing=make_closing(summary=None))
        store.append(write)
        store.put_summary(ANA, write.episode_id, make_summary("Late.", improve=True))
        assert find(store, write).summary == "Late."
        assert len(_summary_rows(store)) == 1
        assert len(claim_all(store, WorkKind.SUMMARIZE)) == 1

    def test_an_archived_episode_takes_one_too(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", closing=make_closing())
        store.append(write)
        store.archive(ANA, write.episode_id)
        store.put_summary(ANA, write.episode_id, make_summary("Better."))
        assert find(store, write).summary == "Better."
        assert find(store, write).is_archived

    def test_nothing_happens_to_an_open_or_unknown_episode(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        resumed = make_append(ANA, "a", session_id="resumed", closing=make_closing())
        for step in (write, resumed, make_next(resumed, "b", target=Target.RESUME)):
            store.append(step)
        before = snapshot(store, ANA, BEN)
        for episode_id in (write.episode_id, resumed.episode_id, new_id()):
            store.put_summary(ANA, episode_id, make_summary("Too late."))
        store.put_summary(BEN, new_id(), make_summary("Nobody's."))
        assert snapshot(store, ANA, BEN) == before

    def test_one_that_comes_late_undoes_nothing(self, store: EpisodeStore) -> None:
        first = make_closing(summary=make_summary("First."))
        write = make_append(ANA, "a", closing=first)
        store.append(write)
        [old] = _summary_rows(store)
        store.put_summary(ANA, write.episode_id, make_summary("Second."), replacing=old.seq)
        assert find(store, write).summary == "Second."
        [turn] = [row for row in store.recall_rows(ANA, after=0)[1] if row.ordinal == 0]
        for seq in (old.seq, turn.seq):
            store.put_summary(ANA, write.episode_id, make_summary("Late."), replacing=seq)
        assert find(store, write).summary == "Second."
        assert len(_summary_rows(store)) == 1


class ArchiveTests(StoreTests):
    def test_turns_go_and_the_summary_stays(self, store: EpisodeStore) -> None:
        closing = make_closing(summary=make_summary("They met.", "a fact"))
        write = make_append(ANA, "a", "b", closing=closing)
        kept = make_append(ANA, "c", session_id="other")
        store.append(write)
        store.append(kept)
        before, [row] = find(store, write), _summary_rows(store)
        archived = store.archive(ANA, write.episode_id)
        assert archived == find(store, write)
        assert archived.is_archived
        assert (archived.summary, archived.key_facts) == ("They met.", ("a fact",))
        assert archived.message_count == before.message_count
        assert (archived.ended_at, archived.end_reason) == (before.ended_at, before.end_reason)
        assert store.turns(ANA, write.episode_id) == []
        assert store.turns_at(ANA, [(write.episode_id, 0), (write.episode_id, 1)]) == []
        assert _summary_rows(store) == [row]
        assert len(store.recall_rows(ANA, after=0)[1]) == 2
        assert texts(store, kept) == ["c"]
        assert store.stats().turns == 1

    def test_vectors_and_work_go_with_their_turns(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", closing=make_closing())
        store.append(write)
        store.put_vectors("m", [(work, b"\x01\x02") for work in claim_all(store)])
        other = make_append(ANA, "b", "c", session_id="other", closing=make_closing())
        store.append(other)
        for archived in (write, other):
            store.archive(ANA, archived.episode_id)
        assert store.stats().vectors == {"m": 1}
        assert [work.ordinal for work in claim_all(store)] == [SUMMARY_ORDINAL]

    def test_archiving_twice_changes_nothing(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", closing=make_closing())
        store.append(write)
        once = store.archive(ANA, write.episode_id)
        before = snapshot(store, ANA)
        assert store.archive(ANA, write.episode_id) == once
        assert snapshot(store, ANA) == before

    def test_an_open_or_unknown_episode_is_not_found(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)
        for episode_id in (write.episode_id, new_id()):
            with pytest.raises(EpisodeNotFound) as caught:
                store.archive(ANA, episode_id)
            assert caught.value.episode_id == episode_id
        assert texts(store, write) == ["a"]


class TouchTests(StoreTests):
    def test_a_touched_session_was_seen(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)
        before = find(store, write)
        touched = store.touch(ANA, "session", seen_at=after(hours=1), now=after(days=1))
        assert touched.last_seen_at == after(hours=1)
        state = store.session(ANA, "session")
        assert state is not None
        assert state.session == touched
        [found] = store.open_episodes(touched_before=FAR, opened_before=FAR, limit=9)
        assert (found.touched_at, found.opened_at) == (after(days=1), START)
        assert find(store, write) == before

    def test_being_seen_never_goes_back(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a"))
        store.touch(ANA, "session", seen_at=after(hours=2), now=after(hours=2))
        touched = store.touch(ANA, "session", seen_at=after(hours=1), now=after(hours=3))
        assert touched.last_seen_at == after(hours=2)

    def test_an_append_is_seen_too(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)
        store.touch(ANA, "session", seen_at=after(hours=1), now=after(hours=1))
        store.append(make_next(write, "b", at=after(hours=2), now=after(hours=9)))
        state = store.session(ANA, "session")
        assert state is not None
        assert state.session.last_seen_at == after(hours=2)
        [found] = store.open_episodes(touched_before=FAR, opened_before=FAR, limit=9)
        assert found.touched_at == after(hours=9)

    def test_a_session_that_ended_stays_so(self, store: EpisodeStore) -> None:
        closing = make_closing(reason=EndReason.TIMEOUT)
        store.append(make_append(ANA, "a", closing=closing))
        before = snapshot(store, ANA)
        touched = store.touch(ANA, "session", seen_at=after(hours=1), now=after(hours=1))
        assert touched.status is SessionStatus.TIMED_OUT
        assert snapshot(store, ANA) == before

    def test_an_unknown_session_is_not_found(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a"))
        for scope, session_id in ((ANA, "other"), (BEN, "session")):
            with pytest.raises(SessionNotFound) as caught:
                store.touch(scope, session_id, seen_at=START, now=START)
            assert caught.value.session_id == session_id


class RestoreTests(StoreTests):
    def test_a_deleted_episode_comes_back_whole(self, store: EpisodeStore) -> None:
        write = tell(store, "a", "short", metadata={"channel": "web"})
        store.put_vectors("m", [(work, b"\x01") for work in claim_all(store)])
        before, turns = find(store, write), store.turns(ANA, write.episode_id)
        state = store.session(ANA, "session")
        rows = store.recall_rows(ANA, after=0)[1]
        store.delete(ANA, write.episode_id, at=LATER)
        assert store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER) == before
        assert find(store, write) == before
        assert store.session(ANA, "session") == state
        back = store.turns(ANA, write.episode_id)
        assert [(t.id, t.ordinal, t.message, t.tokens, t.at) for t in back] == [
            (t.id, t.ordinal, t.message, t.tokens, t.at) for t in turns
        ]
        # They are embedded again, if they have a vector.
        assert [turn.embedding_ref for turn in back] == [None, None]
        found = store.recall_rows(ANA, after=0)[1]
        assert [(r.ordinal, r.role, r.at) for r in found] == [
            (r.ordinal, r.role, r.at) for r in rows
        ]
        assert [row.lexical.terms for row in found] == [row.lexical.terms for row in rows]
        assert [(row.model, row.vector) for row in found] == [
            (None, None),
            ("", None),
            (None, None),
        ]
        assert {row.seq for row in found}.isdisjoint(row.seq for row in rows)
        assert [work.ordinal for work in claim_all(store)] == [0, SUMMARY_ORDINAL]
        assert store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0] == []
        assert marked_turns(store, ANA, write.episode_id) == []

    def test_a_cold_one_too_deleted_or_not(self, store: EpisodeStore) -> None:
        for number, deleted in enumerate((False, True)):
            write = tell(store, session_id=str(number))
            before, turns = find(store, write), store.turns(ANA, write.episode_id)
            store.archive(ANA, write.episode_id, cold=True, at=LATER)
            if deleted:
                store.delete(ANA, write.episode_id, at=LATER)
                assert cold_turns(store, ANA, write.episode_id) == turns
            store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER)
            assert find(store, write) == before
            assert store.turns(ANA, write.episode_id) == turns
            assert cold_turns(store, ANA, write.episode_id) == []
            found = [row.ordinal for row in store.recall_rows(ANA, after=0)[1]]
            assert found == [0, 1, SUMMARY_ORDINAL] * (number + 1)
        # Once more, in the same way.
        assert store.archive(ANA, write.episode_id, cold=True).is_cold
        assert cold_turns(store, ANA, write.episode_id) == turns

    def test_a_summary_is_all_that_comes_back_of_a_summary(self, store: EpisodeStore) -> None:
        write = tell(store)
        archived = store.archive(ANA, write.episode_id, at=after(days=9))
        before = snapshot(store, ANA)
        with pytest.raises(EpisodeArchived) as caught:
            store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER)
        assert caught.value.episode_id == write.episode_id
        assert snapshot(store, ANA) == before
        store.delete(ANA, write.episode_id, at=LATER)
        assert (
            store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER) == archived
        )
        assert aged(store, Stage.ARCHIVED) == [(write.episode_id, LATER)]
        [row] = store.recall_rows(ANA, after=0)[1]
        assert (row.ordinal, row.at) == (SUMMARY_ORDINAL, before[f"of {ANA}"]["rows"][0].at)

    def test_one_without_turns_or_a_summary(self, store: EpisodeStore) -> None:
        empty = make_append(ANA, closing=make_closing(summary=None))
        store.append(empty)
        before = find(store, empty)
        store.delete(ANA, empty.episode_id, at=LATER)
        assert store.restore(ANA, empty.episode_id, [], at=LATER) == before

    def test_what_is_not_what_it_was_taken_for_stays(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.delete(ANA, write.episode_id, at=LATER)
        whole = index_entries(store, write)
        extra = IndexEntry(ordinal=7, lexical=make_lexical("x"))
        for wrong in ([], whole[:-1], whole[1:], [*whole, extra]):
            with pytest.raises(EpisodeChanged):
                store.restore(ANA, write.episode_id, wrong, at=LATER)
            assert len(store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0]) == 1
            assert store.recall_rows(ANA, after=0)[1] == []

    def test_restoring_an_active_one_changes_nothing(self, store: EpisodeStore) -> None:
        closed, opened = tell(store), make_append(ANA, "a", session_id="open")
        store.append(opened)
        before = snapshot(store, ANA)
        for write in (closed, opened):
            assert store.restore(ANA, write.episode_id, [], at=LATER) == find(store, write)
        assert snapshot(store, ANA) == before
        assert aged(store, Stage.ACTIVE) == [(closed.episode_id, after(hours=1))]

    def test_what_is_unknown_here_is_not_found(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.delete(ANA, write.episode_id, at=LATER)
        for scope, episode_id in ((ANA, new_id()), (BEN, write.episode_id)):
            with pytest.raises(EpisodeNotFound):
                store.restore(scope, episode_id, [], at=LATER)
        assert len(store.list_episodes(EpisodeQuery(of=ANA, deleted=True))[0]) == 1

    def test_it_goes_on_like_any_other(self, store: EpisodeStore) -> None:
        write = tell(store)
        store.delete(ANA, write.episode_id, at=LATER)
        store.restore(ANA, write.episode_id, index_entries(store, write), at=LATER)
        [turn] = store.append(make_next(write, "c", at=after(days=91), target=Target.RESUME))
        assert turn.ordinal == 2
        assert texts(store, write) == ["a", "b", "c"]


class StageEntryTests(StoreTests):
    """An audit entry is recorded in the same transaction, if anything changed."""

    def test_once_for_each_change(self, store: EpisodeStore) -> None:
        write = tell(store)
        for _ in range(2):
            store.delete(ANA, write.episode_id, at=LATER, entry=make_entry())
        assert len(store.audit(ANA.tenant)) == 1
        found = index_entries(store, write)
        with pytest.raises(EpisodeChanged):
            store.restore(ANA, write.episode_id, [], at=LATER, entry=make_entry())
        for _ in range(2):
            store.restore(ANA, write.episode_id, found, at=LATER, entry=make_entry())
        assert [entry.action for entry in store.audit(ANA.tenant)] == ["test", "test"]
        with pytest.raises(EpisodeNotFound):
            store.delete(ANA, new_id(), at=LATER, entry=make_entry())
        assert len(store.audit(ANA.tenant)) == 2
        assert store.backlog()[WorkKind.EMBED].waiting == 3
