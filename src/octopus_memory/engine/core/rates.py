"""Calls of this process by the minute, over the last hour."""

from __future__ import annotations

import functools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, NamedTuple, ParamSpec, TypeVar

from ...domain.errors import Conflict, InvalidInput, NotFound

P = ParamSpec("P")
R = TypeVar("R")

MINUTES = 60
"""Minutes that are kept."""
_MOST_TENANTS = 1_000
_CALLERS_FAULT = (InvalidInput, NotFound, Conflict)


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


class _Ring:
    """Counts of the last `MINUTES` minutes; a slot is reused when its minute comes around."""

    __slots__ = ("_counts", "_minutes")

    def __init__(self) -> None:
        self._minutes = [0] * MINUTES
        self._counts = [[0] * len(Rate) for _ in range(MINUTES)]

    def add(self, minute: int, rate: Rate, number: int) -> None:
        slot = minute % MINUTES
        if self._minutes[slot] != minute:
            self._minutes[slot] = minute
            self._counts[slot] = [0] * len(Rate)
        self._counts[slot][rate] += number

    def at(self, minute: int) -> list[int]:
        slot = minute % MINUTES
        return self._counts[slot] if self._minutes[slot] == minute else [0] * len(Rate)


class Rates:
    """Counts calls of this process by minute and tenant. Thread-safe and bounded.

    Other processes that use the same database count their own calls.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._total = _Ring()
        self._tenants: OrderedDict[str, _Ring] = OrderedDict()
        self.since = datetime.fromtimestamp(now(), UTC)
        """Start of the counting."""

    def count(self, tenant: str, rate: Rate, number: int = 1) -> None:
        minute = int(self._now() // 60)
        with self._lock:
            ring = self._tenants.get(tenant)
            if ring is None:
                ring = self._tenants[tenant] = _Ring()
                if len(self._tenants) > _MOST_TENANTS:
                    self._tenants.popitem(last=False)
            else:
                self._tenants.move_to_end(tenant)
            ring.add(minute, rate, number)
            self._total.add(minute, rate, number)

    def minutes(self, tenant: str | None = None) -> list[Minute]:
        """Return the last hour of a tenant, or of all for None, oldest minute first.

        The last minute is the current one, so it is not over yet.
        """
        last = int(self._now() // 60)
        with self._lock:
            ring = self._total if tenant is None else self._tenants.get(tenant) or _Ring()
            return [
                Minute(datetime.fromtimestamp(minute * 60, UTC), *ring.at(minute))
                for minute in range(last - MINUTES + 1, last + 1)
            ]


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
