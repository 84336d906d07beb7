"""Parameter types for `setinputsizes` of the driver.

Without them the driver types each parameter by its value (`varbinary(5)`, `smallint`), so that the
server compiles a statement again for nearly every length. Here a parameter has the type of its
column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

_TYPE = re.compile(r"(\w+)(?:\((\w+)\))?")
_MAX = 0
"""The size that means `max`."""

# ODBC's type codes.
_BIT, _SMALLINT, _INTEGER, _BIGINT = -7, 5, 4, -5
_NVARCHAR, _VARBINARY, _GUID, _DATETIMEOFFSET = -9, -3, -11, -155


class Declared(NamedTuple):
    """The type of a parameter."""

    odbc: int
    size: int = 0
    digits: int = 0


_FIXED: Mapping[str, Declared] = {
    "BIT": Declared(_BIT, 1),
    "SMALLINT": Declared(_SMALLINT, 5),
    "INTEGER": Declared(_INTEGER, 10),
    "BIGINT": Declared(_BIGINT, 19),
    "UNIQUEIDENTIFIER": Declared(_GUID, 16),
}
_SIZED: Mapping[str, int] = {"NVARCHAR": _NVARCHAR, "VARBINARY": _VARBINARY}
_LARGEST: Mapping[int, int] = {_SMALLINT: 2**15 - 1, _INTEGER: 2**31 - 1}
_BY_VALUE: tuple[tuple[type, Declared], ...] = (
    # bool first, because it is a subclass of int.
    (bool, _FIXED["BIT"]),
    (int, _FIXED["BIGINT"]),
    (str, Declared(_NVARCHAR, _MAX)),
    (bytes, Declared(_VARBINARY, _MAX)),
    (UUID, _FIXED["UNIQUEIDENTIFIER"]),
    (datetime, Declared(_DATETIMEOFFSET, 33, 6)),
)


def declared(words: str) -> Declared | None:
    """The type of a T-SQL name such as `VARBINARY(401)`; None for one that no column has."""
    found = _TYPE.match(words)
    name, size = found.groups() if found else ("", None)
    if name in _SIZED:
        return Declared(_SIZED[name], _MAX if size in {None, "max"} else int(size))
    if name == "DATETIMEOFFSET":
        digits = 7 if size is None else int(size)
        # The length of "2025-03-14 09:22:00.123456 +00:00".
        return Declared(_DATETIMEOFFSET, 26 + (digits and digits + 1), digits)
    return _FIXED.get(name)


def bind(kind: Declared | None, value: Any) -> tuple[Declared, Any]:
    """The declared type, and the value as the driver takes it.

    A value that its column cannot hold gets a wider type, because the driver would truncate it. The
    server then compares it correctly, or refuses to store it.
    """
    kind = kind or _of_value(value)
    if value is None:
        return kind, None
    if kind.odbc == _GUID:
        return kind, value.bytes_le
    if kind.odbc == _BIT:
        return kind, bool(value)
    return (kind if _fits(kind, value) else _of_value(value)), value


def _of_value(value: Any) -> Declared:
    for known, kind in _BY_VALUE:
        if isinstance(value, known):
            return kind
    # NULL converts to every type but bytes.
    return Declared(_NVARCHAR, 1)


def _fits(kind: Declared, value: Any) -> bool:
    if kind.odbc in _LARGEST:
        largest = _LARGEST[kind.odbc]
        return bool(-largest - 1 <= value <= largest)
    if kind.size == _MAX or kind.odbc not in _SIZED.values():
        return True
    # A character beyond the basic plane counts twice.
    if kind.odbc == _VARBINARY or 2 * len(value) <= kind.size:
        return len(value) <= kind.size
    return len(value.encode("utf-16-le", "surrogatepass")) <= 2 * kind.size
