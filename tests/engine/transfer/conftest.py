"""Two databases, of which one is exported from and the other imported into."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.testing import FixedClock
from tests.support.exported_user import open_other


@pytest.fixture
def there(tmp_path: Path, clock: FixedClock) -> Iterator[EpisodicMemory]:
    """Another database, empty."""
    with open_other(tmp_path / "there.db", clock) as opened:
        yield opened
