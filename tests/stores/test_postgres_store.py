"""The store suite on PostgreSQL, as both roles of the guide: row-level security holds each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import StoreSuite
from octopus_memory.testing.store.base import Reopen
from tests.support.postgres_installation import Installation


@dataclass(frozen=True)
class Place:
    """One store for every test: making each statement anew would take most of the time."""

    url: str
    store: PostgresStore
    empty: Callable[[], None]


@contextmanager
def _place(installation: Installation, *, as_owner: bool) -> Iterator[Place]:
    with installation.database() as database:
        url = database.owner_url if as_owner else database.url
        store = PostgresStore(url)
        yield Place(url, store, lambda: installation.empty(database.name))
        store.close()


@pytest.fixture(scope="module")
def as_application(postgres: Installation) -> Iterator[Place]:
    with _place(postgres, as_owner=False) as place:
        yield place


@pytest.fixture(scope="module")
def as_owner(postgres_15: Installation) -> Iterator[Place]:
    with _place(postgres_15, as_owner=True) as place:
        yield place


class TestPostgres(StoreSuite):
    """As the application, which may do no more than it needs."""

    @pytest.fixture
    def place(self, as_application: Place) -> Place:
        return as_application

    @pytest.fixture
    def store(self, place: Place) -> Iterator[EpisodeStore]:
        yield place.store
        place.empty()

    @pytest.fixture
    def reopen(self, place: Place, store: EpisodeStore) -> Iterator[Reopen]:
        opened: list[EpisodeStore] = [store]

        def again() -> EpisodeStore:
            opened[-1].close()
            opened.append(PostgresStore(place.url))
            return opened[-1]

        yield again
        opened[-1].close()


class TestPostgres15(TestPostgres):
    """As the owner, who may also rewrite the tables, on Debian's PostgreSQL without vectors."""

    @pytest.fixture
    def place(self, as_owner: Place) -> Place:
        return as_owner
