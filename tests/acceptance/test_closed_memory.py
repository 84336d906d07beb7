"""A memory that has ended: every call says so, and what it holds stays as it was."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from octopus_memory import (
    EpisodicMemory,
    MemoryClosed,
    MemoryConfig,
    MemoryScope,
)
from tests.support.filled_database import contents, open_memory

SCOPE_CALLS: dict[str, Callable[[MemoryScope], object]] = {
    "add": lambda scope: scope.add("s", ("user", "x")),
    "add_fact": lambda scope: scope.add_fact("x"),
    "close_episode": lambda scope: scope.close_episode("s"),
    "close_session": lambda scope: scope.close_session("s"),
    "context": lambda scope: scope.context("x"),
    "correct_fact": lambda scope: scope.correct_fact(uuid4(), "x"),
    "delete": lambda scope: scope.delete(uuid4()),
    "delete_fact": lambda scope: scope.delete_fact(uuid4()),
    "deleted": lambda scope: scope.deleted(),
    "episode": lambda scope: scope.episode(),
    "episodes": lambda scope: scope.episodes(),
    "erase": lambda scope: scope.erase(),
    "erase_episode": lambda scope: scope.erase_episode(uuid4()),
    "erase_session": lambda scope: scope.erase_session("s"),
    "facts": lambda scope: scope.facts(),
    "forget": lambda scope: scope.forget("x"),
    "get": lambda scope: scope.get("s"),
    "heartbeat": lambda scope: scope.heartbeat("s"),
    "injections": lambda scope: scope.injections("s"),
    "open_episode": lambda scope: scope.open_episode(),
    "pin_fact": lambda scope: scope.pin_fact(uuid4()),
    "recall": lambda scope: scope.recall("x"),
    "recall_turns": lambda scope: scope.recall_turns("x"),
    "recent": lambda scope: scope.recent(),
    "remove_turns": lambda scope: scope.remove_turns("s", last=1),
    "reset_session": lambda scope: scope.reset_session("s"),
    "restore": lambda scope: scope.restore(uuid4()),
    "session": lambda scope: scope.session("s"),
    "sessions": lambda scope: scope.sessions(),
    "store": lambda scope: scope.store([("user", "x")]),
    "turn": lambda scope: scope.turn(uuid4()),
    "uses": lambda scope: scope.uses(uuid4()),
}
MEMORY_CALLS: dict[str, Callable[[EpisodicMemory], object]] = {
    "audit": lambda memory: memory.audit(),
    "backlog": lambda memory: memory.backlog(),
    "database_state": lambda memory: memory.database_state(),
    "destroy_returned_keys": lambda memory: memory.destroy_returned_keys(),
    "encrypt": lambda memory: memory.encrypt(),
    "check_for_removals": lambda memory: memory.check_for_removals(),
    "compact": lambda memory: memory.compact(),
    "count_lost": lambda memory: memory.count_lost(1),
    "config": lambda memory: memory.config("hr"),
    "config_sources": lambda memory: memory.config_sources("hr"),
    "configure": lambda memory: memory.configure("hr", MemoryConfig()),
    "configured_agents": lambda memory: memory.configured_agents(),
    "default_config": lambda memory: memory.default_config(),
    "flush": lambda memory: memory.flush(),
    "next_retention": lambda memory: memory.next_retention(),
    "nodes": lambda memory: memory.nodes(),
    "now": lambda memory: memory.now(),
    "ping": lambda memory: memory.ping(),
    "ping_keys": lambda memory: memory.ping_keys(),
    "reset_config": lambda memory: memory.reset_config("hr"),
    "run_pending": lambda memory: memory.run_pending(),
    "run_retention": lambda memory: memory.run_retention(),
    "scopes": lambda memory: memory.scopes(),
    "stats": lambda memory: memory.stats(),
    "tenants": lambda memory: memory.tenants(),
    "verify_audit": lambda memory: memory.verify_audit(),
}
HARMLESS = {
    "attend",
    "close",
    "connect",
    "inspection",
    "open",
    "scope",
    "tenant",
    "wake",
    "wake_for_others",
}
"""What may be called on a closed memory."""


def public_calls(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


@pytest.mark.parametrize("background", [True, False])
def test_a_memory_that_is_closed(path: Path, background: bool):
    assert set(SCOPE_CALLS) == public_calls(MemoryScope)
    assert set(MEMORY_CALLS) | HARMLESS == public_calls(EpisodicMemory)
    memory = open_memory(path, background=background)
    scope = memory.scope(user="u")
    hand = scope.episode()
    memory.close()
    memory.close()
    before = contents(path)
    calls = [lambda call=call: call(scope) for call in SCOPE_CALLS.values()]
    calls += [lambda call=call: call(memory) for call in MEMORY_CALLS.values()]
    calls += [lambda: hand.add("user", "x"), hand.close, lambda: hand.episode]
    for call in calls:
        with pytest.raises(MemoryClosed, match=r"open a new one with EpisodicMemory\.open\(\)"):
            call()
    assert contents(path) == before
    assert list(path.parent.iterdir()) == [path]


def test_an_error_in_a_block_is_not_hidden_by_the_end_of_the_memory(path: Path):
    def go_wrong() -> None:
        with open_memory(path) as memory:
            scope = memory.scope(user="u")
            with scope.episode(session_id="broken") as ep:
                ep.add("user", "this will go wrong")
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go_wrong()
    with open_memory(path) as memory:
        [episode] = memory.scope(user="u").session("broken").episodes
        assert episode.episode.end_reason == "error_closed"
