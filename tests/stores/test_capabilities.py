"""Stores that lack a role: what they refuse, and what they do all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from octopus_memory import StoreError
from octopus_memory.adapters.stores.sql.store import SqlStore
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.ports.store import BASE, Capability, EpisodeStore, unclaimed_methods
from octopus_memory.testing.fakes import make_append, make_scope
from octopus_memory.testing.store.erasure import EraseTests
from octopus_memory.testing.store.isolation import KeyTests

DIALECT = ("translate", "size_bytes", "_rewrite")


class BaseStore(SqliteStore):
    """A store with the required roles alone."""

    capabilities = BASE


class TestBaseStore(KeyTests, EraseTests):
    """Some of the suite on it: tests that need another role are skipped."""

    @pytest.fixture
    def store(self) -> Iterator[EpisodeStore]:
        store = BaseStore(":memory:")
        yield store
        store.close()


@pytest.fixture
def store() -> Iterator[EpisodeStore]:
    store = BaseStore(":memory:")
    yield store
    store.close()


def test_it_remembers_and_refuses_what_it_lacks(store: EpisodeStore) -> None:
    [turn] = store.append(make_append(make_scope("ana"), "hello"))
    assert store.turns(make_scope("ana"), turn.episode_id) == [turn]
    with pytest.raises(StoreError, match="BaseStore lacks the capability 'api keys'"):
        store.list_keys("acme")
    with pytest.raises(StoreError, match="'mirror'"):
        store.use_mirror("elsewhere")


def test_every_optional_method_belongs_to_one_capability() -> None:
    assert unclaimed_methods(frozenset(Capability)) == {}
    lacking = unclaimed_methods(BASE)
    assert set(lacking.values()) == set(Capability)
    assert lacking["import_episode"] is Capability.TRANSFER
    assert lacking["rewrite"] is Capability.SCRUB
    assert set(lacking) <= EpisodeStore.__abstractmethods__


@pytest.mark.parametrize("missing", DIALECT)
def test_a_dialect_without_one_of_its_methods_cannot_be_made(missing: str) -> None:
    own = {name: lambda *_: None for name in DIALECT if name != missing}
    with pytest.raises(TypeError, match=f"abstract method '?{missing}\\b"):
        type("Dialect", (SqlStore,), own)(lambda: None)


def test_a_dialect_writes_no_other_method() -> None:
    assert SqlStore.__abstractmethods__ == set(DIALECT)
