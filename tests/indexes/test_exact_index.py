"""The index suite on the exact index: on a file, in memory, and with a cache of one byte."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octopus_memory.adapters.indexes.exact import ExactIndex
from octopus_memory.adapters.indexes.scope_cache import DEFAULT_CACHE_BYTES
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.episode import Scope
from octopus_memory.ports.index import RecallIndex
from octopus_memory.ports.recall_rows import RecallState
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import IndexSuite, make_append, make_closing
from octopus_memory.testing.index.base import MODEL, assert_true_to, embed
from octopus_memory.testing.index.refresh import SharedTests
from octopus_memory.testing.store.base import ANA


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blank") / "memory.db"
    SqliteStore(path).close()
    return path


class TestExactIndexOnFile(IndexSuite):
    @pytest.fixture
    def path(self, tmp_path: Path, blank: Path) -> Path:
        return Path(shutil.copy(blank, tmp_path / "memory.db"))

    @pytest.fixture
    def store(self, path: Path) -> Iterator[EpisodeStore]:
        store = SqliteStore(path)
        yield store
        store.close()

    @pytest.fixture
    def index(self, store: EpisodeStore) -> Iterator[RecallIndex]:
        index = ExactIndex(store)
        yield index
        index.close()

    @pytest.fixture
    def other_index(self, path: Path) -> Iterator[RecallIndex]:
        """An index with its own connections, as in another process."""
        store = SqliteStore(path)
        index = ExactIndex(store)
        yield index
        index.close()
        store.close()


class TestExactIndexInMemory(IndexSuite):
    """Also with an index that searches even the smallest scope by its sketch."""

    @pytest.fixture
    def store(self) -> Iterator[EpisodeStore]:
        store = SqliteStore(":memory:")
        yield store
        store.close()

    @pytest.fixture(params=[DEFAULT_CACHE_BYTES, 1], ids=["fits", "over the bound"])
    def eager_index(self, store: EpisodeStore, request: pytest.FixtureRequest) -> RecallIndex:
        return ExactIndex(store, exact_rows=0, cache_bytes=request.param)

    @pytest.fixture
    def index(self, store: EpisodeStore) -> Iterator[RecallIndex]:
        index = ExactIndex(store)
        yield index
        index.close()

    @pytest.fixture
    def other_index(self, store: EpisodeStore) -> Iterator[RecallIndex]:
        index = ExactIndex(store)
        yield index
        index.close()


class TestExactIndexWithoutRoom(SharedTests):
    """Each scope that is used evicts the one before."""

    @pytest.fixture
    def store(self) -> Iterator[EpisodeStore]:
        store = SqliteStore(":memory:")
        yield store
        store.close()

    @pytest.fixture
    def index(self, store: EpisodeStore) -> Iterator[RecallIndex]:
        index = ExactIndex(store, cache_bytes=1)
        yield index
        index.close()

    @pytest.fixture
    def other_index(self, store: EpisodeStore) -> Iterator[RecallIndex]:
        index = ExactIndex(store, cache_bytes=1)
        yield index
        index.close()


class _InterruptedStore(SqliteStore):
    """Runs a callback between the two reads of a view."""

    meanwhile: Callable[[], object] | None = None

    def recall_state(self, scope: Scope) -> RecallState | None:
        state = super().recall_state(scope)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return state


def test_rows_may_go_between_the_two_reads_of_a_view() -> None:
    store = _InterruptedStore(":memory:")
    index = ExactIndex(store)
    write = make_append(ANA, "a", "b", closing=make_closing())
    store.append(write)
    embed(store, index)
    assert_true_to(store, index.view(ANA, MODEL), ANA)
    store.append(make_append(ANA, "c", session_id="other"))
    store.meanwhile = lambda: store.archive(ANA, write.episode_id)
    assert_true_to(store, index.view(ANA, MODEL), ANA)
    index.close()
    store.close()
