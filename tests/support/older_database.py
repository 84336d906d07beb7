"""A database as it was before schema 0004: an int8 vector, four bytes a term, a count for each."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from octopus_memory.adapters.stores.sql import migrate, schema, views
from octopus_memory.domain.search.row_format import dimension_of
from tests.support.citus_server import IS_GIVEN

_GONE = b"\x9c"
"""The byte of a term's number that newer schemas drop."""
_AS_BEFORE = "ARRAY(SELECT term | (156 << 24) FROM unnest(terms) AS term)"


def make_older(conn: sa.Connection, *, with_pgvector: bool = False) -> None:
    """Rewrite the recall rows in the old format."""
    if IS_GIVEN and conn.dialect.name == "postgresql":
        pytest.skip("no database of that release was distributed")
    recall = schema.recall
    for row in conn.execute(sa.select(recall)).all():
        vector = row.vector and row.vector[: dimension_of(row.vector)]
        values = {"speaker": _wide(row.speaker), "terms": _terms(row.terms), "vector": vector}
        mine = recall.c.scope_id == row.scope_id, recall.c.seq == row.seq
        conn.execute(sa.update(recall).where(*mine).values(**values))
    if with_pgvector:
        conn.exec_driver_sql(f"UPDATE octopus_vectors SET terms = {_AS_BEFORE}")
    # Columns of later schemas.
    views.drop(conn)
    schema.facts.drop(conn)
    schema.injected.drop(conn)
    schema.injections.drop(conn)
    schema.message_keys.drop(conn)
    conn.exec_driver_sql("ALTER TABLE octopus_recall DROP COLUMN told")
    schema.forget_previews.drop(conn)
    conn.exec_driver_sql("ALTER TABLE octopus_conversations DROP COLUMN key_salts")
    for table in ("octopus_turns", "octopus_turns_archive"):
        conn.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN is_indexed")
    for index in schema.holds.indexes:
        if index.name == "octopus_holds_episode":
            index.drop(conn)
    for table in ("octopus_scopes", "octopus_holds", "octopus_keys"):
        conn.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN key_ref")
    for table in ("octopus_scopes", "octopus_keys"):
        conn.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN sealed_user")
    for column in ("first_seq", "last_seq", "replay_from"):
        conn.exec_driver_sql(f"ALTER TABLE octopus_episodes DROP COLUMN {column}")
    conn.exec_driver_sql(f"UPDATE {migrate.VERSION_TABLE} SET version_num = '0003'")


def _terms(packed: bytes) -> bytes:
    often, _, numbers = packed.partition(b"\0")
    # Terms that occur once come first, to test that readers respect the order.
    cut = 3 * len(often)
    turned = numbers[cut:] + numbers[:cut]
    return _wide(turned) + b"\1" * (len(turned) // 3 - len(often)) + often


def _wide(numbers: bytes) -> bytes:
    return b"".join(numbers[at : at + 3] + _GONE for at in range(0, len(numbers), 3))
