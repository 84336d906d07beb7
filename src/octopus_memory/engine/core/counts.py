"""Counts of calls by the minute, over the last hour, and of the background work."""

from __future__ import annotations

import functools
import mmap
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from enum import IntEnum
from hashlib import blake2b
from pathlib import Path
from tempfile import mkstemp
from typing import Any, NamedTuple, ParamSpec, TypeVar

from ...domain.errors import Conflict, InvalidInput, NotFound
from ...ports.recall_rows import WorkKind

P = ParamSpec("P")
R = TypeVar("R")

MINUTES = 60
"""Minutes that are kept."""
_MOST_TENANTS = 1_000
_CALLERS_FAULT = (InvalidInput, NotFound, Conflict)
_SUFFIX = ".counts"


class Rate(IntEnum):
    """A series of counts."""

    MESSAGES = 0
    RECALLS = 1
    ERRORS = 2
    """Calls that failed because of the database, a model or a defect, not of the caller."""


class Minute(NamedTuple):
    """Counts of one minute."""

    at: datetime
    messages: int
    recalls: int
    errors: int


# The counts of a process are one array of integers: the start, the work that was done and failed by
# kind, the minutes of all tenants, then a key and the minutes of each tenant. A minute has its
# number and its counts; its place is reused when the minute comes around.
_KINDS = {kind: 1 + 2 * place for place, kind in enumerate(WorkKind)}
_MINUTE = 1 + len(Rate)
_RING = MINUTES * _MINUTE
_ALL = 1 + 2 * len(WorkKind)
_FIRST_TENANT = _ALL + _RING
_TENANT = 1 + _RING
_BYTES = 8 * (_FIRST_TENANT + _MOST_TENANTS * _TENANT)


class Counts:
    """Counts calls by minute and tenant, and background work by kind. Thread-safe and bounded.

    Processes that `share` a folder read the sum of their counts, of ended ones too.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._cells = _cells(-1)
        self._cells[0] = int(now())
        self._tenants: OrderedDict[str, int] = OrderedDict()
        self._folder: Path | None = None
        self._file: Path | None = None

    def share(self, folder: Path) -> None:
        """Count in a file of `folder` from now on, and read the sum of all files in it."""
        if self._folder == folder:
            return
        handle, name = mkstemp(_SUFFIX, f"{os.getpid()}-", folder)
        with os.fdopen(handle, "r+b") as file:
            file.truncate(_BYTES)
            mapped = _cells(file.fileno())
        with self._lock:
            used = _FIRST_TENANT + len(self._tenants) * _TENANT
            mapped[:used] = self._cells[:used]
            self._cells, self._folder, self._file = mapped, folder, Path(name)

    @property
    def since(self) -> datetime:
        """Start of the counting."""
        return datetime.fromtimestamp(min(cells[0] for cells in self._shared()), UTC)

    def count(self, tenant: str, rate: Rate, number: int = 1) -> None:
        """Add to a tenant's calls of the current minute."""
        minute = int(self._now() // 60)
        with self._lock:
            for ring in (_ALL, self._place(tenant) + 1):
                at = ring + minute % MINUTES * _MINUTE
                if self._cells[at] != minute:
                    self._cells[at : at + _MINUTE] = _empty(_MINUTE)
                    self._cells[at] = minute
                self._cells[at + 1 + rate] += number

    def _place(self, tenant: str) -> int:
        """Return where the cells of a tenant begin; the one that rested longest makes room."""
        place = self._tenants.get(tenant)
        if place is not None:
            self._tenants.move_to_end(tenant)
            return place
        place = _FIRST_TENANT + len(self._tenants) * _TENANT
        if len(self._tenants) == _MOST_TENANTS:
            _, place = self._tenants.popitem(last=False)
        self._tenants[tenant] = place
        self._cells[place : place + _TENANT] = _empty(_TENANT)
        self._cells[place] = _key(tenant)
        return place

    def minutes(self, tenant: str | None = None) -> list[Minute]:
        """Return the last hour of a tenant, or of all for None, oldest minute first.

        The last minute is the current one, so it is not over yet.
        """
        last = int(self._now() // 60)
        found = {minute: [0] * len(Rate) for minute in range(last - MINUTES + 1, last + 1)}
        for cells in self._shared():
            for ring in [_ALL] if tenant is None else _rings(cells, tenant):
                for at in range(ring, ring + _RING, _MINUTE):
                    if (counts := found.get(cells[at])) is not None:
                        for rate in Rate:
                            counts[rate] += cells[at + 1 + rate]
        return [Minute(datetime.fromtimestamp(at * 60, UTC), *n) for at, n in found.items()]

    def count_work(self, kind: WorkKind, *, done: int = 0, failed: int = 0) -> None:
        """Add to a kind of work; `failed` counts attempts, so one piece may count repeatedly."""
        with self._lock:
            self._cells[_KINDS[kind]] += done
            self._cells[_KINDS[kind] + 1] += failed

    def work(self) -> dict[WorkKind, tuple[int, int]]:
        """Return the finished pieces and the failed attempts of each kind."""
        shared = self._shared()
        return {
            kind: (sum(cells[at] for cells in shared), sum(cells[at + 1] for cells in shared))
            for kind, at in _KINDS.items()
        }

    def _shared(self) -> list[memoryview]:
        """Return the cells of this process, and of those that it shares its folder with."""
        found = [self._cells]
        if self._folder is not None:
            for path in self._folder.glob(f"*{_SUFFIX}"):
                if path != self._file and path.stat().st_size == _BYTES:
                    with path.open("rb") as file:
                        found.append(_cells(file.fileno(), mmap.ACCESS_READ))
        return found


def _cells(file: int, access: int = mmap.ACCESS_WRITE) -> memoryview:
    """Return the cells of a file, or for -1 of nothing but memory, which takes what is used."""
    return memoryview(mmap.mmap(file, _BYTES, access=access)).cast("q")


def _empty(cells: int) -> memoryview:
    return memoryview(bytes(8 * cells)).cast("q")


def _key(tenant: str) -> int:
    digest = blake2b(tenant.encode("utf-8", "surrogatepass"), digest_size=7).digest()
    return int.from_bytes(digest) or 1


def _rings(cells: memoryview, tenant: str) -> list[int]:
    key, end = _key(tenant), _FIRST_TENANT + _MOST_TENANTS * _TENANT
    return [at + 1 for at in range(_FIRST_TENANT, end, _TENANT) if cells[at] == key]


def counted(
    rate: Rate, number: Callable[[Any], int] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Count the calls of a scope's method, or `number` of each result, and their errors."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            scope: Any = args[0]
            try:
                result = method(*args, **kwargs)
            except _CALLERS_FAULT:
                raise
            except Exception:
                scope._count(Rate.ERRORS, 1)  # noqa: SLF001 - a part of its class
                raise
            scope._count(rate, 1 if number is None else number(result))  # noqa: SLF001
            return result

        return call

    return decorate
