"""The suites that adapters run: no test of theirs hides another."""

from __future__ import annotations

from collections import Counter

import pytest

from octopus_memory.testing import IndexSuite, StoreSuite


@pytest.mark.parametrize("suite", [StoreSuite, IndexSuite])
def test_every_test_of_a_suite_runs(suite: type):
    """A suite is put together from classes: of two tests of one name, one would never run."""
    named = Counter(
        name for part in suite.__mro__ for name in vars(part) if name.startswith("test")
    )
    assert [name for name, times in named.items() if times > 1] == []
