"""Statements of SQLite's hot calls as compiled by SQLAlchemy, in `compiled_statements.json`.

`scripts/build_sqlite_texts.py` makes the file, and a test holds it equal to what is compiled now.
What is not in it is compiled when it is first asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..sql import column_values
from ..sql.lazy import load, sa
from ..sql.results import returned

FILE = Path(__file__).with_name("compiled_statements.json")
_EXPANDING = re.compile(r"\(__\[POSTCOMPILE_(\w+)\]\)")
_BINDS = {None: "", column_values.bind_time: "time", column_values.bind_id: "id"}
_READS = {None: "", column_values.read_time: "time", column_values.read_id: "id"}
"""What the driver calls our types' own conversions."""


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


def compile_statement(statement: Any, keys: Sequence[str]) -> Compiled:
    made = statement.compile(dialect=_dialect(), column_keys=keys)
    names = list(made.positiontup or ())
    columns = returned(statement)
    return Compiled(
        text=_EXPANDING.split(str(made)),
        names=names,
        fixed={name: made.params.get(name) for name in names if name not in keys},
        binds=[_bind(made.binds[name].type) for name in names],
        columns=[name for name, _ in columns],
        reads=[_read(kind) for _, kind in columns],
    )


@cache
def _dialect() -> sa.Dialect:
    made: sa.Dialect = load("sqlalchemy.dialects.sqlite").dialect()
    return made


def _bind(kind: Any) -> str:
    impl = kind.dialect_impl(_dialect())
    if isinstance(impl, sa.LargeBinary):
        return "bytes"
    return "flag" if isinstance(impl, sa.Boolean) else _BINDS[impl.bind_processor(_dialect())]


def _read(kind: Any) -> str:
    if isinstance(kind, sa.Boolean):
        return "flag"
    return _READS[kind.dialect_impl(_dialect()).result_processor(_dialect(), None)]
