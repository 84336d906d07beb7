"""A memory on SQLite beside a Qdrant server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.testing import FixedClock
from tests.support.qdrant_memory import Open, opening
from tests.support.qdrant_server import QdrantServer


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server


@pytest.fixture
def qdrant_seconds() -> str:
    """Timeout of requests to Qdrant; short only in tests of a server that hangs."""
    return "30"


@pytest.fixture
def open_memory(
    tmp_path: Path,
    clock: FixedClock,
    server: QdrantServer,
    monkeypatch: pytest.MonkeyPatch,
    qdrant_seconds: str,
) -> Iterator[Open]:
    with opening(tmp_path, clock, server, monkeypatch, qdrant_seconds) as open_:
        yield open_


@pytest.fixture
def memory(open_memory: Open) -> EpisodicMemory:
    return open_memory()
