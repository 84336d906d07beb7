"""A tool result that comes after its session has timed out, with the worker and without it."""

from __future__ import annotations

from typing import Any

import pytest

from octopus_memory import (
    EndReason,
    Episode,
    EpisodeClosed,
    EpisodicMemory,
    MemoryConfig,
    MemoryScope,
    ToolResultWithoutCall,
)
from octopus_memory.domain.policy import EpisodicRetentionPolicy
from octopus_memory.testing import FixedClock
from tests.support import rest_server

pytestmark = pytest.mark.both_databases

CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "report", "arguments": "{}"}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42 rows"}
ANSWER = {"role": "assistant", "content": "The report has 42 rows."}
LATE = [RESULT, ANSWER]


@pytest.fixture
def asked(scope: MemoryScope) -> Episode:
    """A session that waits for a tool."""
    scope.add("s", [("user", "Make the long report."), CALL])
    return scope.open_episode("s")


@pytest.mark.parametrize("worker", [False, True])
@pytest.mark.parametrize("by", ["session", "episode", "id"])
def test_a_late_result_is_stored_with_its_call(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    asked: Episode,
    worker: bool,
    by: str,
):
    clock.advance(minutes=31)
    if worker:
        assert memory.run_pending().timed_out == 1
    where: Any = {"session": "s", "episode": asked, "id": str(asked.id)}[by]
    stored = scope.add(where, LATE)
    assert {turn.episode_id for turn in stored} == {asked.id}
    replay = scope.session("s")
    assert [message["role"] for message in replay.messages()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    scope.close_session("s")
    [snippet] = scope.recent()
    assert snippet.episode_id == asked.id
    assert scope.recall("42 rows", limit=1)[0].episode_id == asked.id


def test_a_late_result_is_stored_over_rest(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, asked: Episode
):
    del asked
    clock.advance(minutes=31)
    memory.run_pending()
    headers = {"Authorization": f"Bearer {rest_server.token(memory, tenant='acme')}"}
    body = {"agentId": "hr", "userId": "user-17", "messages": LATE}
    import httpx

    from octopus_memory.faces.rest.routing import PREFIX

    with rest_server.serving(memory) as url:
        added = httpx.post(f"{url}{PREFIX}/sessions/s/messages", json=body, headers=headers)
        assert added.status_code == 201, added.text
    assert len(scope.session("s").turns) == 4


@pytest.mark.parametrize("worker", [False, True])
def test_a_repeated_call_stores_a_late_result_once(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, asked: Episode, worker: bool
):
    del asked
    clock.advance(minutes=31)
    if worker:
        memory.run_pending()
    first = scope.add("s", LATE, idempotency_key="k")
    assert [turn.id for turn in scope.add("s", LATE, idempotency_key="k")] == [
        turn.id for turn in first
    ]
    clock.advance(minutes=31)
    memory.run_pending()
    assert [turn.id for turn in scope.add("s", LATE, idempotency_key="k")] == [
        turn.id for turn in first
    ]
    assert len(scope.session("s").turns) == 4


def test_an_episode_reopened_for_a_late_result_times_out_again(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, asked: Episode
):
    for _ in range(2):
        clock.advance(minutes=31)
        memory.run_pending()
        if scope.get(asked).episode.message_count == 2:
            scope.add("s", LATE)
    ended = scope.get(asked).episode
    assert ended.end_reason is EndReason.TIMEOUT
    assert ended.message_count == 4
    assert "42 rows" in (ended.summary or "")


def test_a_result_of_an_unknown_call_is_refused(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, asked: Episode
):
    clock.advance(minutes=31)
    memory.run_pending()
    with pytest.raises(ToolResultWithoutCall):
        scope.add("s", [RESULT | {"tool_call_id": "another"}, ANSWER])
    with pytest.raises(EpisodeClosed):
        scope.add(asked, [RESULT | {"tool_call_id": "another"}, ANSWER])
    assert not scope.get(asked).episode.is_open


def test_an_episode_closed_by_the_caller_takes_no_late_result(scope: MemoryScope, asked: Episode):
    scope.close_session("s")
    with pytest.raises(ToolResultWithoutCall):
        scope.add("s", LATE)
    assert scope.get(asked).episode.end_reason is EndReason.USER_CLOSED


def test_an_archived_episode_takes_no_late_result(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, asked: Episode
):
    memory.configure("hr", MemoryConfig(retention=EpisodicRetentionPolicy(active_retention_days=1)))
    clock.advance(minutes=31)
    memory.run_pending()
    clock.advance(days=2)
    assert memory.run_retention().counts.archived == 1
    with pytest.raises(ToolResultWithoutCall):
        scope.add("s", LATE)
    assert scope.get(asked).episode.is_archived


def test_many_results_read_the_episode_once(
    memory: EpisodicMemory, scope: MemoryScope, monkeypatch: pytest.MonkeyPatch
):
    ids = [f"c{number}" for number in range(300)]
    scope.add("s", {**CALL, "tool_calls": [{**CALL["tool_calls"][0], "id": each} for each in ids]})
    store = memory.runtime.store
    read, reads = type(store).turns, []

    def count(*given: Any, **named: Any) -> Any:
        reads.append(given)
        return read(*given, **named)

    monkeypatch.setattr(type(store), "turns", count)
    scope.add("s", [{**RESULT, "tool_call_id": each} for each in ids])
    assert len(reads) == 1
