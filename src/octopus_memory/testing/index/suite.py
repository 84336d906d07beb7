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

from .probe import ProbeTests
from .refresh import RefreshTests, SharedTests
from .view import IndexIsolationTests, PutTests, ViewTests


class IndexSuite(ViewTests, PutTests, IndexIsolationTests, RefreshTests, SharedTests, ProbeTests):
    """The contract of `RecallIndex` and `ScopeView`, sentence by sentence."""
