"""What comes in between: a message while its episode closes, a revocation while a key is read."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from octopus_memory import EndReason, EpisodeClosed, EpisodicMemory, MemoryScope
from octopus_memory.testing import FixedClock


def test_closing_succeeds_though_every_read_is_stale(
    memory: EpisodicMemory, scope: MemoryScope, monkeypatch: pytest.MonkeyPatch
):
    episode = scope.add("monday", ("user", "I like tea in the morning."))[0].episode_id
    store = memory.runtime.store
    read, said = store.turns, 0

    def turns(*args: Any, **named: Any) -> Any:
        nonlocal said
        if said < 9:
            said += 1
            scope.add("monday", ("user", f"And this is thing {said}."))
        return read(*args, **named)

    monkeypatch.setattr(store, "turns", turns)
    closed = scope.close_episode(episode)
    assert (closed.end_reason, closed.is_open) == (EndReason.USER_CLOSED, False)


@pytest.mark.parametrize("name", ["id", "text"])
def test_adding_by_id_after_a_timeout_continues_once_and_is_then_refused(
    scope: MemoryScope, clock: FixedClock, name: str
):
    first = scope.add("monday", ("user", "one"))[0].episode_id
    where = first if name == "id" else str(first)
    clock.advance(minutes=90)
    # Nobody had closed it yet: its session goes on.
    assert scope.add(where, ("user", "two"))[0].episode_id != first
    for _ in range(2):
        clock.advance(minutes=1)
        with pytest.raises(EpisodeClosed):
            scope.add(where, ("user", "three"))


def test_a_slow_read_of_a_revoked_key_does_not_cache_it(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    made = memory.api_keys.create(tenant="acme", role="admin", name="k", actor="tester")
    ring, store = memory.api_keys.ring(), memory.runtime.store
    find, looked, go_on = store.find_key, threading.Event(), threading.Event()

    def slow(key_id: str) -> Any:
        found = find(key_id)
        if threading.current_thread().name == "slow":
            looked.set()
            go_on.wait(30)
        return found

    monkeypatch.setattr(store, "find_key", slow)
    reader = threading.Thread(target=ring.who, args=(made.token,), name="slow")
    reader.start()
    assert looked.wait(30)
    memory.api_keys.revoke(made.key.id, actor="tester")
    assert ring.who(made.token) is None
    go_on.set()
    reader.join()
    assert ring.remembered(made.token) is None
