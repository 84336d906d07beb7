"""Conformance suites for adapters, and fakes for tests.

    from octopus_memory.testing import StoreSuite

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self) -> Iterator[EpisodeStore]:
            store = MyStore(...)
            yield store
            store.close()

Call `pytest.register_assert_rewrite("octopus_memory.testing")` in `conftest.py`, before anything
is imported from here, to see the values of failed assertions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .fakes import (
    FailingEmbedder,
    FakeSummarizer,
    FixedClock,
    make_append,
    make_closing,
    make_fact,
    make_key,
    make_lexical,
    make_next,
    make_scope,
    make_summary,
    make_turn,
)
from .openai_server import FakeOpenAIServer

if TYPE_CHECKING:
    from .index.suite import IndexSuite
    from .scope_keys import ScopeKeysSuite
    from .store.suite import StoreSuite

__all__ = [
    "FailingEmbedder",
    "FakeOpenAIServer",
    "FakeSummarizer",
    "FixedClock",
    "IndexSuite",
    "ScopeKeysSuite",
    "StoreSuite",
    "make_append",
    "make_closing",
    "make_fact",
    "make_key",
    "make_lexical",
    "make_next",
    "make_scope",
    "make_summary",
    "make_turn",
]

# Imported lazily, because the suites need pytest and the fakes do not.
_SUITES = {
    "IndexSuite": ".index.suite",
    "ScopeKeysSuite": ".scope_keys",
    "StoreSuite": ".store.suite",
}


def __getattr__(name: str) -> Any:
    if name in _SUITES:
        return getattr(import_module(_SUITES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
