"""Fixtures that several folders share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.register_assert_rewrite("octopus_memory.testing")

from octopus_memory import EpisodicMemory, MemoryScope  # noqa: E402 - after the line above
from octopus_memory.testing import FixedClock  # noqa: E402 - the same

START = datetime(2025, 3, 14, 9, 22, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable or file of the developer's own reaches a test, and no home folder is written."""
    for name in os.environ:
        if name.startswith("OCTOPUS_") and not name.startswith("OCTOPUS_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START)


@pytest.fixture
def memory(tmp_path: Path, clock: FixedClock) -> Iterator[EpisodicMemory]:
    """A memory on a file, with the quick embedder and no thread of its own."""
    url = f"sqlite:///{tmp_path / 'memory.db'}"
    with EpisodicMemory.open(url, embedder="hashing", clock=clock, background=False) as opened:
        yield opened


@pytest.fixture
def scope(memory: EpisodicMemory) -> MemoryScope:
    return memory.scope(tenant="acme", agent="hr", user="user-17")
