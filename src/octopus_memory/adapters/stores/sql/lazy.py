"""Lazy imports of SQLAlchemy, and statements with names.

The common calls on SQLite never import SQLAlchemy: their statements have names, were compiled when
the package was built, and are looked up by name (`sqlite/compiled.py`). This module is the only one
that statement authors need: `@sql` names a statement, `@without_snapshot` marks a read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast

__all__ = [
    "Asked",
    "Connection",
    "ImportNeeded",
    "Result",
    "Statement",
    "load",
    "load_compiler",
    "needs_snapshot",
    "no_imports",
    "results_of",
    "sa",
    "schema",
    "sql",
    "sql_for",
    "types",
    "without_snapshot",
]

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    import sqlalchemy as sa

    from . import schema, types
    from .seals import Seals
else:

    class _Later(ModuleType):
        """A module that is imported on first use."""

        def __getattr__(self, name: str) -> Any:
            return getattr(load(self.__name__), name)

    sa = _Later("sqlalchemy")
    schema, types = _Later(f"{__package__}.schema"), _Later(f"{__package__}.types")


_loaded: dict[str, ModuleType] = {}


class ImportNeeded(Exception):
    """A call inside `no_imports` needs SQLAlchemy, which is not imported yet."""


_importing = threading.local()


@contextmanager
def no_imports() -> Iterator[None]:
    """Raise `ImportNeeded` instead of importing, in this thread: others wait for its lock."""
    _importing.is_refused = True
    try:
        yield
    finally:
        _importing.is_refused = False


def load_compiler() -> None:
    """Import everything that building and compiling a statement needs."""
    for module in (sa, schema, types):
        load(module.__name__)
    load("sqlalchemy.dialects.sqlite")


def load(name: str) -> ModuleType:
    """Import a module completely, even if a signal arrives meanwhile.

    :raises ImportNeeded: inside `no_imports`
    """
    known = _loaded.get(name)
    if known is None:
        if getattr(_importing, "is_refused", False):
            raise ImportNeeded(name)
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


_without_snapshot: set[Callable[..., Any]] = set()


def without_snapshot(do: Callable[P, T]) -> Callable[P, T]:
    """Mark a read whose statements need no common snapshot, so that it runs without BEGIN."""
    _without_snapshot.add(do)
    return do


def needs_snapshot(do: Callable[..., Any]) -> bool:
    """True if all statements of a read must see the database at one moment."""
    return do not in _without_snapshot


class Result(Protocol):
    """The part of SQLAlchemy's result that statements may use. Every product has it."""

    @property
    def rowcount(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def all(self) -> Sequence[Any]: ...

    def fetchall(self) -> Iterable[tuple[Any, ...]]:
        """All rows, perhaps without the names of columns: drivers build these faster."""
        ...

    def partitions(self, size: int) -> Iterable[Sequence[Any]]:
        """The rows, `size` at a time, where all of them may not fit into memory."""
        ...

    def mappings(self) -> Iterable[Mapping[Any, Any]]: ...

    def scalars(self) -> Iterable[Any]: ...

    def first(self) -> Any: ...

    def one(self) -> Any: ...

    def one_or_none(self) -> Any: ...

    def scalar(self) -> Any: ...

    def scalar_one(self) -> Any: ...

    def close(self) -> None: ...


class Connection(Protocol):
    """Executes statements inside a transaction."""

    seals: Seals
    """What seals and opens the values of each scope."""

    @property
    def product(self) -> str: ...

    def execute(self, statement: Statement[Any] | sa.Executable, given: Any = None) -> Result: ...

    def insert(
        self,
        statement: Statement[Any] | sa.Executable,
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        """Insert rows of these columns."""
        ...


def results_of(conn: Connection, *asked: Asked) -> list[Result]:
    """Execute independent statements; PostgreSQL pipelines them in one round trip."""
    # A product with one open result at a time buffers it in its dialect.
    return [conn.execute(statement, given) for statement, given in asked]
