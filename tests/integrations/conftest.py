"""A memory that the integrations share: embedded, or behind the service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.testing.openai_server import FakeOpenAIServer
from tests.support import rest_server
from tests.support.integrations import Scopes


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
def scopes(request: pytest.FixtureRequest, kept: EpisodicMemory) -> Iterator[Scopes]:
    """Makes the scope of a user."""
    if request.param == "embedded":
        yield lambda user="ana": kept.scope(agent="hr", user=user)
        return
    with (
        rest_server.serving(kept) as url,
        EpisodicMemory.connect(url, api_key=rest_server.token(kept, "admin")) as remote,
    ):
        yield lambda user="ana": remote.scope(agent="hr", user=user)
