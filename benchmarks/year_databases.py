"""The databases of the simulated year: location, size, CPU time of the server."""

from __future__ import annotations

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Sizes:
    rows: dict[str, int] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    """Return the bytes of each table without its indexes."""
    indexes: dict[str, int] = field(default_factory=dict)
    file: int = 0
    log: int = 0


class Database(ABC):
    name: str
    url: str

    @abstractmethod
    def sizes(self) -> Sizes: ...

    def server_cpu(self) -> float:
        """Return the CPU seconds of the database server so far."""
        return 0.0


class SqliteFile(Database):
    name = "SQLite"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "year.db"
        self.url = f"sqlite:///{self._path}"

    def sizes(self) -> Sizes:
        conn = sqlite3.connect(self._path)
        try:
            listed = conn.execute(
                "SELECT name, type, tbl_name FROM sqlite_schema WHERE tbl_name LIKE 'octopus_%'"
            ).fetchall()
            tables = [name for name, kind, _ in listed if kind == "table"]
            rows = {
                name: conn.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables
            }
            pages = self._pages(conn)
        finally:
            conn.close()
        log = Path(f"{self._path}-wal")
        return Sizes(
            rows=rows,
            tables={name: pages.get(name, 0) for name in tables},
            indexes={name: pages.get(name, 0) for name, kind, _ in listed if kind == "index"},
            file=self._path.stat().st_size,
            log=log.stat().st_size if log.exists() else 0,
        )

    @staticmethod
    def _pages(conn: sqlite3.Connection) -> dict[str, int]:
        """Return sizes; empty if SQLite was built without `dbstat`."""
        try:
            return dict(
                conn.execute("SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE").fetchall()
            )
        except sqlite3.OperationalError:
            return {}


class PostgresDatabase(Database):
    name = "PostgreSQL"

    def __init__(self, url: str, data: Path | None = None) -> None:
        self.url = url
        self._data = data

    def sizes(self) -> Sizes:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as conn:
            listed = conn.execute(_RELATIONS).fetchall()
            tables = {name: size for name, kind, size in listed if kind == "r"}
            return Sizes(
                rows={name: _count(conn, name) for name in tables},
                tables=tables,
                indexes={name: size for name, kind, size in listed if kind == "i"},
                file=sum(size for _, _, size in listed),
                log=_log_size(conn),
            )

    def server_cpu(self) -> float:
        """Return the CPU seconds of the server's local processes, including ended ones."""
        if self._data is None:
            return 0.0
        server = int((self._data / "postmaster.pid").read_text().split()[0])
        spent = sum(_ticks(server, with_children=True))
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and _parent(int(folder.name)) == server:
                spent += sum(_ticks(int(folder.name), with_children=False))
        return spent / _TICKS


_RELATIONS = """
    SELECT relname, relkind, CASE relkind WHEN 'r' THEN pg_table_size(oid)
        ELSE pg_relation_size(oid) END
    FROM pg_class WHERE relkind IN ('r', 'i') AND relname LIKE 'octopus\\_%'
        AND relnamespace = current_schema()::regnamespace
"""


def _count(conn: Any, table: str) -> int:
    counted: int = conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return counted


def _log_size(conn: Any) -> int:
    found = conn.execute("SELECT coalesce(sum(size), 0) FROM pg_ls_waldir()").fetchone()
    return int(found[0])


def _stat(process: int) -> list[str]:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ["0"] * 20
    return text.rpartition(")")[2].split()


def _parent(process: int) -> int:
    return int(_stat(process)[1])


def _ticks(process: int, *, with_children: bool) -> list[int]:
    found = _stat(process)[11:15]
    return [int(each) for each in (found if with_children else found[:2])]


@contextmanager
def opened(kind: str, folder: Path, url: str | None = None) -> Iterator[Database]:
    """Open a new SQLite file, a given PostgreSQL, or one that is started with durability on."""
    if kind == "sqlite":
        yield SqliteFile(folder)
    elif url is not None:
        yield PostgresDatabase(url)
    else:
        from tests.support.postgres_server import LocalServer, bundled

        with bundled() as programs:
            server = LocalServer(programs, durable=True, shared_buffers="256MB")
            try:
                yield PostgresDatabase(server.url(), server.data)
            finally:
                server.close()
