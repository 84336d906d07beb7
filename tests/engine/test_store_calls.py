"""What is stored: once for a key, whole episodes, tool calls; and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from octopus_memory import (
    EpisodeClosed,
    EpisodeNotFound,
    EpisodicMemory,
    EpisodicRetentionPolicy,
    IdempotencyConflict,
    InvalidInput,
    InvalidMessage,
    MemoryConfig,
    MemoryScope,
    MessageTooLarge,
    SessionConfig,
    SessionNotFound,
    ToolResultWithoutCall,
)
from octopus_memory.testing import FixedClock
from tests.support.leave_dialogue import ANSWER, QUESTION

pytestmark = pytest.mark.both_databases


def test_the_same_key_stores_nothing_twice(scope: MemoryScope):
    first = scope.add("s", [("user", QUESTION), ("assistant", ANSWER)], idempotency_key="k")
    again = scope.add("s", [("user", QUESTION), ("assistant", ANSWER)], idempotency_key="k")
    assert [t.id for t in again] == [t.id for t in first]
    assert len(scope.session("s").turns) == 2
    with pytest.raises(IdempotencyConflict):
        scope.add("s", ("user", "something else"), idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        scope.add("another", [("user", QUESTION), ("assistant", ANSWER)], idempotency_key="k")


def test_what_a_session_is_opened_with_again_is_kept(scope: MemoryScope):
    for channel in ("web", "app"):
        scope.open_episode("s", metadata={"channel": channel})
        assert scope.session("s").session.metadata == {"channel": channel}
    scope.open_episode("s")
    assert scope.session("s").session.metadata == {"channel": "app"}


def test_what_is_erased_while_it_is_opened_again_begins_anew(
    memory: EpisodicMemory, scope: MemoryScope, monkeypatch: pytest.MonkeyPatch
):
    first = scope.open_episode("s")
    store = memory.runtime.store
    touch = store.touch

    def too_late(*given: object, **named: object) -> object:
        scope.erase(physical=False)
        return touch(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "touch", too_late)
    again = scope.open_episode("s", metadata={"channel": "app"})
    assert again.id != first.id
    assert scope.session("s").session.metadata == {"channel": "app"}


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


def test_an_episode_does_not_end_before_it_begins(scope: MemoryScope, clock: FixedClock):
    now = clock.now()
    with pytest.raises(InvalidInput, match="ended_at: must not be earlier than the first"):
        scope.store([("user", QUESTION)], at=now, ended_at=now - timedelta(hours=1))
    stored = scope.store([("user", QUESTION)], ended_at=now - timedelta(hours=1))
    assert stored.started_at == stored.ended_at == now - timedelta(hours=1)
    before = now - timedelta(days=5)
    mixed = scope.store([("user", QUESTION), ("assistant", ANSWER)], at=[now, before])
    assert (mixed.started_at, mixed.ended_at) == (before, now)
    opened = scope.open_episode("s")
    with pytest.raises(InvalidInput, match="at: must not be earlier than the episode"):
        scope.close_episode(opened, at=before)
    assert scope.get(opened).episode.is_open


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
    read = memory.runtime.store.turns_at(scope.scope, places)
    assert sorted((turn.episode_id, turn.ordinal) for turn in read) == sorted(places)


def test_an_import_that_is_repeated_after_archiving_stores_nothing(
    memory: EpisodicMemory, scope: MemoryScope
):
    first = scope.store([("user", QUESTION)], session_id="s", idempotency_key="k")
    memory.runtime.store.archive(scope.scope, first.id)
    again = scope.store([("user", QUESTION)], session_id="s", idempotency_key="k")
    assert again.id == first.id
    assert again.is_archived
    [message] = scope.session("s").messages()
    assert message["content"].startswith("[Archived conversation]")


def test_what_retention_takes_next_is_warned_of_once_for_each_agent(
    memory: EpisodicMemory, clock: FixedClock, caplog: pytest.LogCaptureFixture
):
    strict = EpisodicRetentionPolicy(active_retention_days=10)
    memory.configure("strict", MemoryConfig(retention=strict))
    said, old = [("user", "hello there")], clock.now() - timedelta(days=50)
    memory.scope(agent="hr", user="u").store(said, at=old, ended_at=old)
    assert not caplog.records
    for _ in range(2):
        memory.scope(agent="strict", user="u").store(said, at=old, ended_at=old)
    [warning] = caplog.messages
    assert warning.startswith("stored episodes are older than the agent's retention policy allows")
    assert "hello" not in warning


def test_a_summary_that_is_given_keeps_the_key_facts_of_the_turns(memory: EpisodicMemory):
    scope = memory.scope(agent="hr", user="u")
    said = [("assistant", "Do you take any medication?"), ("user", "Warfarin.")]
    alone = scope.store(said, summary="An intake.")
    assert alone.summary == "An intake."
    assert alone.key_facts == ("Do you take any medication? User — Warfarin.",)
    both = scope.store(said, summary="An intake.", key_facts=["Takes warfarin"])
    assert both.key_facts == ("Takes warfarin",)
    assert scope.store(said, summary="An intake.", key_facts=[]).key_facts == ()
