"""The tables and keys of the schema as SQL Server's dialect creates them."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mssql_python", reason="needs the extra sqlserver")

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from octopus_memory.adapters.stores.sql import schema
from octopus_memory.adapters.stores.sqlserver.dialect import SqlServerDialect


def ddl(element: Any) -> str:
    return " ".join(str(element.compile(dialect=SqlServerDialect())).split())


def test_tables_have_the_types_of_the_product() -> None:
    episodes = ddl(CreateTable(schema.episodes))
    for column in (
        "id UNIQUEIDENTIFIER NOT NULL",
        "tenant VARBINARY(401) NOT NULL",
        "session_id VARBINARY(1025) NOT NULL",
        "ended_at DATETIMEOFFSET(6) NULL",
        "end_reason NVARCHAR(16) COLLATE Latin1_General_BIN2 NULL",
        "summary VARBINARY(max) NULL",
        "is_cold BIT NOT NULL DEFAULT 0",
        "PRIMARY KEY (id)",
    ):
        assert column in episodes
    assert "metadata NVARCHAR(max) NOT NULL" in ddl(CreateTable(schema.conversations))
    assert "[user] VARBINARY(1025) NOT NULL" in ddl(CreateTable(schema.scopes))
    assert "id BIGINT NOT NULL IDENTITY" in ddl(CreateTable(schema.work))


def test_rows_lie_in_the_order_they_are_read_in() -> None:
    assert "PRIMARY KEY (scope_id, seq)" in ddl(CreateTable(schema.recall))
    turns = ddl(CreateTable(schema.turns))
    assert "PRIMARY KEY NONCLUSTERED ([row])" in turns
    assert "UNIQUE CLUSTERED (episode_id, ordinal)" in turns
    [age] = schema.idempotency.indexes
    assert ddl(CreateIndex(age)).startswith("CREATE CLUSTERED INDEX octopus_idempotency_age")


def test_no_clustered_key_is_longer_than_the_server_allows() -> None:
    for table in schema.metadata.sorted_tables:
        text = ddl(CreateTable(table))
        if "NONCLUSTERED" not in text:
            assert sum(_bytes(column) for column in table.primary_key) <= 900, table.name


def test_no_other_key_is_longer_than_the_server_allows() -> None:
    """Except that of a scope's three names, which is checked by their values."""
    for table in schema.metadata.sorted_tables:
        unique = [one for one in table.constraints if isinstance(one, sa.UniqueConstraint)]
        for key in (table.primary_key, *unique, *table.indexes):
            if key.name != "octopus_scopes_who":
                assert sum(_bytes(column) for column in key.columns) <= 1_700, key.name


def _bytes(column: sa.Column[Any]) -> int:
    kind = column.type.dialect_impl(SqlServerDialect())
    kind = getattr(kind, "impl_instance", kind)
    return (getattr(kind, "length", None) or 16) * (2 if isinstance(kind, sa.String) else 1)


def test_only_open_episodes_are_in_the_index_of_open_ones() -> None:
    [index] = [index for index in schema.episodes.indexes if index.name == "octopus_episodes_open"]
    schema.limit_indexes("mssql")
    assert ddl(CreateIndex(index)).endswith("WHERE ended_at IS NULL")
