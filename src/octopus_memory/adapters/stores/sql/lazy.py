"""Lazy imports of SQLAlchemy, and statements with names.

Hot calls on SQLite never import SQLAlchemy: their statements were compiled when the package was
built, and are looked up by name (`sqlite/compiled.py`). This module is the only one that statement
authors need: `@sql` names a statement, `@hot_read` and its siblings mark a call.
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
    "Hot",
    "Statement",
    "hot_mode",
    "hot_read",
    "hot_snapshot",
    "hot_write",
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
        """A module that is imported on first use."""

        def __getattr__(self, name: str) -> Any:
            return getattr(load(self.__name__), name)

    sa = _Later("sqlalchemy")
    schema, types = _Later(f"{__package__}.schema"), _Later(f"{__package__}.types")


_loaded: dict[str, ModuleType] = {}


def load(name: str) -> ModuleType:
    """Import a module completely, even if a signal arrives meanwhile."""
    known = _loaded.get(name)
    if known is None:
        # Signals are raised in the main thread, and one during an import would leave half a module.
        if threading.current_thread() is threading.main_thread():
            loading = threading.Thread(target=_import, args=(name,))
            # A process that is exiting cannot start a thread; import in this one then.
            with suppress(RuntimeError):
                loading.start()
                loading.join()
        known = _loaded[name] = import_module(name)
    return known


def _import(name: str) -> None:
    # The caller imports it as well, and gets the error there.
    with suppress(Exception):
        import_module(name)


class Statement(Generic[T]):
    """A statement with a name, built on first use."""

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
    """Name a statement after its module and function."""
    return Statement(_name(make), make)


def sql_for(make: Callable[P, T]) -> Callable[P, Statement[T]]:
    """As `sql`, for a family of statements: one for each set of arguments."""

    @cache
    def named(*args: Any) -> Statement[Any]:
        return Statement(f"{_name(make)}{args}", partial(make, *args))

    return cast("Callable[P, Statement[T]]", named)


def _name(make: Callable[..., Any]) -> str:
    return f"{make.__module__.removeprefix(f'{__package__}.')}.{make.__name__}"


class Hot(Enum):
    """Modes of a hot call, which runs named statements on the driver, without SQLAlchemy."""

    READ = "read"
    """Without a transaction: the call needs no common snapshot of its statements."""
    SNAPSHOT = "snapshot"
    WRITE = "write"


_hot: dict[Callable[..., Any], Hot] = {}


def hot_read(do: Callable[P, T]) -> Callable[P, T]:
    """Mark a hot read of named statements that need no common snapshot."""
    _hot[do] = Hot.READ
    return do


def hot_snapshot(do: Callable[P, T]) -> Callable[P, T]:
    """Mark a hot read of named statements that must see one snapshot."""
    _hot[do] = Hot.SNAPSHOT
    return do


def hot_write(do: Callable[P, T]) -> Callable[P, T]:
    """Mark a hot write of named statements."""
    _hot[do] = Hot.WRITE
    return do


def hot_mode(do: Callable[..., Any]) -> Hot | None:
    """The mode of a hot call; None for a call that runs on a SQLAlchemy connection."""
    return _hot.get(do)


class Connection:
    """Executes statements on a SQLAlchemy connection."""

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
        """Insert rows of these columns."""
        self.execute(statement, [dict(zip(names, row, strict=True)) for row in rows])


def results_of(conn: Connection, *asked: Asked) -> list[Any]:
    """Execute independent statements; PostgreSQL pipelines them in one round trip."""
    # A product with one open result at a time buffers it in its dialect.
    return [conn.execute(statement, given) for statement, given in asked]
