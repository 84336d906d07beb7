"""From the first message to a boundary, and on from there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from octopus_memory import (
    EmbedderFailed,
    EndReason,
    Episode,
    EpisodeClosed,
    EpisodeNotFound,
    EpisodicMemory,
    InvalidInput,
    MemoryConfig,
    MemoryScope,
    SessionConfig,
    SessionNotFound,
    SessionStatus,
    ToolResultWithoutCall,
)
from octopus_memory.testing import FixedClock
from tests.support.leave_dialogue import ANSWER, QUESTION

pytestmark = pytest.mark.both_databases


def test_a_block_closes_its_episode_and_makes_a_summary(scope: MemoryScope):
    with scope.episode(session_id="s-1") as ep:
        ep.add("user", QUESTION)
        ep.add("assistant", ANSWER)
    closed = scope.get(ep.id).episode
    assert closed.end_reason is EndReason.USER_CLOSED
    assert closed.message_count == 2
    assert closed.summary
    assert closed.summarized_by == "extractive-v3"
    assert any("12 days" in fact for fact in closed.key_facts)
    assert scope.session("s-1").session.status is SessionStatus.ENDED


def test_a_block_that_raises_is_error_closed_and_keeps_what_was_said(scope: MemoryScope):
    with pytest.raises(ZeroDivisionError), scope.episode(session_id="s-1") as ep:
        ep.add("user", QUESTION)
        raise ZeroDivisionError
    assert scope.get(ep.id).episode.end_reason is EndReason.ERROR_CLOSED
    assert scope.session("s-1").session.status is SessionStatus.ERROR
    assert len(scope.session("s-1").turns) == 1


@pytest.mark.parametrize("reason", list(EndReason))
def test_every_end_reason_can_be_given(scope: MemoryScope, reason: EndReason):
    scope.add("s-1", ("user", QUESTION))
    [episode] = scope.episodes()
    assert scope.close_episode(episode.id, reason).end_reason is reason


def test_an_idle_session_goes_on_in_a_new_episode(scope: MemoryScope, clock: FixedClock):
    first = scope.add("s-1", ("user", QUESTION))[0]
    last_said = clock.now()
    clock.advance(minutes=31)
    second = scope.add("s-1", ("user", "Hello again, about something else."))[0]
    assert second.episode_id != first.episode_id
    ended = scope.get(first.episode_id).episode
    assert ended.end_reason is EndReason.TIMEOUT
    assert ended.ended_at == last_said
    assert ended.summary
    assert [len(e.turns) for e in scope.session("s-1").episodes] == [1, 1]
    assert scope.session("s-1").session.status is SessionStatus.ACTIVE


def test_the_worker_finds_idle_sessions(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    turn = scope.add("s-1", ("user", QUESTION))[0]
    clock.advance(minutes=29)
    assert memory.run_pending().timed_out == 0
    clock.advance(minutes=2)
    assert memory.run_pending().timed_out == 1
    assert memory.run_pending().timed_out == 0
    assert scope.get(turn.episode_id).episode.ended_at == turn.at
    assert scope.session("s-1").session.status is SessionStatus.TIMED_OUT


def test_a_session_that_never_rests_ends_after_its_longest_time(
    scope: MemoryScope, clock: FixedClock
):
    first = scope.add("s-1", ("user", "message one of many"))[0]
    for _ in range(17):
        clock.advance(minutes=29)
        last = scope.add("s-1", ("user", "another message"))[0]
    assert last.episode_id != first.episode_id
    assert scope.get(first.episode_id).episode.end_reason is EndReason.TIMEOUT


def test_a_heartbeat_keeps_a_session_open(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    first = scope.add("s-1", ("user", QUESTION))[0]
    clock.advance(minutes=20)
    assert scope.heartbeat("s-1").status is SessionStatus.ACTIVE
    clock.advance(minutes=20)
    assert memory.run_pending().timed_out == 0
    assert scope.add("s-1", ("user", "still here"))[0].episode_id == first.episode_id


def test_a_heartbeat_that_comes_too_late_says_so(scope: MemoryScope, clock: FixedClock):
    scope.add("s-1", ("user", QUESTION))
    clock.advance(minutes=31)
    assert scope.heartbeat("s-1").status is SessionStatus.TIMED_OUT
    with pytest.raises(SessionNotFound):
        scope.heartbeat("s-2")


@pytest.mark.parametrize("meanwhile", ["erased", "goes on"])
def test_what_happens_to_an_idle_episode_keeps_no_other_open(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    meanwhile: str,
    monkeypatch: pytest.MonkeyPatch,
):
    names = {"a", "b", "c"}
    for name in sorted(names):
        scope.add(name, ("user", QUESTION))
    clock.advance(minutes=31)
    store, left = memory.runtime.store, list(names)
    close_episode = store.close_episode

    def first_another(*given: Any, **named: Any) -> Episode:
        while len(left) == len(names):
            left.remove("b")
            if meanwhile == "erased":
                scope.erase_episode(scope.session("b").episodes[0].episode)
            else:
                scope.add("b", ("user", "I am back."), at=clock.now() - timedelta(minutes=2))
        return close_episode(*given, **named)

    monkeypatch.setattr(store, "close_episode", first_another)
    assert memory.run_pending().timed_out == 2
    assert {e.session_id for e in scope.episodes() if not e.is_open} == {"a", "c"}


def test_timeouts_are_each_agents_own(memory: EpisodicMemory, clock: FixedClock):
    patient = MemoryConfig(session=SessionConfig(idle_timeout_minutes=120))
    memory.configure("patient", patient)
    hr = memory.scope(tenant="acme", agent="hr", user="u")
    other = memory.scope(tenant="acme", agent="patient", user="u")
    hr.add("s", ("user", QUESTION))
    other.add("s", ("user", QUESTION))
    clock.advance(minutes=60)
    assert memory.run_pending().timed_out == 1
    assert other.session("s").session.status is SessionStatus.ACTIVE


def test_settings_that_cannot_be_read_stop_only_their_own_agent(
    memory: EpisodicMemory, clock: FixedClock, caplog: pytest.LogCaptureFixture
):
    for agent in ("damaged", "hr"):
        memory.scope(tenant="acme", agent=agent, user="ann").add("s", ("user", QUESTION))
    # As an older release stored it, that had no limit.
    memory.runtime.store.put_config(None, "damaged", {"session": {"max_session_hours": 1e13}})
    memory.runtime.clear_config_cache()
    clock.advance(minutes=60)
    assert memory.run_retention(dry_run=True).counts.timed_out == 1
    assert memory.run_pending().timed_out == 1
    assert memory.run_retention().complete
    # Of each of the three runs.
    assert caplog.text.count("agent 'damaged' are invalid") == 3
    assert "session.max_session_hours: must be at most 8,760,000" in caplog.text


def test_a_tenants_own_settings_come_before_everybodys(memory: EpisodicMemory):
    everybody = MemoryConfig(session=SessionConfig(idle_timeout_minutes=5))
    own = MemoryConfig(session=SessionConfig(idle_timeout_minutes=50))
    memory.configure("hr", everybody)
    memory.configure("hr", own, tenant="acme")
    assert memory.config("hr") == everybody
    assert memory.config("hr", tenant="acme") == own
    assert memory.config("hr", tenant="globex") == everybody
    assert memory.config("sales") == MemoryConfig()


def test_a_closed_episode_takes_no_more(scope: MemoryScope):
    with scope.episode(session_id="s-1") as ep:
        ep.add("user", QUESTION)
    with pytest.raises(EpisodeClosed):
        scope.add(ep.id, ("user", "one more thing"))
    later = scope.add("s-1", ("user", "one more thing"))[0]
    assert later.episode_id != ep.id
    with pytest.raises(EpisodeClosed):
        scope.add(ep.id, ("user", "its session went on without it"))


def test_with_allow_resume_the_same_episode_goes_on(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    memory.configure("hr", MemoryConfig(session=SessionConfig(allow_resume=True)))
    with scope.episode(session_id="s-1") as ep:
        ep.add("user", QUESTION)
    clock.advance(hours=30)
    turn = scope.add("s-1", ("user", "I am going on parental leave in June."))[0]
    assert turn.episode_id == ep.id
    assert turn.ordinal == 1
    resumed = scope.get(ep.id).episode
    assert resumed.is_open
    assert resumed.summary is None
    assert scope.session("s-1").session.status is SessionStatus.ACTIVE
    closed = scope.close_episode(ep.id)
    assert "parental" in f"{closed.summary} {closed.key_facts}"


def test_closing_twice_returns_the_episode_as_it_is(scope: MemoryScope):
    with scope.episode() as ep:
        ep.add("user", QUESTION)
    first = scope.get(ep.id).episode
    assert scope.close_episode(ep.id, EndReason.AGENT_CLOSED) == first
    with pytest.raises(EpisodeClosed):
        scope.close_episode(ep.id, summary="too late")


def test_a_given_summary_is_kept(scope: MemoryScope):
    scope.add("s", ("user", QUESTION))
    [episode] = scope.episodes()
    closed = scope.close_episode(episode.id, summary="Asked for leave.", key_facts=["formal"])
    assert (closed.summary, closed.key_facts) == ("Asked for leave.", ("formal",))
    with pytest.raises(InvalidInput, match="summary"):
        scope.store([("user", "x")], summary="y" * 2_001)
    with pytest.raises(InvalidInput, match="key_facts: must be at most 100, not 101"):
        scope.store([("user", "x")], key_facts=["y"] * 101)
    with pytest.raises(InvalidInput, match=r"key_facts\[1\]: has 2,001 characters"):
        scope.store([("user", "x")], key_facts=["y", "y" * 2_001])


def test_an_episode_without_messages_can_be_closed(scope: MemoryScope):
    with scope.episode(session_id="s-1") as ep:
        pass
    assert scope.get(ep.id).episode.summary is None
    assert scope.recall("anything") == []
    opened = scope.open_episode("s-2")
    assert scope.close_episode(opened, key_facts=["Likes tea."]).key_facts == ("Likes tea.",)
    assert [snippet.session_id for snippet in scope.recall("tea")] == ["s-2"]


def test_what_another_process_ended_or_erased_is_not_gone_on_with(
    scope: MemoryScope, database_url: str
):
    with EpisodicMemory.open(database_url, embedder="hashing", background=False) as second:
        others = second.scope(
            tenant=scope.scope.tenant, agent=scope.scope.agent, user=scope.scope.user
        )
        for end in (others.close_episode, others.erase_episode):
            first = scope.add("s-1", ("user", QUESTION))[0].episode_id
            assert scope.add("s-1", ("assistant", ANSWER))[0].ordinal == 1
            assert scope.add(first, ("user", QUESTION))[0].ordinal == 2
            end(first)
            with pytest.raises((EpisodeClosed, EpisodeNotFound)):
                scope.add(first, ("user", QUESTION))
            [turn] = scope.add("s-1", ("user", QUESTION))
            assert (turn.ordinal, turn.episode_id != first) == (0, True)
            scope.close_session("s-1")


def test_what_is_taken_for_a_new_session_and_is_none_goes_on_where_it_was(
    scope: MemoryScope, database_url: str
):
    with EpisodicMemory.open(database_url, embedder="hashing", background=False) as second:
        others = second.scope(
            tenant=scope.scope.tenant, agent=scope.scope.agent, user=scope.scope.user
        )
        for name in ("theirs", "also-theirs"):
            [known] = others.add(name, ("user", QUESTION))
            scope.add(f"before {name}", ("user", QUESTION))
            scope.add(f"just before {name}", ("user", QUESTION))
            where = name if name == "theirs" else str(known.episode_id)
            [turn] = scope.add(where, ("assistant", ANSWER))
            assert (turn.episode_id, turn.ordinal) == (known.episode_id, 1)
    scope.add("one more", ("user", QUESTION))
    with pytest.raises(ToolResultWithoutCall):
        scope.add("new", {"role": "tool", "tool_call_id": "c", "content": "of no call"})


def test_what_may_be_resumed_is_not_taken_for_new(memory: EpisodicMemory, scope: MemoryScope):
    memory.configure("hr", MemoryConfig(session=SessionConfig(allow_resume=True)))
    with scope.episode(session_id="s-1") as ep:
        ep.add("user", QUESTION)
    scope.add("s-2", ("user", QUESTION))
    assert scope.add("s-1", ("user", "one more thing"))[0].episode_id == ep.id


def test_a_process_left_with_the_old_model_says_so(memory: EpisodicMemory, scope: MemoryScope):
    scope.add("s", ("user", QUESTION))
    memory.runtime.store.use_model("another-model")
    with pytest.raises(EmbedderFailed, match="another-model"):
        memory.flush()
    assert scope.recall("leave days")[0].session_id == "s"
