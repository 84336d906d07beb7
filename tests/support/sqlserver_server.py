"""The SQL Server that the tests were told to use.

    OCTOPUS_TEST_SQLSERVER_URL='sqlserver://sa:password@localhost:1433/master?TrustServerCertificate=yes'

The login must be allowed to create databases. Each process of the tests makes its own, whose
collation takes upper and lower case for the same, and drops them in the end.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property

import pytest
import sqlalchemy as sa

VARIABLE = "OCTOPUS_TEST_SQLSERVER_URL"


def given() -> SqlServer:
    """The server that the variable names; without one, the test is skipped."""
    url = os.environ.get(VARIABLE, "")
    if not url:
        pytest.skip(f"{VARIABLE} names no server")
    return SqlServer(url)


@contextmanager
def session(url: str) -> Iterator[Callable[[str], sa.CursorResult[object]]]:
    """Run statements outside any transaction."""
    from octopus_memory.adapters.stores.sqlserver.engine import Engines

    engine = Engines(url, pool_size=1, statement_seconds=60, connect_seconds=30).aside()
    with engine.connect() as conn:
        yield conn.exec_driver_sql
    engine.dispose()


class SqlServer:
    """A running server; a test gets a database with every table and no rows."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._idle: list[str] = []

    def of(self, database: str, **changes: str) -> str:
        """Return the URL of a database there, with another password and the like."""
        changed = sa.make_url(self.url).set(database=database, **changes)
        return changed.render_as_string(hide_password=False)

    @cached_property
    def version(self) -> str:
        with session(self.url) as run:
            return str(run("SELECT @@VERSION").scalar_one()).partition("\n")[0]

    def check_order_of_ids(self) -> None:
        """Skip a test that needs Microsoft's order of ids, by their last bytes first."""
        if not self.version.startswith("Microsoft"):
            pytest.skip(
                f"needs a Microsoft SQL Server, which orders ids so; this is {self.version}"
            )

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a database that no other test uses at the same time."""
        name = self._idle.pop() if self._idle else self._create()
        self._empty(name)
        yield self.of(name)
        self._idle.append(name)

    def _create(self) -> str:
        from octopus_memory.adapters.stores.sqlserver.store import SqlServerStore

        name = f"octopus_test_{secrets.token_hex(6)}"
        with session(self.url) as run:
            try:
                run(f"CREATE DATABASE {name} COLLATE Latin1_General_CI_AI")
            except sa.exc.DBAPIError:
                run(f"CREATE DATABASE {name}")
        SqlServerStore(self.of(name)).close()
        return name

    def _empty(self, name: str) -> None:
        from octopus_memory.adapters.stores.sql import schema

        with session(self.of(name)) as run:
            for table in schema.metadata.sorted_tables:
                run(f"TRUNCATE TABLE {table.name}")

    def close(self) -> None:
        if not self._idle:
            return
        with session(self.url) as run:
            for name in self._idle:
                with suppress(sa.exc.DBAPIError):
                    run(f"ALTER DATABASE {name} SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
                run(f"DROP DATABASE {name}")
