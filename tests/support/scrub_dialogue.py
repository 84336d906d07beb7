"""A dialogue with personal data for the tests of scrubbing, and searches for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from octopus_memory import (
    EpisodicMemory,
    MemoryScope,
)
from octopus_memory.testing import FixedClock

SECRETS = ["López", "ana.lopez@example.com", "415-555-0134", "4111 1111 1111 1111"]
KETTLE = "The kettle in the small kitchen leaks, and I would like it mended before the winter."
TALK: list[dict[str, Any]] = [
    {"role": "user", "content": "Hi, my name is Ana López and my card is 4111 1111 1111 1111."},
    {"role": "assistant", "content": "Thanks, Ana López. Shall I write to ana.lopez@example.com?"},
    {"role": "user", "content": [{"type": "text", "text": "Yes, or call 415-555-0134."}]},
    {"role": "user", "content": KETTLE},
    {"role": "assistant", "content": "A plumber comes on Tuesday to look at it, before lunch."},
]
CALL = {
    "role": "tool",
    "tool_call_id": "c",
    "function_name": "crm",
    "arguments": '{"email": "ana.lopez@example.com"}',
    "result": {"phone": "415-555-0134"},
    "content": "found",
}


def open_memory(path: Path, clock: FixedClock, **more: Any) -> EpisodicMemory:
    url = f"sqlite:///{path}"
    return EpisodicMemory.open(url, embedder="hashing", clock=clock, background=False, **more)


def shown(scope: MemoryScope) -> str:
    """Return everything that can be read of a user."""
    replays: list[object] = [scope.session(e.session_id) for e in scope.episodes(page_size=100)]
    store = scope._memory.runtime.store
    kept = [
        store.stored_episode(scope.scope, episode_id)
        for session in store.sessions(scope.scope, deleted=True, limit=1_000)
        for episode_id in store.episode_ids(scope.scope, session.id, deleted=True)
    ]
    recalled = [scope.recall(query, limit=20) for query in ("card", "mail call", "López")]
    return repr([replays, kept, recalled, scope.recent(20)])


def left(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def texts(scope: MemoryScope, session: str) -> list[str]:
    return [turn.text for turn in scope.session(session).turns]
