"""Statements as the driver executes them; those of common calls come in `compiled_statements.json`.

The file is made when a wheel is built. A statement that is not in it is compiled on first use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ....built import read_built
from ..sql import column_values
from ..sql.lazy import load, sa
from ..sql.results import returned
from ..sql.statement_cache import Keys, check_given

FILE = Path(__file__).with_name("compiled_statements.json")
_EXPANDING = re.compile(r"\(__\[POSTCOMPILE_(\w+)\]\)")
_BINDS = {None: "", column_values.bind_time: "time", column_values.bind_id: "id"}
_READS = {None: "", column_values.read_time: "time", column_values.read_id: "id"}
"""The names of conversions in the file."""


class Compiled(NamedTuple):
    """Everything that the driver needs to execute a statement."""

    text: list[str]
    """Alternately text and the name of an `IN` list, starting and ending with text."""
    names: list[str]
    """The parameters in the order of their marks."""
    fixed: dict[str, Any]
    """Parameters with a value in the statement itself."""
    binds: list[str]
    """The conversion of each parameter."""
    columns: list[str]
    reads: list[str]
    """The conversion of each column."""


@cache
def shipped() -> Mapping[tuple[str, ...], Compiled]:
    """The shipped statements, by name and names of parameters."""
    try:
        texts = json.loads(read_built(FILE) or b"[]")
    except ValueError:
        # A damaged installation: every statement is compiled on first use.
        texts = []
    return {tuple(key): Compiled(*fields) for key, *fields in texts}


def compile_statement(statement: Any, keys: Keys) -> tuple[Compiled, Any]:
    """The statement for the driver, and SQLAlchemy's compiled object."""
    made = statement.compile(dialect=_dialect(), column_keys=keys)
    check_given(made, keys)
    names = list(made.positiontup or ())
    columns = returned(statement)
    compiled = Compiled(
        text=_EXPANDING.split(str(made)),
        names=names,
        fixed={name: made.params.get(name) for name in names if name not in keys},
        binds=[_bind(made.binds[name].type) for name in names],
        columns=[name for name, _ in columns],
        reads=[_read(kind) for _, kind in columns],
    )
    return compiled, made


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
