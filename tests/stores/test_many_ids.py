"""Statements about many scopes: no database takes so many values in one."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from uuid import uuid4

import sqlalchemy as sa

from octopus_memory.adapters.stores.sql import schema
from octopus_memory.adapters.stores.sql.statements import mirror
from octopus_memory.adapters.stores.sql.transactions import CoreConnection
from octopus_memory.domain.erasure import Erasure

SQL_SERVERS_LIMIT = 2_100


def test_waiting_removals_are_counted_for_any_number_of_scopes():
    erasure = Erasure(
        id=uuid4(),
        tenant="acme",
        at=datetime.now(UTC),
        subject="somebody",
        scope_ids=tuple(range(3_000)),
    )
    engine = sa.create_engine("sqlite://")
    with engine.connect() as conn:
        schema.metadata.create_all(conn)
        raw = conn.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        raw.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, SQL_SERVERS_LIMIT)
        assert mirror.waiting_removals(CoreConnection(conn), erasure) == 0
    engine.dispose()
