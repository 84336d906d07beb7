"""Connections, transactions and errors of a SQL store."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

from ....domain.errors import StoreCorrupt, StoreError
from ....ports.models import Clock
from . import column_values
from .lazy import Connection, sa

P = ParamSpec("P")
T = TypeVar("T")
READING = "octopus_reading"
"""The execution option of read-only connections."""
REACH = "octopus_reach"
"""The execution option with the tenant whose rows a transaction may touch."""
_RETRIES = 8


class Every(Enum):
    """The reach of the operator's own transactions: the worker's, retention's, statistics."""

    TENANT = "every tenant"


Reach: TypeAlias = str | Every
"""The tenant whose rows a transaction may touch, or every tenant. None is refused."""


class Transactions:
    """Runs statement functions, each in a transaction of its own."""

    def __init__(self, make_engine: Callable[[], sa.Engine], *, clock: Clock | None = None) -> None:
        """`make_engine` is called on first use, because most calls on SQLite need no engine."""
        self._make_engine = make_engine
        self._making_engine = threading.Lock()
        self._made_engine: sa.Engine | None = None
        self._clock = clock

    @property
    def _engine(self) -> sa.Engine:
        if self._made_engine is None:
            with self._making_engine:
                self._made_engine = self._made_engine or self._make_engine()
        return self._made_engine

    @cached_property
    def _reader(self) -> sa.Engine:
        return self._engine.execution_options(**{READING: True})

    @property
    def read_only(self) -> bool:
        return False

    @abstractmethod
    def translate(self, error: sa.exc.DBAPIError) -> StoreError:
        """The `StoreError` for a driver error."""

    def lost_race(self, error: sa.exc.DBAPIError) -> bool:  # noqa: ARG002 - for dialects to say
        """True if a concurrent transaction caused a rollback, so that this one is retried."""
        return False

    def _now(self) -> datetime:
        """The time by the clock that claims work, so that no item waits for a time far ahead."""
        return datetime.now(UTC) if self._clock is None else self._clock.now()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise self.translate(error) from error
        except UnicodeDecodeError as error:
            # On a damaged file the driver can fail to decode its own message.
            raise StoreCorrupt(column_values.DAMAGED) from error

    def _write(
        self,
        reach: Reach,
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        _check(reach)
        with self._translated():
            for attempt in range(_RETRIES):
                try:
                    return self._attempt_write(reach, do, *args, **named)
                except sa.exc.DBAPIError as error:
                    if attempt == _RETRIES - 1 or not self.lost_race(error):
                        raise
                import random

                time.sleep(random.uniform(0, 0.005 * 2**attempt))  # noqa: S311 - only spreads
        raise AssertionError

    def _read(
        self,
        reach: Reach,
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        _check(reach)
        with self._translated():
            return self._attempt_read(reach, do, *args, **named)

    def _attempt_write(
        self,
        reach: Reach,
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Run `do` in one transaction, without a retry."""
        with _within(self._engine, reach) as conn, conn.core.begin():
            return do(conn, *args, **named)

    def _attempt_read(
        self,
        reach: Reach,
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        with _within(self._reader, reach) as conn:
            return do(conn, *args, **named)


def _check(reach: Reach) -> None:
    if not isinstance(reach, str | Every):
        raise TypeError("a transaction must name a tenant")


@contextmanager
def _within(engine: sa.Engine, reach: Reach) -> Iterator[Connection]:
    with engine.connect() as conn:
        yield Connection(conn.execution_options(**{REACH: reach}))
