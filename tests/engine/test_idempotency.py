"""A call that is repeated with its key stores nothing twice, whatever came in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from octopus_memory import (
    EpisodeArchived,
    EpisodeDeleted,
    EpisodicMemory,
    EpisodicRetentionPolicy,
    MemoryConfig,
    MemoryScope,
)
from octopus_memory.testing import FixedClock
from tests.support import rest_server

pytestmark = pytest.mark.both_databases

SAID = [("user", "How many leave days do I have?"), ("assistant", "Twelve.")]


def _store(scope: MemoryScope) -> None:
    scope.store(SAID, session_id="s", idempotency_key="k")


def _add(scope: MemoryScope) -> None:
    scope.add("s", SAID, idempotency_key="k")


CALLS = pytest.mark.parametrize("call", [_store, _add])


@CALLS
def test_a_repeat_after_a_deletion_is_refused_until_restored(
    scope: MemoryScope, call: Callable[[MemoryScope], None]
):
    call(scope)
    [episode] = scope.episodes().items
    scope.delete(episode)
    for _ in range(2):
        with pytest.raises(EpisodeDeleted) as caught:
            call(scope)
        assert caught.value.episode_id == episode.id
    assert scope.episodes().total_count == 0
    scope.restore(episode)
    if call is _add:
        call(scope)
        [turn, _] = scope.add("s", SAID, idempotency_key="k")
        assert turn.episode_id == episode.id
    else:
        assert scope.store(SAID, session_id="s", idempotency_key="k").id == episode.id
    assert len(scope.session("s").turns) == 2


@CALLS
def test_a_repeat_after_a_purge_is_a_new_call(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    call: Callable[[MemoryScope], None],
):
    memory.configure("hr", MemoryConfig(retention=EpisodicRetentionPolicy(purge_grace_days=1)))
    call(scope)
    scope.delete(scope.episodes().items[0])
    clock.advance(days=2)
    assert memory.run_retention().counts.purged == 1
    call(scope)
    assert scope.episodes().total_count == 1


@pytest.mark.parametrize("mode", ["cold", "summary"])
def test_a_repeat_after_archiving_stores_nothing_twice(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, mode: str
):
    policy = EpisodicRetentionPolicy(active_retention_days=1, archive_mode=mode)
    memory.configure("hr", MemoryConfig(retention=policy))
    first = scope.store(SAID, idempotency_key="k")
    scope.add("s", SAID, idempotency_key="added")
    scope.close_session("s")
    clock.advance(days=2)
    assert memory.run_retention().counts.archived == 2
    assert scope.store(SAID, idempotency_key="k").id == first.id
    with pytest.raises(EpisodeArchived):
        scope.add("s", SAID, idempotency_key="added")
    assert scope.episodes().total_count == 2


def test_a_repeated_tool_result_is_stored_once(scope: MemoryScope):
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    scope.add("s", [("user", "Look."), {"role": "assistant", "tool_calls": [call]}])
    result = {"role": "tool", "tool_call_id": "c1", "content": "done"}
    first = scope.add("s", [result], idempotency_key="k")
    assert scope.add("s", [result], idempotency_key="k") == first
    episode = scope.open_episode("s")
    assert scope.add(episode, [result], idempotency_key="k") == first


def test_repeats_over_rest_and_the_remote_client_store_once(memory: EpisodicMemory):
    with rest_server.remote_memory(memory) as remote:
        scope = remote.scope(agent="hr", user="ana")
        stored = scope.store(SAID, idempotency_key="k")
        scope.delete(stored)
        with pytest.raises(EpisodeDeleted) as caught:
            scope.store(SAID, idempotency_key="k")
        assert caught.value.episode_id == stored.id
