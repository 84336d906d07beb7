"""From the first message to a boundary, and on from there."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from octopus_memory import (
    EmbedderFailed,
    EndReason,
    EpisodeClosed,
    EpisodeNotFound,
    EpisodicMemory,
    IdempotencyConflict,
    InvalidInput,
    InvalidMessage,
    MemoryConfig,
    MemoryScope,
    MessageTooLarge,
    SessionConfig,
    SessionNotFound,
    SessionStatus,
    ToolResultWithoutCall,
)
from octopus_memory.testing import FixedClock

pytestmark = pytest.mark.both_databases

QUESTION = "How many leave days do I have left? Please be formal with me."
ANSWER = "You have 12 days remaining."


def test_a_block_closes_its_episode_and_makes_a_summary(scope: MemoryScope):
    with scope.episode(session_id="s-1") as ep:
        ep.add("user", QUESTION)
        ep.add("assistant", ANSWER)
    closed = scope.get(ep.id).episode
    assert closed.end_reason is EndReason.USER_CLOSED
    assert closed.message_count == 2
    assert closed.summary
    assert closed.summarized_by == "extractive-v1"
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
    turn = scope.add("s-1", ("user", "one more thing about parental leave"))[0]
    assert turn.episode_id == ep.id
    assert turn.ordinal == 1
    resumed = scope.get(ep.id).episode
    assert resumed.is_open
    assert resumed.summary is None
    assert scope.session("s-1").session.status is SessionStatus.ACTIVE
    assert "parental" in (scope.close_episode(ep.id).summary or "")


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


def test_an_episode_without_messages_can_be_closed(scope: MemoryScope):
    with scope.episode(session_id="s-1") as ep:
        pass
    assert scope.get(ep.id).episode.summary is None
    assert scope.recall("anything") == []


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


def test_the_same_key_stores_nothing_twice(scope: MemoryScope):
    first = scope.add("s", [("user", QUESTION), ("assistant", ANSWER)], idempotency_key="k")
    again = scope.add("s", [("user", QUESTION), ("assistant", ANSWER)], idempotency_key="k")
    assert [t.id for t in again] == [t.id for t in first]
    assert len(scope.session("s").turns) == 2
    with pytest.raises(IdempotencyConflict):
        scope.add("s", ("user", "something else"), idempotency_key="k")


def test_a_retry_after_the_close_still_finds_what_was_stored(scope: MemoryScope):
    [turn] = scope.add("s", ("user", QUESTION), idempotency_key="k")
    scope.close_episode(turn.episode_id)
    assert scope.add("s", ("user", QUESTION), idempotency_key="k")[0].id == turn.id
    assert scope.add(turn.episode_id, ("user", QUESTION), idempotency_key="k")[0].id == turn.id
    with pytest.raises(EpisodeClosed):
        scope.add(turn.episode_id, ("user", QUESTION), idempotency_key="another")
    assert len(scope.episodes()) == 1


def test_store_takes_a_whole_episode(scope: MemoryScope, clock: FixedClock):
    start = clock.now() - timedelta(days=400)
    times = [start, start + timedelta(minutes=1)]
    episode = scope.store(
        [("user", QUESTION), ("assistant", ANSWER)],
        session_id="old",
        at=times,
        metadata={"channel": "web"},
        input_tokens=100,
        output_tokens=7,
        idempotency_key="import-1",
    )
    assert (episode.started_at, episode.ended_at) == (times[0], times[1])
    assert (episode.input_tokens, episode.output_tokens) == (100, 7)
    replay = scope.session("old")
    assert replay.session.metadata == {"channel": "web"}
    assert [turn.at for turn in replay.turns] == times
    again = scope.store(
        [("user", QUESTION), ("assistant", ANSWER)],
        session_id="old",
        at=times,
        idempotency_key="import-1",
    )
    assert again.id == episode.id
    assert len(scope.episodes()) == 1


def test_history_is_imported_as_it_was(scope: MemoryScope, clock: FixedClock, memory):
    start = clock.now() - timedelta(days=700)
    with scope.episode(session_id="old", at=start) as ep:
        ep.add("user", QUESTION, at=start)
        memory.run_pending()
        ep.add("assistant", ANSWER, at=start + timedelta(minutes=2))
    [episode] = scope.episodes()
    assert episode.message_count == 2
    assert episode.started_at == start
    assert episode.ended_at == start + timedelta(minutes=2)


def test_tool_calls_and_results(scope: MemoryScope):
    request = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    with scope.episode(session_id="s") as ep:
        ep.add("user", "What is the status of my order?")
        ep.add({"role": "assistant", "content": None, "tool_calls": [request]})
        ep.add({"role": "tool", "tool_call_id": "call_1", "content": "shipped"})
        ep.add_tool_call("carrier", {"order": 1}, {"name": "FedEx"}, tool_call_id="call_2")
        ep.add("assistant", "It was shipped with FedEx.")
    replay = scope.session("s")
    call = replay.turns[3].tool_call
    assert call is not None
    assert (call.function_name, call.arguments, call.result) == (
        "carrier",
        {"order": 1},
        {"name": "FedEx"},
    )
    roles = [message["role"] for message in replay.messages()]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


def test_a_call_without_its_result_is_not_replayed(scope: MemoryScope):
    request = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    with scope.episode(session_id="s") as ep:
        ep.add("user", "Please look that up for me.")
        ep.add({"role": "assistant", "content": None, "tool_calls": [request]})
    assert [m["role"] for m in scope.session("s").messages()] == ["user"]


def test_a_slow_tool_is_no_timeout(scope: MemoryScope, clock: FixedClock):
    request = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    [asked] = scope.add("s", {"role": "assistant", "content": None, "tool_calls": [request]})
    clock.advance(hours=2)
    [answer] = scope.add("s", {"role": "tool", "tool_call_id": "c", "content": "done"})
    assert answer.episode_id == asked.episode_id


BAD = [
    ({"role": "robot", "content": "x"}, "role", InvalidMessage),
    ({"content": "x"}, "role", InvalidMessage),
    ({"role": "user"}, "content", InvalidMessage),
    ({"role": "user", "content": 5}, "content", InvalidMessage),
    ({"role": "user", "content": ["text"]}, "content[0]", InvalidMessage),
    ({"role": "user", "content": float("nan")}, "message", InvalidMessage),
    ({"role": "user", "content": "x", "extra": {1: 2}}, "message", InvalidMessage),
    ({"role": "user", "content": "x", "extra": (1, 2)}, "message", InvalidMessage),
    ({"role": "user", "content": "x", "extra": b"bytes"}, "message", InvalidMessage),
    ({"role": "user", "content": "x", "name": 5}, "name", InvalidMessage),
    ({"role": "assistant", "content": None}, "content", InvalidMessage),
    ({"role": "assistant", "content": "x", "tool_calls": [{}]}, "tool_calls[0]", InvalidMessage),
    ({"role": "tool", "content": "x"}, "tool_call_id", InvalidMessage),
    ({"role": "tool", "content": "x", "tool_call_id": "c"}, "tool_call_id", ToolResultWithoutCall),
    ("just text", "messages", InvalidMessage),
    ([], "messages", InvalidMessage),
    (5, "messages", InvalidMessage),
]


@pytest.mark.sqlite_alone
@pytest.mark.parametrize(("message", "field", "error"), BAD)
def test_a_bad_message_names_its_field_and_stores_nothing(
    scope: MemoryScope, message: object, field: str, error: type[Exception]
):
    scope.add("s", ("user", QUESTION))
    with pytest.raises(error) as raised:
        scope.add("s", message)
    assert field in raised.value.field
    with pytest.raises(error):
        scope.add("new session", message)
    if not isinstance(message, list | str | int):
        with pytest.raises(error):
            scope.add("s", [("user", "a good one before it"), message])
    assert len(scope.session("s").turns) == 1
    assert len(scope.episodes()) == 1


def test_a_message_over_the_limit_is_refused(memory: EpisodicMemory, scope: MemoryScope):
    memory.configure("hr", MemoryConfig(session=SessionConfig(max_message_bytes=1_000)))
    with pytest.raises(MessageTooLarge, match="1,000"):
        scope.add("s", ("user", "€" * 400))
    scope.add("s", ("user", "x" * 900))


@pytest.mark.sqlite_alone
def test_bad_ids_and_times(memory: EpisodicMemory, scope: MemoryScope):
    for bad in ("", "x" * 257, "\ud800", 5):
        with pytest.raises(InvalidInput, match="user"):
            memory.scope(user=bad)
        with pytest.raises(InvalidInput):
            scope.add(bad, ("user", "x"))
    with pytest.raises(InvalidInput, match="tenant"):
        memory.scope(tenant="t" * 101, user="u")
    naive = datetime(2025, 1, 1)
    for call in (
        lambda: scope.add("s", ("user", "x"), at=naive),
        lambda: scope.add("s", [("user", "x")], at=[naive]),
        lambda: scope.open_episode("s", at=naive),
        lambda: scope.recall("x", since=naive) if scope.add("s", ("user", "y")) else None,
    ):
        with pytest.raises(InvalidInput, match="time zone"):
            call()


def test_unknown_ids(scope: MemoryScope):
    for unknown in (uuid4(), "no such", str(uuid4())):
        with pytest.raises(EpisodeNotFound):
            scope.get(unknown)
        with pytest.raises(EpisodeNotFound):
            scope.close_episode(unknown)
    with pytest.raises(EpisodeNotFound):
        scope.add(uuid4(), ("user", "x"))
    with pytest.raises(SessionNotFound):
        scope.session("no such")
    assert scope.episodes().total_count == 0


def test_many_places_are_read_once_each(memory: EpisodicMemory, scope: MemoryScope):
    episodes = [scope.store([("user", f"turn {n}") for n in range(9)]) for _ in range(7)]
    places = [(episode.id, ordinal) for episode in episodes for ordinal in range(9)]
    read = memory.parts.store.turns_at(scope.scope, places)
    assert sorted((turn.episode_id, turn.ordinal) for turn in read) == sorted(places)


def test_a_process_left_with_the_old_model_says_so(memory: EpisodicMemory, scope: MemoryScope):
    scope.add("s", ("user", QUESTION))
    memory.parts.store.use_model("another-model")
    with pytest.raises(EmbedderFailed, match="another-model"):
        memory.flush()
    assert scope.recall("leave days")[0].session_id == "s"


def test_an_import_can_be_repeated_after_archiving(memory: EpisodicMemory, scope: MemoryScope):
    first = scope.store([("user", QUESTION)], session_id="s", idempotency_key="k")
    memory.parts.store.archive(scope.scope, first.id)
    again = scope.store([("user", QUESTION)], session_id="s", idempotency_key="k")
    assert again.id != first.id
    assert scope.session("s").messages()[0]["content"].startswith("[Archived conversation]")
