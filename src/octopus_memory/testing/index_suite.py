"""What every index must do: inherit `IndexSuite` and give it a store and two indexes on it.

class TestMyIndex(IndexSuite):
    @pytest.fixture
    def store(self) -> Iterator[EpisodeStore]: ...

    @pytest.fixture
    def index(self, store: EpisodeStore) -> Iterator[RecallIndex]: ...

    @pytest.fixture
    def other_index(self, store: EpisodeStore) -> Iterator[RecallIndex]: ...

An index that takes in only a part of very large scopes gives a fourth fixture, `eager_index`: one
that does so in the smallest.
"""

from __future__ import annotations

from .index_suite_probe import ProbeTests
from .index_suite_refresh import RefreshTests, SharedTests
from .index_suite_view import IndexIsolationTests, PutTests, ViewTests


class IndexSuite(ViewTests, PutTests, IndexIsolationTests, RefreshTests, SharedTests, ProbeTests):
    """The contract of `RecallIndex` and `ScopeView`, sentence by sentence."""
