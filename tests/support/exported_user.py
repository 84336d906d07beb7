"""A user with everything that an export may hold, and helpers to export and import."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from octopus_memory import EndReason, EpisodicMemory, MemoryScope
from octopus_memory.domain.transfer.export_format import LineCount, encode_line
from octopus_memory.testing import FixedClock
from tests.support.fact_finder import FactFinder

TOOLS: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "text", "text": "Weather?"}, {"type": "x", "y": 1.5}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "w", "arguments": "{"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c", "content": "rain", "own": {"k": [None, True, "é\0"]}},
    {
        "role": "tool",
        "tool_call_id": "d",
        "function_name": "f",
        "arguments": {"a": 1},
        "result": [1, 2],
        "duration_ms": 3,
        "is_error": False,
    },
]


def fill(memory: EpisodicMemory, clock: FixedClock) -> MemoryScope:
    """Store a user with everything that an export may hold."""
    scope = memory.scope(tenant="acme", agent="hr", user="ana")
    for reason in EndReason:
        scope.store([("user", f"ended by {reason}"), ("assistant", "ok")], reason=reason)
    scope.store(
        TOOLS,
        session_id="tools",
        metadata={"channel": "web", "n": [1, {"é": None}]},
        summary="They asked for the weather.",
        key_facts=["it rains", "\u2028 odd \ud800"],
        input_tokens=2_000_000_000,
        output_tokens=0,
        at=[clock.now() + timedelta(microseconds=place) for place in range(4)],
    )
    store = memory.runtime.store
    for cold in (True, False):
        old = scope.store(
            [("user", "old words"), ("assistant", "older")], session_id=f"cold {cold}"
        )
        store.archive(scope.scope, old.id, cold=cold, at=clock.advance(days=1))
    restored = scope.store([("user", "came back")], session_id="restored")
    store.archive(scope.scope, restored.id, cold=True, at=clock.advance(days=1))
    scope.restore(restored.id)
    _state_facts(memory, scope)
    other = memory.scope(tenant="acme", agent="sales", user="ana")
    other.add("open", [("user", "still here"), ("assistant", "yes")], tokens=[7, 8])
    clock.advance(minutes=5)
    other.heartbeat("open")
    other.open_episode("nothing said yet")
    return scope


def _state_facts(memory: EpisodicMemory, scope: MemoryScope) -> None:
    """Facts that were found, pinned, corrected and deleted, and some that the caller gave."""
    extractive, memory.runtime.extractive = memory.runtime.extractive, FactFinder()
    found = "home[] Lives in Ghent. | person[rex] Has a dog, Rex. | name[] Is \u2028 \ud800."
    scope.store([("user", found), ("user", "person[rex]! Rex died.")], session_id="facts")
    memory.runtime.extractive = extractive
    facts = {fact.kind.value: fact for fact in scope.facts()}
    scope.pin_fact(facts["name"])
    moved = scope.correct_fact(facts["home"], "Lives in Lyon.")
    scope.add_fact("Likes tea.", "preference", pinned=True)
    scope.delete_fact(moved)
    scope.delete_fact(scope.add_fact("Is alone in its slot."))
    memory.scope(tenant="acme", agent="facts alone", user="ana").add_fact("Likes milk.")


@contextmanager
def open_other(path: Path, clock: FixedClock, **more: Any) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(
        path, embedder="hashing", clock=clock, background=False, **more
    ) as opened:
        yield opened


def export(memory: EpisodicMemory, user: str = "ana", tenant: str = "acme") -> list[str]:
    return list(memory.tenant(tenant).export_user(user))


def with_trailer(bodies: list[dict[str, Any]]) -> list[str]:
    """Return the lines with the trailer that fits them."""
    tally = LineCount()
    lines = []
    for body in bodies:
        if body["kind"] != "trailer":
            lines.append(encode_line(body))
            tally.add(lines[-1], body["kind"])
    return [*lines, encode_line(tally.trailer())]
