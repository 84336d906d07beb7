"""A SQL product that the store has no special form for: only what write-an-adapter.md names.

Its dialect is SQLAlchemy's of SQLite under another name, so that every branch on a product's name
takes the way of an unknown one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.base import SQLiteTypeCompiler
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from octopus_memory import StoreError, StoreUnavailable
from octopus_memory.adapters.stores.sql.store import SqlStore
from octopus_memory.adapters.stores.sql.transactions import READING
from octopus_memory.testing import StoreSuite

registry.register("fourth", __name__, "FourthDialect")


class _Types(SQLiteTypeCompiler):
    def visit_BIGINT(self, type_: Any, **_: Any) -> str:  # noqa: N802 - SQLAlchemy's name
        return "INTEGER"


class FourthDialect(SQLiteDialect_pysqlite):
    name = "fourth"
    supports_statement_cache = True
    type_compiler_cls = _Types


class FourthStore(SqlStore):
    def __init__(self, path: Path, **options: Any) -> None:
        self._path = path
        super().__init__(self._engine_of_path, **options)

    def _engine_of_path(self) -> sa.Engine:
        engine = sa.create_engine(f"fourth:///{self._path}", connect_args={"timeout": 30})

        @sa.event.listens_for(engine, "connect")
        def take_over_transactions(connection: Any, _record: object) -> None:
            connection.isolation_level = None

        @sa.event.listens_for(engine, "begin")
        def begin(conn: sa.Connection) -> None:
            reads = conn.get_execution_options().get(READING)
            conn.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

        return engine

    def translate(self, error: sa.exc.DBAPIError) -> StoreError:
        return StoreUnavailable(f"the database failed: {type(error.orig).__name__}")

    def size_bytes(self) -> int | None:
        return None

    def _rewrite(self) -> bool:
        with self._engine.connect() as conn:
            conn.connection.driver_connection.execute("VACUUM")  # type: ignore[union-attr]
        return True


class TestFourthStore(StoreSuite):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Iterator[list[FourthStore]]:
        stores = [FourthStore(tmp_path / "fourth.db")]
        yield stores
        stores[-1].close()

    @pytest.fixture
    def store(self, opened: list[FourthStore]) -> FourthStore:
        return opened[0]

    @pytest.fixture
    def reopen(self, opened: list[FourthStore], tmp_path: Path) -> Callable[[], FourthStore]:
        def again() -> FourthStore:
            opened[-1].close()
            opened.append(FourthStore(tmp_path / "fourth.db"))
            return opened[-1]

        return again
