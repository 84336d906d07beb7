"""One driver call at a time, where Microsoft's driver is not safe with several threads.

On arm64, `msodbcsql` 18 corrupts its memory when two threads use encrypted connections at once,
each its own: the process dies or hangs, or a read returns wrong rows. Reported as issues 668, 679
and 685 of mssql-python, for pyodbc too, because both load the same library.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Mapping
from typing import Any

from ....domain.errors import InvalidSetting

MODES = ("auto", "always", "never")
_ARM = frozenset({"arm64", "aarch64"})
_PLAIN = frozenset({"no", "optional", "false", "0"})
_driver = threading.RLock()
"""Held during each call, by every connection of this process."""
_CALLS = frozenset(
    {
        *("cursor", "commit", "rollback", "close", "execute", "executemany", "fetchone"),
        *("fetchall", "fetchmany", "nextset", "setinputsizes"),
    }
)


def is_needed(mode: str, options: Mapping[str, str], machine: str | None = None) -> bool:
    """Return whether calls are to be made one at a time; `options` are those of the URL.

    :raises InvalidSetting: for an unknown mode
    """
    if mode not in MODES:
        raise InvalidSetting("sqlserver_serialize", f"must be one of {', '.join(MODES)}")
    if mode != "auto":
        return mode == "always"
    given = {name.lower(): value.lower() for name, value in options.items()}
    # The driver encrypts unless it is told not to.
    is_encrypted = given.get("encrypt", "yes") not in _PLAIN
    return is_encrypted and (machine or platform.machine()).lower() in _ARM


class Serial:
    """A connection or cursor of the driver whose calls wait for those of other threads."""

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "_inner", inner)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return _Call(found) if name in _CALLS else found

    def __setattr__(self, name: str, value: Any) -> None:
        with _driver:
            setattr(self._inner, name, value)


class _Call:
    def __init__(self, call: Any) -> None:
        self._call = call

    def __call__(self, *args: Any, **named: Any) -> Any:
        with _driver:
            made = self._call(*args, **named)
        return Serial(made) if hasattr(made, "fetchone") and hasattr(made, "execute") else made


def connect(open_connection: Any, *args: Any, **named: Any) -> Serial:
    """Open a connection whose calls, as this one, are made one at a time."""
    with _driver:
        return Serial(open_connection(*args, **named))
