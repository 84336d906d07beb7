"""Injection attempts, stored through the public calls."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

from octopus_memory import EpisodicMemory, MemoryConfig, MemoryScope
from octopus_memory.domain.policy import Layout
from octopus_memory.testing import FixedClock
from tests.support.injection_check import ATTEMPTS

START = datetime(2025, 3, 14, 9, 22, tzinfo=UTC)
MODES = [(layout, summaries) for layout in Layout for summaries in (True, False)]


def remember(scope: MemoryScope, at: datetime, attempt: dict[str, Any]) -> None:
    """Store the attempt in every place that stored text can come from, in two episodes."""
    payload = attempt["text"]
    half = len(payload) // 2
    part = {"type": "text", "text": payload}
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
    scope.store(
        [
            {"role": "user", "name": payload, "content": payload},
            {"role": "assistant", "content": [part, picture, part]},
        ],
        session_id=payload[:200].replace("\ud83d", "?") + attempt["id"],
        summary=payload[:2_000],
        key_facts=[payload[:2_000], payload[:half], payload[half:], "Likes tea"],
        at=at,
    )
    call = {"role": "tool", "tool_call_id": "call_1", "function_name": "find", "result": payload}
    scope.store([("user", payload), call], session_id=f"summarized {attempt['id']}", at=at)


def config(layout: Layout, summaries: bool) -> MemoryConfig:
    return MemoryConfig.from_dict(
        {
            "context": {"layout": layout, "budget_tokens": 90_000},
            "recall": {
                "recent_sessions_to_inject": 20,
                "use_session_summaries": summaries,
                "min_recall_score": 0,
            },
        }
    )


def opened() -> EpisodicMemory:
    clock = FixedClock(START)
    return EpisodicMemory.open(
        "sqlite:///:memory:", embedder="hashing", clock=clock, background=False
    )


def fingerprint() -> str:
    """Return a hash of some attempts' blocks, in each mode."""
    seen = hashlib.sha256()
    with opened() as memory:
        scope = memory.scope(agent="hr", user="user-17")
        for attempt in ATTEMPTS[::30]:
            remember(scope, START, attempt)
        for mode in MODES:
            memory.configure("hr", config(*mode))
            seen.update(scope.context("Tea?").text.encode())
    return seen.hexdigest()
