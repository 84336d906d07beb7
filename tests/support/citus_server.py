"""Octopus on Citus: the coordinator that OCTOPUS_TEST_CITUS_URL names, and its nodes.

The URL is a superuser's, of a database on the coordinator in which the nodes are known. Each
test database is made on every node, and distributed.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import pytest
from sqlalchemy.engine import URL, make_url

from octopus_memory.adapters.stores.postgres.nodes import NODES
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.wiring import distribute
from tests.support.postgres_installation import Database, Installation, guide
from tests.support.postgres_server import Server, connected

IS_GIVEN = bool(os.environ.get("OCTOPUS_TEST_CITUS_URL"))
"""True where the tests for PostgreSQL run on Citus."""
not_on_citus = pytest.mark.skipif(IS_GIVEN, reason="true of a single server alone")
SHARDS = 4
"""Two on each of two nodes: more would only take longer to make."""


class CitusServer(Server):
    """A coordinator. `nodes` are it and the nodes with rows, each as a server."""

    def __init__(self, url: URL) -> None:
        super().__init__(url)
        self._known_in = url.database or "postgres"
        found = self.execute(NODES.replace("%%", "%"), database=self._known_in)
        names = [name for name, *_ in found]
        self.nodes = {
            name: Server(url.set(host=name.rpartition(":")[0], port=int(name.rpartition(":")[2])))
            for name in names
        }

    def create(self, template: str = "template1", owner: str = "DEFAULT") -> str:
        """The name of a new database of Citus; `template` is ignored."""
        name = f"octopus_test_{secrets.token_hex(8)}"
        extensions = ["citus", *(["vector"] if self.has_vectors() else [])]
        for node in self.nodes.values():
            node.execute(f"CREATE DATABASE {name} OWNER {owner} ENCODING 'UTF8' TEMPLATE template0")
            for extension in extensions:
                node.execute(f"CREATE EXTENSION {extension}", database=name)
        coordinator, *others = (node.rpartition(":") for node in self.nodes)
        knowing = [("citus_set_coordinator_host", *coordinator[::2])]
        knowing += [("citus_add_node", *other[::2]) for other in others]
        for function, host, port in knowing:
            self.execute(f"SELECT {function}(%s, %s)", host, int(port), database=name)
        return name

    def make_role(self, statement: str) -> None:
        """Run a CREATE ROLE, which Citus repeats on the nodes."""
        self.execute(statement, database=self._known_in)

    def drop(self, database: str) -> None:
        for node in self.nodes.values():
            node.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")


class CitusInstallation(Installation):
    """The guide's two roles on Citus, with distributed databases."""

    server: CitusServer

    @cached_property
    def blank(self) -> str:
        """The name of the first database, which is made with the roles."""
        for statement in guide("Two roles")[0].split(";\n"):
            if "CREATE ROLE" in statement:
                self.server.make_role(self.named(statement))
        return self._made()

    def _new(self) -> str:
        return self._made() if "blank" in self.__dict__ else self.blank

    def _made(self) -> str:
        name = self._prepared(self.server.create(owner=self._owner))
        distribute(self.of(name).owner_url, shards=SHARDS)
        return name

    def _prepared(self, name: str) -> str:
        """Make the tables in a new database, on the coordinator alone."""
        database = self.of(name)
        self.server.execute(f"GRANT ALL ON SCHEMA public TO {self._owner}", database=name)
        PostgresStore(database.owner_url).close()
        with connected(database.owner_url) as conn:
            conn.execute(self.named(guide("Two roles")[1]).encode())
        return name

    @contextmanager
    def single(self) -> Iterator[Database]:
        """A database of Citus that is not distributed."""
        assert self.blank
        name = self._prepared(self.server.create(owner=self._owner))
        try:
            yield self.of(name)
        finally:
            self.server.drop(name)

    @contextmanager
    def alone(self) -> Iterator[Database]:
        """A database of Citus whose coordinator knows of no node."""
        with self.single() as database:
            with connected(database.admin_url) as conn:
                for node in list(self.server.nodes)[1:]:
                    host, _, port = node.rpartition(":")
                    conn.execute("SELECT citus_remove_node(%s, %s)", (host, int(port)))
            yield database


def given() -> CitusInstallation:
    """The Citus that the tests were told to use."""
    url = os.environ.get("OCTOPUS_TEST_CITUS_URL")
    if not url:
        pytest.skip("OCTOPUS_TEST_CITUS_URL names no Citus")
    return CitusInstallation(CitusServer(make_url(url)))
