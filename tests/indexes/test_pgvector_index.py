"""The index suite on PostgreSQL: the exact index, and pgvector, as the application's role."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from octopus_memory.adapters.indexes.exact import ExactIndex
from octopus_memory.adapters.indexes.pgvector import PgVectorIndex
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.ports.index import RecallIndex
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import IndexSuite
from tests.support.pgvector_database import empty, with_vectors
from tests.support.postgres_installation import Database, Installation


class TestExactIndexOnPostgres(IndexSuite):
    @pytest.fixture
    def store(self, postgres_database: Database) -> Iterator[EpisodeStore]:
        store = PostgresStore(postgres_database.url)
        yield store
        store.close()

    @pytest.fixture
    def index(self, store: EpisodeStore) -> Iterator[RecallIndex]:
        index = ExactIndex(store)
        yield index
        index.close()

    @pytest.fixture
    def other_index(self, postgres_database: Database) -> Iterator[RecallIndex]:
        store = PostgresStore(postgres_database.url)
        index = ExactIndex(store)
        yield index
        index.close()
        store.close()


@pytest.fixture(scope="module")
def vector_database(postgres: Installation) -> Iterator[Database]:
    with with_vectors(postgres) as database:
        yield database


class TestPgVectorIndex(IndexSuite):
    @pytest.fixture
    def database(self, postgres: Installation, vector_database: Database) -> Database:
        empty(postgres, vector_database)
        return vector_database

    @pytest.fixture
    def store(self, database: Database) -> Iterator[EpisodeStore]:
        store = PostgresStore(database.url)
        yield store
        store.close()

    @pytest.fixture
    def index(self, store: EpisodeStore) -> Iterator[RecallIndex]:
        index = PgVectorIndex(store)
        yield index
        index.close()

    @pytest.fixture
    def other_index(self, database: Database) -> Iterator[RecallIndex]:
        store = PostgresStore(database.url)
        index = PgVectorIndex(store)
        yield index
        index.close()
        store.close()

    @pytest.fixture
    def eager_index(self, store: EpisodeStore) -> RecallIndex:
        return PgVectorIndex(store, whole_rows=0)
