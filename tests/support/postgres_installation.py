"""Octopus on a PostgreSQL server as `docs/howto/postgresql.md` sets it up: what it says is run."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import psycopg

from tests.support.paths import DOCS
from tests.support.postgres_server import LocalServer, Server, connected

GUIDE = DOCS / "howto" / "postgresql.md"
_EMPTY = """
    DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT quote_ident(relname) FROM pg_class
            WHERE relkind = 'r' AND relname LIKE 'octopus\\_%' AND relname <> 'octopus_schema'
        LOOP EXECUTE 'DELETE FROM ' || name
            || CASE name WHEN 'octopus_meta' THEN $q$ WHERE name <> 'salt'$q$ ELSE '' END;
        END LOOP;
    END $$
"""
_BLOCK = re.compile(r"^```sql\n(.*?)^```", re.DOTALL | re.MULTILINE)


def guide(heading: str) -> list[str]:
    """The SQL that the guide gives under a heading."""
    _, found, rest = GUIDE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    assert found, heading
    section = rest.partition("\n## ")[0]
    return _BLOCK.findall(section)


@dataclass(frozen=True)
class Database:
    """A database, and the roles that open it. `url` is the application's."""

    name: str
    url: str
    owner_url: str
    admin_url: str


class Installation:
    """The guide's two roles on a server; its database, still blank, is copied for each test."""

    def __init__(self, server: Server) -> None:
        self.server = server
        # Roles belong to the whole server, which may be a developer's own.
        self._mark = secrets.token_hex(4)
        self._idle: list[str] = []
        self._emptying: dict[str, psycopg.Connection[Any]] = {}
        self._owner, self._app = f"octopus_owner_{self._mark}", f"octopus_app_{self._mark}"

    def named(self, statements: str) -> str:
        """The guide's statements with this installation's names."""
        for role in ("octopus_owner", "octopus_app"):
            statements = statements.replace(role, f"{role}_{self._mark}")
        return statements.replace("DATABASE octopus ", f"DATABASE octopus_{self._mark} ")

    def of(self, name: str) -> Database:
        return Database(
            name=name,
            url=self.server.url(name, user=self._app, password="another"),
            owner_url=self.server.url(name, user=self._owner, password="one-that-you-choose"),
            admin_url=self.server.url(name),
        )

    @cached_property
    def blank(self) -> str:
        """The name of a database with every table and no rows."""
        from octopus_memory.adapters.stores.postgres.store import PostgresStore

        making, granting = guide("Two roles")
        for statement in making.split(";\n"):
            self.server.execute(self.named(f"{statement} "))
        name = f"octopus_{self._mark}"
        PostgresStore(self.of(name).owner_url).close()
        with connected(self.of(name).owner_url) as conn:
            conn.execute(self.named(granting).encode())
        return name

    def _new(self) -> str:
        return self.server.create(self.blank, self._owner)

    @contextmanager
    def new_database(self) -> Iterator[Database]:
        """A database with every table and no rows, for tests that change more than rows."""
        name = self._new()
        try:
            yield self.of(name)
        finally:
            self.server.drop(name)

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Return a database that is emptied and reused, which takes a tenth of the time."""
        name = self._idle.pop() if self._idle else self._new()
        yield self.of(name)
        self.empty(name)
        self._idle.append(name)

    def empty(self, name: str) -> None:
        """Remove every row, but for the secret that an open store keeps in mind.

        On a connection that stays: a new one would take nearly all of the time.
        """
        try:
            self._emptying[name].execute(_EMPTY)
        except (KeyError, psycopg.OperationalError):
            # This is the first call, or a test has ended every connection.
            self._emptying[name] = connected(self.server.url(name))
            self._emptying[name].execute(_EMPTY)

    def close(self) -> None:
        for conn in self._emptying.values():
            conn.close()
        # A server that the tests started is removed as a whole.
        if "blank" in self.__dict__ and not isinstance(self.server, LocalServer):
            for name in (*self._idle, self.blank):
                self.server.drop(name)
            for role in (self._owner, self._app):
                self.server.execute(f"DROP ROLE {role}")
        self.server.close()


def kill_connections(database: Database) -> None:
    """Kill every connection but this one."""
    with connected(database.admin_url) as conn:
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
