"""The identity of the database file, to notice that it was removed or replaced."""

from __future__ import annotations

import os
from pathlib import Path

from ....domain.errors import StoreUnavailable

_Identity = tuple[int, int]
"""Device and inode."""


class FileIdentity:
    """Compares the file at a path with the one that was opened.

    A connection keeps working on a file without a name: SQLite reports nothing, and commits are
    lost with the last connection. Thread-safe.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._name = path.name
        self._opened: _Identity | None = None

    @property
    def is_known(self) -> bool:
        return self._opened is not None

    def note(self) -> None:
        """Record the open file, on the first call only."""
        if self._opened is None:
            self._opened = self._now()

    def check(self) -> None:
        """:raises StoreUnavailable: when the path names another file, or none"""
        if self._opened is None or self._opened == (found := self._now()):
            return
        done = "removed" if found is None else "replaced"
        raise StoreUnavailable(
            f"{self._name}: the file was {done} while it was open, and nothing is stored in the "
            "old one: put it back, or open the memory again"
        )

    def _now(self) -> _Identity | None:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - asked for with every call
        except OSError:
            return None
        return found.st_dev, found.st_ino
