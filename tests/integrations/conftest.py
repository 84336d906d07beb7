"""A memory that the integrations share: embedded, or behind the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import AsyncEpisodicMemory, AsyncRemoteMemory, EpisodicMemory
from octopus_memory.testing.openai_server import FakeOpenAIServer
from tests.support import byte_scan, rest_server
from tests.support.integrations import Erased, Scopes


@pytest.fixture
def server() -> Iterator[FakeOpenAIServer]:
    with FakeOpenAIServer() as running:
        yield running


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[EpisodicMemory]:
    """The memory itself, wherever the calls come from."""
    (tmp_path / "db").mkdir()
    url = f"sqlite:///{tmp_path / 'db' / 'memory.db'}"
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        yield memory


@pytest.fixture(params=["embedded", "service"])
def memories(request: pytest.FixtureRequest, kept: EpisodicMemory) -> Iterator[Any]:
    """A memory that makes scopes: embedded, or behind the service."""
    if request.param == "embedded":
        yield kept
        return
    with (
        rest_server.serving(kept) as url,
        EpisodicMemory.connect(url, api_key=rest_server.token(kept, "admin")) as remote,
    ):
        yield remote


@pytest.fixture
def awaited(memories: Any) -> Any:
    """An asynchronous memory: embedded, or behind the service."""
    is_embedded = isinstance(memories, EpisodicMemory)
    return AsyncEpisodicMemory(memories) if is_embedded else AsyncRemoteMemory(memories)


@pytest.fixture
def scopes(memories: Any) -> Scopes:
    """Makes the scope of a user."""
    return lambda user="ana": memories.scope(agent="hr", user=user)


@pytest.fixture
def erased(kept: EpisodicMemory, tmp_path: Path) -> Erased:
    """Erases a user who said "zanzibarquark", and searches the files for it."""

    def erase(scope: Any) -> None:
        kept.flush()
        wanted = {"word": [b"zanzibarquark", b"Zanzibarquark"]}
        assert scope.erase().is_complete
        assert byte_scan.search(tmp_path / "db", wanted) == []

    return erase
