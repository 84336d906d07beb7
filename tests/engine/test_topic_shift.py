"""A session that moves to another subject goes on in a new episode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from octopus_memory import (
    EndReason,
    EpisodeClosed,
    EpisodicMemory,
    MemoryConfig,
    MemoryScope,
    SessionConfig,
    SessionStatus,
    Turn,
)
from octopus_memory.adapters.embedders.minilm import MiniLMEmbedder
from octopus_memory.engine.core.topic_shift import TopicWatch
from octopus_memory.testing import FailingEmbedder, FixedClock

HOLIDAY = [
    ("user", "I have a week off in May and I'm thinking of Lisbon. Is that a good time to go?"),
    ("assistant", "May is one of the best months for Lisbon: warm, and not crowded yet."),
    ("user", "Which neighbourhood should we stay in?"),
    ("assistant", "Príncipe Real is central and calm, with good restaurants and small hotels."),
    ("user", "What would a small hotel there cost?"),
    ("assistant", "In May expect 130 to 180 euros a night for a double room in a small hotel."),
    ("user", "And how do we get there from the airport?"),
    ("assistant", "Take the metro from the airport, it takes 35 minutes and stops near the hotel."),
]
LAPTOP = [
    ("user", "My work laptop doesn't turn on any more, the power light just blinks three times."),
    ("assistant", "Three blinks point to the memory. Hold the power button for 30 seconds."),
    ("user", "Did that, still three blinks."),
    ("assistant", "Then the laptop needs a technician. I have opened ticket INC-20481 for you."),
]
MOVED = LAPTOP[0]


@pytest.fixture(scope="module")
def minilm() -> MiniLMEmbedder:
    return MiniLMEmbedder(threads=1)


@pytest.fixture
def embedder(minilm: MiniLMEmbedder) -> FailingEmbedder:
    """The real one; a test may take it down, and can see whether it was asked."""
    return FailingEmbedder(minilm)


@pytest.fixture
def memory(
    tmp_path: Path, clock: FixedClock, embedder: FailingEmbedder
) -> Iterator[EpisodicMemory]:
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with EpisodicMemory.open(url, embedder=embedder, clock=clock, background=False) as opened:
        _configure(opened)
        yield opened


def _configure(memory: EpisodicMemory, **session: bool) -> None:
    config = SessionConfig(**({"topic_shift": True} | session))
    memory.configure("hr", MemoryConfig(session=config))


def _say(scope: MemoryScope, clock: FixedClock, said: Sequence[tuple[str, str]]) -> list[Turn]:
    turns = []
    for message in said:
        clock.advance(seconds=30)
        turns += scope.add("s", message)
    return turns


def _lengths(scope: MemoryScope) -> list[int]:
    return [len(episode.turns) for episode in scope.session("s").episodes]


def test_a_chat_that_moves_on_becomes_two_episodes(scope: MemoryScope, clock: FixedClock):
    turns = _say(scope, clock, HOLIDAY + LAPTOP)
    replay = scope.session("s")
    first, second = (part.episode for part in replay.episodes)
    assert _lengths(scope) == [len(HOLIDAY), len(LAPTOP)]
    assert replay.session.status is SessionStatus.ACTIVE
    assert first.end_reason is EndReason.TOPIC_SHIFT
    assert first.ended_at == turns[len(HOLIDAY) - 1].at
    assert second.started_at == turns[len(HOLIDAY)].at
    assert second.is_open

    scope.close_session("s")
    first, second = (part.episode for part in scope.session("s").episodes)
    assert first.summary
    assert second.summary
    assert "Lisbon" in first.summary
    assert "laptop" in second.summary.lower()
    assert "laptop" not in first.summary.lower()
    assert "Lisbon" not in second.summary


def test_each_subject_is_recalled_by_itself(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    turns = _say(scope, clock, HOLIDAY + LAPTOP)
    scope.close_session("s")
    memory.run_pending()
    assert scope.recall("the hotel in Lisbon")[0].episode_id == turns[0].episode_id
    assert scope.recall("the laptop ticket")[0].episode_id == turns[-1].episode_id


@pytest.mark.parametrize("said", [HOLIDAY, LAPTOP], ids=["holiday", "laptop"])
def test_a_chat_with_one_subject_stays_whole(
    scope: MemoryScope, clock: FixedClock, said: list[tuple[str, str]]
):
    _say(scope, clock, said)
    assert _lengths(scope) == [len(said)]


def test_every_change_back_and_forth_is_detected(scope: MemoryScope, clock: FixedClock):
    back = ("user", "Now about Lisbon again: is a day trip by train to Sintra worth it in May?")
    _say(scope, clock, [*HOLIDAY, *LAPTOP, back])
    assert _lengths(scope) == [len(HOLIDAY), len(LAPTOP), 1]


def test_topic_shift_is_off_by_default(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, embedder: FailingEmbedder
):
    assert not SessionConfig().topic_shift
    _configure(memory, topic_shift=False)
    _say(scope, clock, HOLIDAY + LAPTOP)
    assert _lengths(scope) == [len(HOLIDAY) + len(LAPTOP)]
    assert embedder.calls == 0


def test_after_greetings_the_first_request_is_no_shift(scope: MemoryScope, clock: FixedClock):
    hello = [
        ("user", "Hi"),
        ("assistant", "Hello! I can help you with orders, travel and devices. What can I do?"),
    ]
    _say(scope, clock, hello + LAPTOP)
    assert _lengths(scope) == [len(hello) + len(LAPTOP)]


def test_an_answer_or_a_tool_never_starts_an_episode(scope: MemoryScope, clock: FixedClock):
    _say(scope, clock, HOLIDAY)
    scope.add("s", ("assistant", MOVED[1]))
    call = {"role": "tool", "tool_call_id": "c", "function_name": "f", "content": MOVED[1]}
    scope.add("s", call)
    scope.add("s", ("system", MOVED[1]))
    assert _lengths(scope) == [len(HOLIDAY) + 3]


def test_the_last_message_is_found_behind_many_tool_calls(scope: MemoryScope, clock: FixedClock):
    _say(scope, clock, HOLIDAY)
    with scope.episode("s") as ep:
        for number in range(30):
            ep.add_tool_call("look_up", {"page": number}, "done", tool_call_id=f"c{number}")
        ep.add(*MOVED)
    assert _lengths(scope) == [len(HOLIDAY) + 30, 1]


def test_a_call_that_waits_for_its_result_keeps_the_episode(scope: MemoryScope, clock: FixedClock):
    request = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    _say(scope, clock, HOLIDAY)
    scope.add("s", {"role": "assistant", "content": None, "tool_calls": [request]})
    scope.add("s", MOVED)
    scope.add("s", {"role": "tool", "tool_call_id": "c", "content": "booked"})
    assert _lengths(scope) == [len(HOLIDAY) + 3]


def test_messages_of_one_call_stay_together(scope: MemoryScope):
    scope.add("s", HOLIDAY)
    stored = scope.add("s", LAPTOP)
    assert _lengths(scope) == [len(HOLIDAY), len(LAPTOP)]
    assert len({turn.episode_id for turn in stored}) == 1


def test_an_open_episode_block_follows_the_shift(scope: MemoryScope, clock: FixedClock):
    with scope.episode("s") as ep:
        first = ep.id
        for role, text in HOLIDAY + LAPTOP:
            ep.add(role, text)
        assert ep.id != first
    assert [part.episode.end_reason for part in scope.session("s").episodes] == [
        EndReason.TOPIC_SHIFT,
        EndReason.USER_CLOSED,
    ]


def test_adding_by_episode_id_continues_in_the_sessions_current_episode(
    memory: EpisodicMemory, scope: MemoryScope
):
    first = scope.open_episode("s")
    for message in HOLIDAY + LAPTOP:
        last = scope.add(first.id, message)[0]
    assert _lengths(scope) == [len(HOLIDAY), len(LAPTOP)]
    assert last.episode_id != first.id
    scope.close_session("s")
    with pytest.raises(EpisodeClosed):
        scope.add(last.episode_id, ("user", "anybody there?"))
    _configure(memory, topic_shift=False)
    with pytest.raises(EpisodeClosed):
        scope.add(first.id, ("user", "anybody there?"))


def test_a_retried_call_splits_once(scope: MemoryScope, clock: FixedClock):
    _say(scope, clock, HOLIDAY)
    stored = scope.add("s", MOVED, idempotency_key="k-1")
    for _ in range(3):
        assert scope.add("s", MOVED, idempotency_key="k-1") == stored
    assert _lengths(scope) == [len(HOLIDAY), 1]


def test_a_call_retried_late_closes_no_episode(scope: MemoryScope, clock: FixedClock):
    asked = ("user", "Which vaccinations does our puppy need before its first birthday?")
    stored = scope.add("s", asked, idempotency_key="k-1")
    _say(scope, clock, HOLIDAY)
    before = _lengths(scope)
    assert scope.add("s", asked, idempotency_key="k-1") == stored
    assert _lengths(scope) == before
    assert scope.session("s").episodes[-1].episode.is_open


def test_a_new_key_splits_as_no_key_does(scope: MemoryScope, clock: FixedClock):
    for place, message in enumerate(HOLIDAY + LAPTOP):
        scope.add("s", message, idempotency_key=f"k-{place}")
    assert _lengths(scope) == [len(HOLIDAY), len(LAPTOP)]


def test_concurrent_calls_split_once(scope: MemoryScope, clock: FixedClock):
    _say(scope, clock, HOLIDAY)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: scope.add("s", MOVED), range(8)))
    assert _lengths(scope) == [len(HOLIDAY), 8]


def test_a_concurrent_message_is_compared_too(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    def meanwhile(*_: object) -> bool:
        monkeypatch.undo()
        clock.advance(seconds=30)
        scope.add("s", ("user", "Is breakfast at the hotel included?"))
        return True

    _say(scope, clock, HOLIDAY)
    monkeypatch.setattr(memory.runtime.topics, "has_shifted", meanwhile)
    scope.add("s", MOVED)
    assert _lengths(scope) == [len(HOLIDAY) + 1, 1]
    assert scope.session("s").episodes[0].episode.ended_at == clock.now()


def test_without_its_embedder_a_message_is_stored_all_the_same(
    scope: MemoryScope,
    clock: FixedClock,
    embedder: FailingEmbedder,
    caplog: pytest.LogCaptureFixture,
):
    _say(scope, clock, HOLIDAY)
    embedder.fail(1)
    scope.add("s", MOVED)
    assert _lengths(scope) == [len(HOLIDAY) + 1]
    assert "EmbedderFailed" in caplog.text
    assert "laptop" not in caplog.text


def test_a_failed_embedder_is_not_asked_again_for_a_while(
    scope: MemoryScope, clock: FixedClock, embedder: FailingEmbedder
):
    _say(scope, clock, HOLIDAY)
    asked = embedder.calls
    embedder.fail(1)
    scope.add("s", MOVED)
    scope.add("s", ("user", "Which vaccinations does a puppy need before its first birthday?"))
    assert embedder.calls == asked + 1
    clock.advance(minutes=1)
    scope.add("s", ("user", "Please explain the main causes of the French Revolution in 1789."))
    assert _lengths(scope) == [len(HOLIDAY) + 2, 1]


def test_another_process_detects_the_same_shift(
    scope: MemoryScope, clock: FixedClock, tmp_path: Path, minilm: MiniLMEmbedder
):
    """What is remembered of the last turns is a cache: a memory that has none reads them."""
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    _say(scope, clock, HOLIDAY)
    with EpisodicMemory.open(url, embedder=minilm, clock=clock, background=False) as other:
        other.scope(tenant="acme", agent="hr", user="user-17").add("s", MOVED)
    _say(scope, clock, LAPTOP[1:])
    assert _lengths(scope) == [len(HOLIDAY), len(LAPTOP)]


def test_vectors_are_kept_for_a_few_sessions_only(
    memory: EpisodicMemory, scope: MemoryScope, embedder: FailingEmbedder
):
    runtime = memory.runtime
    watch = TopicWatch(runtime.store, embedder, runtime.analyzer, runtime.clock, size=1)
    episodes = []
    for session in ("s-1", "s-2"):
        scope.add(session, HOLIDAY)
        episodes.append(scope.session(session).episodes[0].episode)
    new = [_new_turn(memory, scope)]
    assert watch.has_shifted(scope.scope, episodes[0], new)
    asked = embedder.calls
    assert watch.has_shifted(scope.scope, episodes[0], new)
    assert embedder.calls == asked
    assert watch.has_shifted(scope.scope, episodes[1], new)
    assert embedder.calls == asked + 1
    assert watch.has_shifted(scope.scope, episodes[0], new)
    assert embedder.calls == asked + 2


def _new_turn(memory: EpisodicMemory, scope: MemoryScope):
    from octopus_memory.domain.checks import parse_turns
    from octopus_memory.engine.write import prepare

    config = MemoryConfig()
    now = memory.runtime.clock.now()
    turns = parse_turns(MOVED, now=now, max_bytes=config.session.max_message_bytes)
    return prepare.new_turns(memory.runtime, scope.scope, turns, config)[0]


def test_a_resumed_session_goes_on_where_its_subject_is_the_same(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    _configure(memory, allow_resume=True)
    _say(scope, clock, HOLIDAY)
    scope.close_session("s")
    clock.advance(hours=20)
    same = ("user", "Does the hotel in Lisbon that costs 130 euros a night have breakfast?")
    scope.add("s", same)
    assert _lengths(scope) == [len(HOLIDAY) + 1]


def test_a_resumed_session_with_another_subject_leaves_the_ended_episode_as_it_was(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    _configure(memory, allow_resume=True)
    _say(scope, clock, HOLIDAY)
    scope.close_session("s")
    ended = scope.session("s").episodes[0].episode
    clock.advance(hours=20)
    scope.add("s", MOVED)
    replay = scope.session("s")
    assert _lengths(scope) == [len(HOLIDAY), 1]
    assert replay.episodes[0].episode == ended
    assert replay.session.status is SessionStatus.ACTIVE


def test_an_episode_left_for_another_subject_is_not_resumed(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    """As after a crash between the end of the one and the start of the other."""
    _configure(memory, allow_resume=True)
    turns = _say(scope, clock, HOLIDAY)
    scope.close_episode(turns[0].episode_id, EndReason.TOPIC_SHIFT)
    scope.add("s", ("user", "Does the hotel in Lisbon have breakfast?"))
    assert _lengths(scope) == [len(HOLIDAY), 1]


def test_a_time_out_comes_before_a_shift(scope: MemoryScope, clock: FixedClock):
    _say(scope, clock, HOLIDAY)
    clock.advance(minutes=31)
    scope.add("s", MOVED)
    [first, _] = scope.session("s").episodes
    assert first.episode.end_reason is EndReason.TIMEOUT


def test_history_is_cut_by_its_own_times(scope: MemoryScope, clock: FixedClock):
    start = clock.now() - timedelta(days=300)
    for place, message in enumerate(HOLIDAY + LAPTOP):
        scope.add("s", message, at=start + place * timedelta(minutes=1))
    first, second = (part.episode for part in scope.session("s").episodes)
    assert first.ended_at == start + timedelta(minutes=len(HOLIDAY) - 1)
    assert second.started_at == start + timedelta(minutes=len(HOLIDAY))
