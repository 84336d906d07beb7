"""The conformance suite of indexes: inherit `IndexSuite` and provide three fixtures.

class TestMyIndex(IndexSuite):
    @pytest.fixture
    def store(self) -> Iterator[EpisodeStore]: ...

    @pytest.fixture
    def index(self, store: EpisodeStore) -> Iterator[RecallIndex]: ...

    @pytest.fixture
    def other_index(self, store: EpisodeStore) -> Iterator[RecallIndex]: ...

An index that loads only part of very large scopes provides a fourth fixture, `eager_index`, which
does so in the smallest scope.
"""

from __future__ import annotations

from .base import ProbeTests
from .refresh import RefreshTests, SharedTests
from .view import IndexIsolationTests, PutTests, ViewTests


class IndexSuite(ViewTests, PutTests, IndexIsolationTests, RefreshTests, SharedTests, ProbeTests):
    """The contract of `RecallIndex` and `ScopeView`, sentence by sentence."""
