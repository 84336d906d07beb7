"""A dialogue and policies for the tests of retention."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from octopus_memory import Episode, EpisodicRetentionPolicy, MemoryConfig, MemoryScope
from octopus_memory.testing import FixedClock

TALK = [
    ("user", "How many leave days do I have left?"),
    ("assistant", "You have 12 days remaining."),
]


def policy(**days: Any) -> MemoryConfig:
    return MemoryConfig(retention=EpisodicRetentionPolicy(**days))


def tell(scope: MemoryScope, clock: FixedClock, *, days: float = 0, **more: Any) -> Episode:
    """Store a conversation that ended so many days ago."""
    ended = clock.now() - timedelta(days=days)
    return scope.store(TALK, at=ended, ended_at=ended, **more)
