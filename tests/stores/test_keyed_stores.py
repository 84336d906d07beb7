"""The store suite where every scope is sealed with a key of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="needs the extra keys")

from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import StoreSuite
from octopus_memory.testing.store.base import Reopen
from tests.support.keyed_stores import make_ring
from tests.support.postgres_installation import Installation


class TestSealedSqlite(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[EpisodeStore]:
        store = SqliteStore(tmp_path / "memory.db", ring=make_ring(tmp_path / "keys"))
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, tmp_path: Path, store: EpisodeStore) -> Iterator[Reopen]:
        opened: list[EpisodeStore] = [store]

        def again() -> EpisodeStore:
            opened[-1].close()
            opened.append(SqliteStore(tmp_path / "memory.db", ring=make_ring(tmp_path / "keys")))
            return opened[-1]

        yield again
        opened[-1].close()


class TestSealedPostgres(StoreSuite):
    @pytest.fixture(scope="class")
    def place(
        self, postgres: Installation, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[tuple[str, Path, PostgresStore, Installation, str]]:
        folder = tmp_path_factory.mktemp("keys")
        with postgres.database() as database:
            store = PostgresStore(database.url, ring=make_ring(folder))
            yield database.url, folder, store, postgres, database.name
            store.close()

    @pytest.fixture
    def store(self, place) -> Iterator[EpisodeStore]:
        _, _, store, installation, name = place
        yield store
        installation.empty(name)
        # The numbers of scopes begin anew, which never happens elsewhere.
        store._ring._places.clear()
        store._ring._numbers.clear()

    @pytest.fixture
    def reopen(self, place, store: EpisodeStore) -> Iterator[Reopen]:
        url, folder, *_ = place
        opened: list[EpisodeStore] = [store]

        def again() -> EpisodeStore:
            opened[-1].close()
            opened.append(PostgresStore(url, ring=make_ring(folder)))
            return opened[-1]

        yield again
        opened[-1].close()
