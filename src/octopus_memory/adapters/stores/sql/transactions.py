"""Connections, transactions and errors of a SQL store."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
)

from ....domain.errors import StoreCorrupt, StoreError
from ....ports.models import Clock
from . import column_values
from .lazy import Connection, Result, Statement, sa
from .seals import OFF, Seals

if TYPE_CHECKING:
    from .key_ring import KeyRing

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=Connection)
READING = "octopus_reading"
"""The execution option of read-only connections."""
_RETRIES = 8


class Every(Enum):
    """The reach of the operator's own transactions: the worker's, retention's, statistics."""

    TENANT = "every tenant"


class Person(NamedTuple):
    """The reach of a call about one user, whose rows a distributed database has on one node."""

    tenant: str
    user: str


class KeptPerson(Person):
    """One whose name is as the rows have it: hashed, where scopes have keys."""


Reach: TypeAlias = str | Every | Person
"""The tenant whose rows a transaction may touch, or every tenant. None is refused."""


class CoreConnection:
    """Executes statements on a SQLAlchemy connection."""

    is_placed = False

    def __init__(self, core: sa.Connection) -> None:
        self._core = core
        self.product = core.dialect.name
        self.seals: Seals = OFF

    def execute(self, statement: Statement[Any] | sa.Executable, given: Any = None) -> Result:
        made = statement() if isinstance(statement, Statement) else statement
        return self._core.execute(made, given)

    def insert(
        self,
        statement: Statement[Any] | sa.Executable,
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        self.execute(statement, [dict(zip(names, row, strict=True)) for row in rows])


class Transactions(ABC):
    """Runs statement functions, each in a transaction of its own."""

    def __init__(
        self,
        make_engine: Callable[[], sa.Engine],
        *,
        clock: Clock | None = None,
        ring: KeyRing | None = None,
    ) -> None:
        """`make_engine` is called on first use, because most calls on SQLite need no engine.

        `ring` has the keys of scopes; None seals nothing.
        """
        self._make_engine = make_engine
        self._ring = ring
        self._making_engine = threading.Lock()
        self._made_engine: sa.Engine | None = None
        self._clock = clock

    @property
    def _engine(self) -> sa.Engine:
        if self._made_engine is None:
            with self._making_engine:
                self._made_engine = self._made_engine or self._make_engine()
        return self._made_engine

    @property
    def _schema_engine(self) -> sa.Engine:
        """The engine whose transactions define tables."""
        return self._engine

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
        check_reach(reach)
        if self._ring is None:
            return self._write_once(reach, do, *args, **named)
        return self._ring.run(lambda: self._write_once(reach, do, *args, **named))

    def _write_once(
        self,
        reach: Reach,
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Run a transaction, without fetching keys for it."""
        with self._translated():
            return self._retried(lambda: self._attempt_write(reach, do, *args, **named))

    def _sealing(self) -> Callable[[C], C]:
        """A function that gives the seals of the present call to a connection, in any thread."""
        if self._ring is None:
            return _unchanged
        from .key_ring import ScopeSeals

        ring, held = self._ring, self._ring.held

        def seal(conn: C) -> C:
            conn.seals = ScopeSeals(conn, ring, held)
            return conn

        return seal

    def _retried(self, attempt: Callable[[], T]) -> T:
        """Run a transaction, again if it lost a race."""
        for tries in range(1, _RETRIES + 1):
            try:
                return attempt()
            except sa.exc.DBAPIError as error:
                if tries == _RETRIES or not self.lost_race(error):
                    raise
            import random

            time.sleep(random.uniform(0, 0.0025 * 2**tries))  # noqa: S311 - only spreads
        raise AssertionError

    def _read(
        self,
        reach: Reach,
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        check_reach(reach)
        if self._ring is None:
            return self._read_once(reach, do, *args, **named)
        return self._ring.run(lambda: self._read_once(reach, do, *args, **named))

    def _read_once(
        self,
        reach: Reach,
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        with self._translated():
            return self._attempt_read(reach, do, *args, **named)

    def change_schema(self, do: Callable[..., T], *args: Any) -> T:
        """Run `do` on a SQLAlchemy connection, in a transaction for all tenants."""

        def attempt() -> T:
            with self._schema_engine.begin() as conn:
                return do(conn, *args)

        with self._translated():
            return self._retried(attempt)

    def _attempt_write(
        self,
        reach: Reach,  # noqa: ARG002 - for products with row-level security
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Run `do` in one transaction, without a retry."""
        with self._engine.begin() as conn:
            return do(self._sealing()(CoreConnection(conn)), *args, **named)

    def _attempt_read(
        self,
        reach: Reach,  # noqa: ARG002 - for products with row-level security
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        with self._reader.connect() as conn:
            return do(self._sealing()(CoreConnection(conn)), *args, **named)


def _unchanged(conn: C) -> C:
    return conn


def check_reach(reach: Reach) -> None:
    if not isinstance(reach, str | Every | Person):
        raise TypeError("a transaction must name a tenant")
