"""Qdrant for the tests: the client's local mode, made safe for threads, and a feeder beside it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient

from octopus_memory.adapters.analyzers.snowball import SnowballAnalyzer
from octopus_memory.adapters.indexes.qdrant.index import QdrantIndex
from octopus_memory.adapters.summarizers.extractive import ExtractiveSummarizer
from octopus_memory.adapters.tokens import ApproximateCounter
from octopus_memory.engine.core.runtime import Runtime
from octopus_memory.engine.work import mirror
from octopus_memory.ports.index import RecallIndex
from octopus_memory.ports.recall_rows import Work
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import FixedClock
from octopus_memory.testing.store.base import FAR

SERVER = os.environ.get("OCTOPUS_TEST_QDRANT_URL")


class LocalQdrant:
    """The local mode with a lock, because unlike a server it is not thread-safe."""

    def __init__(self) -> None:
        self._client = QdrantClient(":memory:")
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._client, name)

        def alone(*args: Any, **named: Any) -> Any:
            with self._lock:
                return call(*args, **named)

        return alone

    def close(self) -> None:
        """Do nothing: other indexes still use the data in memory."""


@dataclass
class Space:
    """An embedder that only names the model of the vectors and never embeds."""

    model: str
    dimension: int

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise AssertionError


def runtime_of(store: EpisodeStore, index: RecallIndex, model: str, dimension: int) -> Runtime:
    return Runtime(
        store=store,
        index=index,
        embedder=Space(model, dimension),
        analyzer=SnowballAnalyzer(),
        counter=ApproximateCounter(),
        clock=FixedClock(FAR),
        extractive=ExtractiveSummarizer(),
    )


@dataclass
class Feeder:
    """Feeds waiting changes to Qdrant, as the background thread does."""

    store: EpisodeStore
    index: QdrantIndex
    runs: list[mirror.FeedReport] = field(default_factory=list)

    def feed(self, model: str, dimension: int) -> mirror.FeedReport:
        runtime = runtime_of(self.store, self.index, model, dimension)
        self.runs.append(mirror.feed(runtime, "feeder"))
        return self.runs[-1]


class FedQdrantIndex(QdrantIndex):
    """Every vector that is put is in Qdrant when the call returns."""

    def __init__(
        self, store: EpisodeStore, client: Any, *, is_server: bool = SERVER is not None
    ) -> None:
        super().__init__(store, client, is_server=is_server)
        store.use_mirror(self.mirror.name)
        self.feeder = Feeder(store, self)
        self._feeding = threading.Lock()

    def put(self, model: str, done: Sequence[tuple[Work, NDArray[np.float32]]]) -> None:
        if self.feeder.store.state().model is None:
            self.feeder.store.use_model(model)
        super().put(model, done)
        if done:
            with self._feeding:
                self.feeder.feed(model, len(done[0][1]))

    def assert_reached(self) -> None:
        """Assert that no request failed, so that Qdrant answered and not the store."""
        assert not any(run.failed for run in self.feeder.runs)
        assert self._retry_at == 0.0


@contextmanager
def qdrant() -> Iterator[Any]:
    """Return a client of the configured server, else of the local mode."""
    client: Any = LocalQdrant() if SERVER is None else QdrantClient(url=SERVER, timeout=30)
    yield client
    if SERVER is not None:
        for found in client.get_collections().collections:
            if found.name.startswith("octopus_"):
                client.delete_collection(found.name)
        client.close()
