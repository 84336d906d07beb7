"""A cache of PostgreSQL's compiled statements that all stores of a test run share.

A new store compiles each statement at its first use, which would take a third of a test's time.
SQLite's stores share theirs anyway. SQL Server's are left out, because tests change what its
dialect makes of a statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import sqlalchemy as sa

from octopus_memory.adapters.stores.postgres import driver


@contextmanager
def share_compiled_statements() -> Iterator[None]:
    shared: list[driver.Statements] = []
    ours, make = cast("Any", driver), driver.Statements

    def make_once(dialect: sa.Dialect) -> driver.Statements:
        if not shared:
            shared.append(make(dialect))
        return shared[0]

    ours.Statements = make_once
    try:
        yield
    finally:
        ours.Statements = make
