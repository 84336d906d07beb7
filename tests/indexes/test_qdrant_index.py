"""The index suite on Qdrant: up to date, behind and unreachable, on SQLite and PostgreSQL.

Uses the client's local mode, or the server at OCTOPUS_TEST_QDRANT_URL.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient

from octopus_memory.adapters.indexes.qdrant.index import QdrantIndex
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.ports.index import RecallIndex
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import IndexSuite
from tests.support.postgres_installation import Database
from tests.support.qdrant_edge_client import EdgeClient
from tests.support.qdrant_local import SERVER, FedQdrantIndex, qdrant

pytestmark = pytest.mark.qdrant


class TestQdrantIndex(IndexSuite):
    @pytest.fixture
    def client(self) -> Iterator[Any]:
        with qdrant() as client:
            yield client

    @pytest.fixture
    def store(self) -> Iterator[EpisodeStore]:
        store = SqliteStore(":memory:")
        yield store
        store.close()

    @pytest.fixture
    def index(self, store: EpisodeStore, client: Any) -> Iterator[RecallIndex]:
        index = FedQdrantIndex(store, client)
        yield index
        index.assert_reached()

    @pytest.fixture
    def other_index(self, store: EpisodeStore, client: Any) -> RecallIndex:
        return FedQdrantIndex(store, client)

    @pytest.fixture
    def eager_index(self, store: EpisodeStore, client: Any) -> Iterator[RecallIndex]:
        index = QdrantIndex(store, client, is_server=SERVER is not None, whole_rows=0)
        yield index
        assert index._retry_at == 0.0


class TestQdrantIndexOnPostgres(TestQdrantIndex):
    @pytest.fixture
    def store(self, postgres_database: Database) -> Iterator[EpisodeStore]:
        store = PostgresStore(postgres_database.url)
        yield store
        store.close()


class TestQdrantEngine(TestQdrantIndex):
    """Qdrant's own engine, in this process."""

    @pytest.fixture
    def client(self, tmp_path: Path) -> Iterator[Any]:
        client = EdgeClient(tmp_path)
        yield client
        client.end()

    @pytest.fixture
    def index(self, store: EpisodeStore, client: Any) -> Iterator[RecallIndex]:
        index = FedQdrantIndex(store, client, is_server=True)
        yield index
        index.assert_reached()

    @pytest.fixture
    def other_index(self, store: EpisodeStore, client: Any) -> RecallIndex:
        return FedQdrantIndex(store, client, is_server=True)

    @pytest.fixture
    def eager_index(self, store: EpisodeStore, client: Any) -> Iterator[RecallIndex]:
        index = QdrantIndex(store, client, whole_rows=0)
        yield index
        assert index._retry_at == 0.0


class TestQdrantIndexOutOfReach(IndexSuite):
    """Without Qdrant no row is missing, because the store has all of them."""

    @pytest.fixture
    def store(self) -> Iterator[EpisodeStore]:
        store = SqliteStore(":memory:")
        yield store
        store.close()

    @pytest.fixture
    def nowhere(self) -> Iterator[str]:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            # A bound socket that does not listen keeps the port.
            yield f"http://127.0.0.1:{taken.getsockname()[1]}"

    @pytest.fixture
    def index(self, store: EpisodeStore, nowhere: str) -> Iterator[RecallIndex]:
        index = QdrantIndex(store, QdrantClient(url=nowhere, check_compatibility=False))
        yield index
        index.close()

    @pytest.fixture
    def other_index(self, store: EpisodeStore, nowhere: str) -> Iterator[RecallIndex]:
        index = QdrantIndex(store, QdrantClient(url=nowhere, check_compatibility=False))
        yield index
        index.close()
