"""Store suite: appends, their targets, and idempotency."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ...domain.episode import Episode, SessionStatus
from ...domain.errors import (
    EpisodeArchived,
    EpisodeChanged,
    EpisodeNotFound,
    IdempotencyConflict,
)
from ...ports.store import EpisodeStore
from ...ports.values import SUMMARY_ORDINAL, EpisodeQuery, Target
from ..fakes import (
    START,
    make_append,
    make_closing,
    make_key,
    make_next,
    make_summary,
    make_turn,
)
from .base import (
    ANA,
    BEN,
    StoreTests,
    after,
    at_once,
    find,
    raised,
    session_episodes,
    snapshot,
    texts,
)


class AppendTests(StoreTests):
    def test_turns_come_back_as_they_were_given(self, store: EpisodeStore) -> None:
        given = [
            make_turn("Where is my bag?", at=START, tokens=5, has_pii=True),
            make_turn("In Oslo.", role="assistant", at=after(seconds=3), tokens=4, embed=False),
        ]
        write = make_append(ANA, *given)
        stored = store.append(write)
        assert [turn.id for turn in stored] == [turn.id for turn in given]
        assert [turn.message for turn in stored] == [turn.message for turn in given]
        assert [turn.tokens for turn in stored] == [5, 4]
        assert [turn.at for turn in stored] == [START, after(seconds=3)]
        assert [turn.has_pii for turn in stored] == [True, False]
        assert {turn.episode_id for turn in stored} == {write.episode_id}
        assert {turn.session_id for turn in stored} == {"session"}
        assert {turn.embedding_ref for turn in stored} == {None}
        assert store.turns(ANA, write.episode_id) == stored

    def test_ordinals_count_up_from_zero_over_every_append(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b")
        ordinals = [turn.ordinal for turn in store.append(write)]
        ordinals += [turn.ordinal for turn in store.append(make_next(write, "c"))]
        ordinals += [turn.ordinal for turn in store.append(make_next(write, "d", "e"))]
        assert ordinals == [0, 1, 2, 3, 4]
        assert texts(store, write) == ["a", "b", "c", "d", "e"]

    def test_a_live_episode_starts_after_those_it_had_to_wait_for(
        self, store: EpisodeStore
    ) -> None:
        first = make_append(ANA, "a", at=after(seconds=5), closing=make_closing())
        waited = make_append(ANA, "b", at=START)
        store.append(first)
        store.append(waited)
        places = [episode.id for episode in session_episodes(store, ANA, "session")]
        assert places == [first.episode_id, waited.episode_id]

    def test_an_append_may_close_and_add_nothing(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b")
        store.append(write)
        assert store.append(make_next(write, closing=make_closing())) == []
        ended = find(store, write)
        assert not ended.is_open
        assert ended.message_count == 2
        with pytest.raises(EpisodeChanged):
            store.append(make_next(write, closing=make_closing()))

    def test_an_imported_episode_starts_when_it_did(self, store: EpisodeStore) -> None:
        first = make_append(ANA, "a", at=after(seconds=5), closing=make_closing())
        imported = make_append(ANA, "b", at=START, now=after(hours=1))
        store.append(first)
        store.append(imported)
        places = [episode.id for episode in session_episodes(store, ANA, "session")]
        assert places == [imported.episode_id, first.episode_id]

    def test_turns_stay_in_the_order_given_whatever_their_times(self, store: EpisodeStore) -> None:
        write = make_append(ANA, make_turn("late", at=after(hours=2)), make_turn("early", at=START))
        store.append(write)
        assert texts(store, write) == ["late", "early"]

    def test_a_new_episode_and_its_session(self, store: EpisodeStore) -> None:
        turns = [
            make_turn("a", tokens=5),
            make_turn("b", role="assistant", tokens=11),
            make_turn("c", role="system", tokens=2, at=after(minutes=2)),
        ]
        write = make_append(ANA, *turns, now=after(days=1), metadata={"channel": "web"})
        store.append(write)
        assert find(store, write) == Episode(
            id=write.episode_id,
            scope=ANA,
            session_id="session",
            started_at=START,
            last_message_at=after(minutes=2),
            message_count=3,
            input_tokens=7,
            output_tokens=11,
        )
        state = store.session(ANA, "session")
        assert state is not None
        assert state.episode == find(store, write)
        assert state.session.id == "session"
        assert state.session.scope == ANA
        assert state.session.status is SessionStatus.ACTIVE
        assert state.session.metadata == {"channel": "web"}
        assert state.session.created_at == START
        assert state.session.last_seen_at == after(minutes=2)

    def test_an_episode_may_start_without_turns(self, store: EpisodeStore) -> None:
        write = make_append(ANA)
        assert store.append(write) == []
        assert find(store, write).message_count == 0
        assert find(store, write).last_message_at == START
        assert store.turns(ANA, write.episode_id) == []
        assert [turn.ordinal for turn in store.append(make_next(write, "a"))] == [0]

    def test_counts_and_times_grow_with_the_episode(self, store: EpisodeStore) -> None:
        write = make_append(ANA, make_turn("a", tokens=3))
        store.append(write)
        reply = make_turn("b", role="assistant", tokens=4, at=after(minutes=5))
        store.append(make_next(write, make_turn("c", tokens=6), reply))
        episode = find(store, write)
        assert (episode.message_count, episode.input_tokens, episode.output_tokens) == (3, 9, 4)
        assert (episode.started_at, episode.last_message_at) == (START, after(minutes=5))

    def test_the_last_message_is_the_latest_one(self, store: EpisodeStore) -> None:
        write = make_append(ANA, make_turn("late", at=after(minutes=9)), make_turn("early"))
        store.append(write)
        store.append(make_next(write, make_turn("between", at=after(minutes=5))))
        assert find(store, write).last_message_at == after(minutes=9)

    def test_the_first_message_may_be_older_than_its_episode(self, store: EpisodeStore) -> None:
        write = make_append(ANA)
        store.append(write)
        store.append(make_next(write, make_turn("long ago", at=after(days=-300))))
        assert find(store, write).last_message_at == after(days=-300)

    def test_metadata_is_set_where_given_and_left_alone_otherwise(
        self, store: EpisodeStore
    ) -> None:
        def metadata() -> object:
            state = store.session(ANA, "session")
            if state is None or state.episode is None:
                return None
            episode = store.episodes(ANA, [state.episode.id])[state.episode.id]
            [listed, *_], _ = store.list_episodes(EpisodeQuery(of=ANA, limit=10))
            assert episode.metadata == state.episode.metadata == state.session.metadata
            assert listed.metadata == state.session.metadata
            return state.session.metadata

        write = make_append(ANA, "a")
        store.append(write)
        assert metadata() == {}
        touched = store.touch(ANA, "session", seen_at=START, now=START, metadata={"channel": "app"})
        assert touched.metadata == metadata() == {"channel": "app"}
        store.append(make_next(write, "b", metadata={"channel": "web", "tags": ["x", None]}))
        assert metadata() == {"channel": "web", "tags": ["x", None]}
        store.append(make_next(write, "c"))
        assert metadata() == {"channel": "web", "tags": ["x", None]}
        store.append(make_next(write, "d", closing=make_closing(), metadata={"rated": 4}))
        assert metadata() == {"rated": 4}
        store.append(make_append(ANA, "e"))
        assert metadata() == {"rated": 4}

    def test_an_append_can_close_what_it_writes(self, store: EpisodeStore) -> None:
        closing = make_closing(after(hours=2), make_summary("All said.", "likes tea", by="me"))
        write = make_append(ANA, "a", "b", closing=closing)
        assert len(store.append(write)) == 2
        episode = find(store, write)
        assert episode.ended_at == after(hours=2)
        assert (episode.summary, episode.key_facts) == ("All said.", ("likes tea",))
        assert episode.message_count == 2
        ordinals = [row.ordinal for row in store.recall_rows(ANA, after=0)[1]]
        assert ordinals == [0, 1, SUMMARY_ORDINAL]


class TargetTests(StoreTests):
    def test_new_needs_a_session_without_an_open_episode(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a"))
        with pytest.raises(EpisodeChanged) as caught:
            store.append(make_append(ANA, "b"))
        assert caught.value.session_id == "session"
        store.append(make_append(ANA, "c", session_id="other"))

    def test_a_session_goes_on_in_a_new_episode(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a", closing=make_closing()))
        second = make_append(ANA, "b", at=after(days=1))
        assert [turn.ordinal for turn in store.append(second)] == [0]
        state = store.session(ANA, "session")
        assert state is not None
        assert state.episode == find(store, second)
        assert state.session.status is SessionStatus.ACTIVE
        assert state.session.created_at == START

    def test_open_needs_an_open_episode(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", closing=make_closing())
        store.append(write)
        with pytest.raises(EpisodeChanged):
            store.append(make_next(write, "b"))

    def test_resume_needs_a_closed_episode(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a")
        store.append(write)
        with pytest.raises(EpisodeChanged):
            store.append(make_next(write, "b", target=Target.RESUME))

    def test_an_archived_episode_cannot_go_on(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", closing=make_closing())
        store.append(write)
        store.archive(ANA, write.episode_id)
        for target in (Target.OPEN, Target.RESUME):
            with pytest.raises(EpisodeChanged):
                store.append(make_next(write, "b", target=target))

    def test_resume_leaves_a_session_one_open_episode_at_most(self, store: EpisodeStore) -> None:
        first = make_append(ANA, "a", closing=make_closing())
        second = make_append(ANA, "b", at=after(days=1))
        store.append(first)
        store.append(second)
        with pytest.raises(EpisodeChanged):
            store.append(make_next(first, "c", target=Target.RESUME))
        assert not find(store, first).is_open

    def test_an_episode_that_is_not_there_is_not_found(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a", closing=make_closing()))
        store.append(make_append(ANA, "a", session_id="open"))
        for session_id in ("session", "open", "new"):
            for target in (Target.OPEN, Target.RESUME):
                unknown = make_next(make_append(ANA, session_id=session_id), "b", target=target)
                with pytest.raises(EpisodeNotFound) as caught:
                    store.append(unknown)
                assert caught.value.episode_id == unknown.episode_id

    def test_a_resumed_episode_goes_on_without_its_summary(self, store: EpisodeStore) -> None:
        closing = make_closing(after(hours=1), make_summary("Said a.", "a fact", improve=True))
        write = make_append(ANA, "a", closing=closing)
        store.append(write)
        resumed = store.append(make_next(write, "b", target=Target.RESUME, at=after(hours=3)))
        assert [turn.ordinal for turn in resumed] == [1]
        episode = find(store, write)
        assert episode.is_open
        assert (episode.end_reason, episode.summary, episode.key_facts) == (None, None, ())
        assert episode.summarized_by is None
        assert (episode.message_count, episode.last_message_at) == (2, after(hours=3))
        assert [row.ordinal for row in store.recall_rows(ANA, after=0)[1]] == [0, 1]
        state = store.session(ANA, "session")
        assert state is not None
        assert state.session.status is SessionStatus.ACTIVE
        closed = store.close_episode(
            ANA, write.episode_id, make_closing(after(hours=4), "Said a, b."), expect_messages=2
        )
        assert (closed.summary, closed.ended_at) == ("Said a, b.", after(hours=4))

    def test_an_open_episode_can_be_resumed_only_once(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", closing=make_closing())
        store.append(write)
        outcomes = at_once(lambda _: store.append(make_next(write, "b", target=Target.RESUME)))
        assert raised(outcomes) == [EpisodeChanged] * (len(outcomes) - 1)
        assert texts(store, write) == ["a", "b"]


class IdempotencyTests(StoreTests):
    def test_a_key_stores_once(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", "b", idempotency=make_key())
        stored = store.append(write)
        store.append(make_next(write, "c"))
        before = snapshot(store, ANA)
        again = make_next(write, "a", "b", idempotency=make_key())
        assert store.append(again) == stored
        assert snapshot(store, ANA) == before

    def test_a_key_answers_before_the_target_is_looked_at(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", idempotency=make_key())
        stored = store.append(write)
        new = make_append(ANA, "a", idempotency=make_key())
        assert store.append(new) == stored
        store.close_episode(ANA, write.episode_id, make_closing(), expect_messages=1)
        for target in Target:
            again = make_next(write, "a", target=target, idempotency=make_key())
            assert store.append(again) == stored
        assert not find(store, write).is_open

    def test_a_key_with_another_fingerprint_is_refused(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", idempotency=make_key("k", b"one"))
        store.append(write)
        with pytest.raises(IdempotencyConflict) as caught:
            store.append(make_next(write, "b", idempotency=make_key("k", b"two")))
        assert caught.value.key == "k"

    def test_a_key_belongs_to_its_scope(self, store: EpisodeStore) -> None:
        store.append(make_append(ANA, "a", idempotency=make_key("k", b"one")))
        write = make_append(BEN, "b", idempotency=make_key("k", b"two"))
        assert [turn.text for turn in store.append(write)] == ["b"]

    def test_a_key_used_by_many_at_once_stores_once(self, store: EpisodeStore) -> None:
        write = make_append(ANA)
        store.append(write)
        again = make_next(write, "a", idempotency=make_key())
        outcomes = at_once(lambda _: store.append(again))
        assert raised(outcomes) == []
        assert all(outcome == outcomes[0] for outcome in outcomes)
        assert texts(store, write) == ["a"]

    @pytest.mark.parametrize("cold", [True, False])
    def test_a_key_is_taken_while_its_episode_is_archived(
        self, store: EpisodeStore, cold: bool
    ) -> None:
        write = make_append(ANA, "a", closing=make_closing(), idempotency=make_key("key"))
        store.append(write)
        store.archive(ANA, write.episode_id, cold=cold, at=after(days=90))
        again = make_append(ANA, "c", idempotency=make_key("key"), at=after(days=90))
        with pytest.raises(EpisodeArchived) as caught:
            store.append(again)
        assert caught.value.episode_id == write.episode_id
        assert list(store.episode_ids(ANA, "session")) == [write.episode_id]

    def test_keys_are_forgotten_by_their_age(self, store: EpisodeStore) -> None:
        write = make_append(ANA, "a", now=after(days=1), idempotency=make_key("old"))
        store.append(write)
        for number, scope in enumerate((ANA, BEN)):
            young = make_key(f"young {number}")
            started = make_append(
                scope, "b", session_id="young", now=after(days=3), idempotency=young
            )
            store.append(started)
        assert store.prune_idempotency_keys(before=after(hours=1)) == 0
        assert store.prune_idempotency_keys(before=after(days=2)) == 1
        assert store.prune_idempotency_keys(before=after(days=2)) == 0
        again = store.append(make_next(write, "c", idempotency=make_key("old", b"other")))
        assert [turn.text for turn in again] == ["c"]
        with pytest.raises(IdempotencyConflict):
            store.append(make_next(write, "d", idempotency=make_key("young 0", b"other")))
        assert store.prune_idempotency_keys(before=after(days=3) + timedelta(seconds=1)) == 3
