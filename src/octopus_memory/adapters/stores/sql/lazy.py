"""What loads SQLAlchemy, made by whoever first needs it.

SQLite's hot calls do not: the texts of their statements were compiled beforehand, and are found by
the statements' names (`sqlite/texts.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar, cast

__all__ = [
    "Asked",
    "Connection",
    "Direct",
    "Statement",
    "direct_mode",
    "direct_read",
    "direct_snapshot",
    "direct_write",
    "load",
    "results_of",
    "sa",
    "schema",
    "sql",
    "sql_for",
    "types",
]

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    import sqlalchemy as sa

    from . import schema, types
else:

    class _Later(ModuleType):
        """A module that is imported when something of it is asked for."""

        def __getattr__(self, name: str) -> Any:
            return getattr(load(self.__name__), name)

    sa = _Later("sqlalchemy")
    schema, types = _Later(f"{__package__}.schema"), _Later(f"{__package__}.types")


_loaded: dict[str, ModuleType] = {}


def load(name: str) -> ModuleType:
    """The module, imported whole whatever comes in between."""
    known = _loaded.get(name)
    if known is None:
        # Signals are raised in the main thread, and one amid an import would leave a half of it.
        if threading.current_thread() is threading.main_thread():
            loading = threading.Thread(target=_import, args=(name,))
            # A process that is about to end starts no thread any more, and does without.
            with suppress(RuntimeError):
                loading.start()
                loading.join()
        known = _loaded[name] = import_module(name)
    return known


def _import(name: str) -> None:
    # Whoever waits for it imports it as well, and meets the error there.
    with suppress(Exception):
        import_module(name)


class Statement(Generic[T]):
    """A statement, known by its name; it is made when it is first called for."""

    def __init__(self, name: str, make: Callable[[], T]) -> None:
        self.name = name
        self._make = make
        self._made: T | None = None

    def __call__(self) -> T:
        if self._made is None:
            self._made = self._make()
        return self._made


Asked: TypeAlias = tuple[Statement[Any], dict[str, Any]]
"""A statement and its parameters."""


def sql(make: Callable[[], T]) -> Statement[T]:
    """A statement that is named after the function which makes it, and its module."""
    return Statement(_name(make), make)


def sql_for(make: Callable[P, T]) -> Callable[P, Statement[T]]:
    """The same, for one statement with each set of arguments."""

    @cache
    def named(*args: Any) -> Statement[Any]:
        return Statement(f"{_name(make)}{args}", partial(make, *args))

    return cast("Callable[P, Statement[T]]", named)


def _name(make: Callable[..., Any]) -> str:
    return f"{make.__module__.removeprefix(f'{__package__}.')}.{make.__name__}"


class Direct(Enum):
    """How a call that uses named statements alone runs on the driver, without SQLAlchemy."""

    READ = "read"
    """Without a transaction: the call needs no common snapshot of its statements."""
    SNAPSHOT = "snapshot"
    WRITE = "write"


_direct: dict[Callable[..., Any], Direct] = {}


def direct_read(do: Callable[P, T]) -> Callable[P, T]:
    """Mark a read of named statements that need no common snapshot."""
    _direct[do] = Direct.READ
    return do


def direct_snapshot(do: Callable[P, T]) -> Callable[P, T]:
    """Mark a read of named statements that must see one snapshot."""
    _direct[do] = Direct.SNAPSHOT
    return do


def direct_write(do: Callable[P, T]) -> Callable[P, T]:
    """Mark a write of named statements."""
    _direct[do] = Direct.WRITE
    return do


def direct_mode(do: Callable[..., Any]) -> Direct | None:
    """How a store with a driver of its own runs `do`; None for SQLAlchemy's connection."""
    return _direct.get(do)


class Connection:
    """Executes statements on a connection of SQLAlchemy's, which knows nothing of `Statement`."""

    def __init__(self, core: sa.Connection) -> None:
        self.core = core
        self.product = core.dialect.name

    def execute(
        self, statement: Statement[Any] | sa.Executable, given: Any = None
    ) -> sa.CursorResult[*tuple[Any, ...]]:
        made = statement() if isinstance(statement, Statement) else statement
        return self.core.execute(made, given)

    def insert(
        self,
        statement: Statement[Any] | sa.Executable,
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        """Rows of these columns; SQLAlchemy needs the name at each value."""
        self.execute(statement, [dict(zip(names, row, strict=True)) for row in rows])


def results_of(conn: Connection, *asked: Asked) -> list[Any]:
    """Of statements of which none needs what another gives; PostgreSQL gets them in one trip."""
    # Where a product can have but one result open, its dialect reads it at once.
    return [conn.execute(statement, given) for statement, given in asked]
