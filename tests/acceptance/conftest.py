"""What several of these files begin with; some have a `filled` and a `path` of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.filled_database import fill


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with something in every table."""
    return fill(tmp_path_factory.mktemp("weather") / "filled.db")


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    """Of a copy, to be spoilt."""
    return Path(shutil.copy(filled, tmp_path / "memory.db"))
