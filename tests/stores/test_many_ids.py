"""Statements about many scopes or episodes: no database takes so many values in one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from octopus_memory.adapters.stores.sql import schema
from octopus_memory.adapters.stores.sql.statements import erasure, facts, holds, meta, mirror
from octopus_memory.adapters.stores.sql.transactions import CoreConnection
from octopus_memory.domain.erasure import Erasure
from octopus_memory.domain.errors import InvalidInput
from octopus_memory.domain.facts import Fact, FactKind
from octopus_memory.domain.identity import AccessRole, Principal

SQL_SERVERS_LIMIT = 2_100


@pytest.fixture
def conn() -> Iterator[CoreConnection]:
    engine = sa.create_engine("sqlite://")
    with engine.connect() as opened:
        schema.metadata.create_all(opened)
        raw = opened.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        raw.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, SQL_SERVERS_LIMIT)
        yield CoreConnection(opened)
    engine.dispose()


def _erasure(**of: Any) -> Erasure:
    return Erasure(id=uuid4(), tenant="acme", at=datetime.now(UTC), subject="somebody", **of)


def test_waiting_removals_are_counted_for_any_number_of_scopes(conn: CoreConnection):
    assert mirror.waiting_removals(conn, _erasure(scope_ids=tuple(range(3_000)))) == 0


@pytest.mark.parametrize("count", [2_100, 70_000])
def test_what_is_left_is_counted_for_any_number_of_episodes(conn: CoreConnection, count: int):
    ids = tuple(uuid4() for _ in range(count))
    left = erasure.left_of(conn, _erasure(scope_ids=(1,), episode_ids=ids))
    assert left["turns"] == left["episodes"] == 0
    assert "scopes" not in left
    of_user = erasure.left_of(conn, _erasure(scope_ids=tuple(range(count))))
    assert of_user["scopes"] == 0


@pytest.mark.parametrize("count", [2_100, 70_000])
def test_a_legal_hold_is_looked_for_on_any_number_of_episodes(conn: CoreConnection, count: int):
    holds.check(conn, "acme", "ana", [uuid4() for _ in range(count)])


def test_facts_of_one_episode_are_replaced_whatever_their_number(conn: CoreConnection):
    key = {"tenant": "acme", "scope_id": 1, "episode_id": uuid4()}
    meta.make_salt(conn)
    now = datetime.now(UTC)

    def fact(number: int) -> Fact:
        text = f"Likes number {number}."
        return Fact(id=uuid4(), kind=FactKind.OTHER, text=text, slot=text, since=now)

    facts.insert(conn, key, [fact(number) for number in range(2_200)])
    facts.replace_found(conn, key, [fact(1), fact(3_000)])
    there = facts.undeleted_ids(conn, 1, key["episode_id"])
    assert len(there) == 2


def test_a_credential_names_no_more_agents_than_a_statement_takes():
    agents = frozenset(f"agent {number}" for number in range(1_001))
    with pytest.raises(InvalidInput, match="agents: must be at most 1,000"):
        Principal(tenant="acme", role=AccessRole.AGENT, actor="key:1", agents=agents)
