"""A PostgreSQL database with pgvector's table in it, emptied before each use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy.engine import make_url

from octopus_memory.adapters.indexes.pgvector import PgVectorIndex
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from tests.support.postgres_installation import Database, Installation


@contextmanager
def with_vectors(postgres: Installation) -> Iterator[Database]:
    """Set up pgvector as its guide does: a superuser creates the extension, the owner the table."""
    if not postgres.server.has_vectors():
        pytest.skip("this PostgreSQL has no pgvector")
    with postgres.new_database() as database:
        # The role that copies a database owns the copy; the guide's owner may create tables in it.
        owner = make_url(database.owner_url).username
        postgres.server.execute(f"ALTER DATABASE {database.name} OWNER TO {owner}")
        postgres.server.execute("CREATE EXTENSION IF NOT EXISTS vector", database=database.name)
        store = PostgresStore(database.owner_url)
        PgVectorIndex(store).close()
        store.close()
        yield database


def empty(postgres: Installation, database: Database) -> None:
    found = postgres.server.execute(
        "SELECT string_agg(quote_ident(relname), ', ') FROM pg_class WHERE relkind = 'r' "
        "AND relname LIKE 'octopus\\_%' AND relname <> 'octopus_schema'",
        database=database.name,
    )
    postgres.server.execute(
        f"TRUNCATE {found[0][0]} RESTART IDENTITY CASCADE", database=database.name
    )
