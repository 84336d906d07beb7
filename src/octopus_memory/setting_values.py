"""Parsers for the values of settings from the environment, a file or a caller."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_FALSE = frozenset({"0", "off", "f", "false", "n", "no"})


class Secret:
    """A value that is hidden in output; `get_secret_value` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "**********" if self._value else ""


def as_text(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError("must be text")
    return given


def as_table(given: Any) -> dict[str, Any]:
    """Parse a table, or JSON from the environment."""
    table = as_json(given)
    if not isinstance(table, Mapping):
        raise ValueError("must be a table of settings")
    return dict(table)


def as_json(given: Any) -> Any:
    """Parse JSON; other text is returned unchanged."""
    try:
        return json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return given


def _secret(given: Any) -> Secret:
    return given if isinstance(given, Secret) else Secret(as_text(given))


def _switch(given: Any) -> bool:
    word = str(given).lower()
    if word not in _TRUE | _FALSE:
        raise ValueError("must be true or false")
    return word in _TRUE


def _whole(given: Any) -> int:
    number = _number(given, "a whole number")
    if not number.is_integer():
        raise ValueError("must be a whole number")
    return int(number)


def _number(given: Any, kind: str = "a number") -> float:
    try:
        number = math.nan if isinstance(given, bool) else float(given)
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"must be {kind}")
    return number


READERS: Mapping[type, Callable[[Any], Any]] = {
    bool: _switch,
    dict: as_table,
    float: _number,
    int: _whole,
    str: as_text,
    Secret: _secret,
}


def setting(
    kind: type,
    default: Any = None,
    *,
    least: int | None = None,
    most: int | None = None,
    above: int | None = None,
    also: str | None = None,
) -> Any:
    """Declare a field with a type, bounds, or a second environment variable `also`."""

    def read(given: Any) -> Any:
        value = READERS[kind](given)
        if least is not None and value < least:
            raise ValueError(f"must be at least {least:,}")
        if most is not None and value > most:
            raise ValueError(f"must be at most {most:,}")
        if above is not None and not value > above:
            raise ValueError(f"must be above {above}")
        return value

    return field(default=default, metadata={"read": read, "also": also})
