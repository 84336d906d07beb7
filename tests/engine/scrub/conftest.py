"""A memory whose file is read for what is left in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.testing import FixedClock
from tests.support.scrub_dialogue import open_memory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path, clock: FixedClock) -> Iterator[EpisodicMemory]:
    with open_memory(path, clock) as opened:
        yield opened
