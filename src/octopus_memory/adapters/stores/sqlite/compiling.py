"""What SQLAlchemy makes of a statement, for the driver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..sql import column_values
from ..sql.lazy import load, sa
from ..sql.results import returned
from .compiled import Compiled

_EXPANDING = re.compile(r"\(__\[POSTCOMPILE_(\w+)\]\)")
_BINDS = {None: "", column_values.bind_time: "time", column_values.bind_id: "id"}
_READS = {None: "", column_values.read_time: "time", column_values.read_id: "id"}
"""What the driver calls our types' own conversions."""


def compiled(statement: Any, keys: Sequence[str]) -> Compiled:
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
