"""Folders of the repository, wherever a test file stands in it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
DATA = TESTS / "data"
DOCS = ROOT / "docs"
