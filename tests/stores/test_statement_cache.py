"""Statements that each call builds anew: compiled once, with the values of each call."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
import sqlalchemy as sa

from octopus_memory.adapters.stores.sql import schema
from octopus_memory.adapters.stores.sql.lazy import Connection
from octopus_memory.adapters.stores.sql.transactions import Every
from octopus_memory.adapters.stores.sqlite import driver
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.testing import make_append, make_scope


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    store = SqliteStore(":memory:")
    yield store
    store.close()


def _find(*users: str) -> sa.Select[tuple[str]]:
    return sa.select(schema.scopes.c.user).where(schema.scopes.c.user.in_(users))


def test_statements_of_one_shape_are_compiled_once(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("ana", "ben", "eve"):
        store.append(make_append(make_scope(user), "hello"))
    compiled: list[object] = []
    make = driver.prepared_statements._make

    def count(statement: sa.Executable, keys: tuple[str, ...]) -> object:
        compiled.append(statement)
        return make(statement, keys)

    monkeypatch.setattr(driver.prepared_statements, "_make", count)
    monkeypatch.setattr(driver.prepared_statements, "_unnamed", {})

    def both(conn: Connection) -> list[list[str]]:
        asked = (_find("ana"), _find("ben", "eve", "nobody"), _find())
        return [sorted(conn.execute(each).scalars()) for each in asked]

    assert store._read(Every.TENANT, both) == [["ana"], ["ben", "eve"], []]
    assert len(compiled) == 1


def test_the_cache_keeps_no_value_of_a_statement(store: SqliteStore) -> None:
    statement = _find("a private name")
    prepared, values = driver.prepared_statements.find(statement, ())
    assert list(values.values()) == [["a private name"]]
    assert prepared.fixed == {}


def test_a_missing_parameter_is_an_error(store: SqliteStore) -> None:
    statement = sa.select(schema.scopes.c.id).where(schema.scopes.c.user == sa.bindparam("user_"))
    with pytest.raises(ValueError, match="user_"):
        store._read(Every.TENANT, lambda conn: conn.execute(statement).all())


def test_rows_have_the_types_of_their_columns(store: SqliteStore) -> None:
    write = make_append(make_scope("ana"), "hello")
    store.append(write)
    episodes = schema.episodes

    def read(conn: Connection) -> tuple[object, ...]:
        columns = episodes.c.id, sa.func.max(episodes.c.opened_at), sa.func.count()
        statement = sa.select(*columns).group_by(episodes.c.id)
        [row] = conn.execute(statement).mappings()
        [part] = conn.execute(statement).partitions(10)
        assert [dict(zip(row, each, strict=True)) for each in part] == [row]
        assert conn.execute(statement).first().id == conn.execute(statement).scalar() == row["id"]
        return tuple(row.values())

    found, opened, count = store._read(Every.TENANT, read)
    assert (found, opened, count) == (write.episode_id, write.now, 1)
    assert isinstance(found, UUID)


def test_at_most_one_row_is_at_most_one(store: SqliteStore) -> None:
    for user in ("ana", "ben"):
        store.append(make_append(make_scope(user), "hello"))
    with pytest.raises(ValueError, match="at most one row"):
        store._read(Every.TENANT, lambda conn: conn.execute(_find("ana", "ben")).one_or_none())
