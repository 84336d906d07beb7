"""A memory without a background thread, and the size of its backlog."""

from __future__ import annotations

from typing import Any

from octopus_memory import EpisodicMemory
from octopus_memory.ports.recall_rows import WorkKind


def open_memory(url: str, **options: Any) -> EpisodicMemory:
    given: dict[str, Any] = {"embedder": "hashing", "background": False} | options
    return EpisodicMemory.open(url, **given)


def waiting(memory: EpisodicMemory, kind: WorkKind = WorkKind.EMBED) -> int:
    return memory.stats().backlog[kind].waiting
