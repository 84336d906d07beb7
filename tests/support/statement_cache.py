"""A cache of compiled statements that all stores of a test run share.

A new store compiles each statement at its first use, which would take a third of a test's time.
The compiled text depends on the database product alone. SQL Server is left out, because tests
change what its dialect makes of a statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, cast

import sqlalchemy as sa

from octopus_memory.adapters.stores.sqlite import driver


class _Compiled(dict[Any, Any]):
    """SQLAlchemy's cache of one dialect object, shared per product and version."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_for_the_product(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(_for_the_product(key), compiled)


def _for_the_product(key: tuple[Any, ...]) -> tuple[Any, ...]:
    dialect, *rest = key
    assert isinstance(dialect, sa.Dialect)
    return (type(dialect), dialect.server_version_info, *rest)


@contextmanager
def share_compiled_statements() -> Iterator[None]:
    compiled, texts = _Compiled(), dict[Any, Any]()
    create, compile_ = sa.create_engine, driver._compiled

    @wraps(create)
    def create_engine(*args: Any, **options: Any) -> sa.Engine:
        engine = create(*args, **options)
        if engine.dialect.name != "mssql":
            engine.update_execution_options(compiled_cache=compiled)
        return engine

    def compile_once(statement: Any, keys: Sequence[str]) -> Any:
        key = statement, keys
        if key not in texts:
            texts[key] = compile_(statement, keys)
        return texts[key]

    sqlalchemy, ours = cast("Any", sa), cast("Any", driver)
    sqlalchemy.create_engine, ours._compiled = create_engine, compile_once
    try:
        yield
    finally:
        sqlalchemy.create_engine, ours._compiled = create, compile_
