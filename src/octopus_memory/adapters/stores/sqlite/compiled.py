"""Statements of SQLite's hot calls as compiled by SQLAlchemy, in `compiled_statements.json`.

`scripts/build_sqlite_texts.py` makes the file, and a test holds it equal to what is compiled now.
What is not in it is compiled when it is first asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("compiled_statements.json")


class Compiled(NamedTuple):
    """All that is needed of a statement to run it."""

    text: list[str]
    """Around each list that is given for an `IN`: text and the list's name by turns."""
    names: list[str]
    """The parameters, in the order of their marks."""
    fixed: dict[str, Any]
    """Those of them that the statement brings itself."""
    binds: list[str]
    """How each parameter is converted."""
    columns: list[str]
    reads: list[str]
    """How each column is converted."""


@cache
def shipped() -> Mapping[tuple[str, ...], Compiled]:
    """By the statement's name and the names that it is given."""
    try:
        texts = json.loads(FILE.read_bytes())
    except (OSError, ValueError):
        # Not installed as it should be: it only takes longer.
        texts = []
    return {tuple(key): Compiled(*fields) for key, *fields in texts}
