"""The database's own facts: its secret, the model in use, what is owed."""

from __future__ import annotations

import os

import sqlalchemy as sa

from . import schema

SALT, MODEL, MIRROR, COMPACTION, REMOVALS = (
    "salt",
    "embedding_model",
    "mirror",
    "compaction",
    "removals",
)
_meta = schema.meta


def get(conn: sa.Connection, name: str, *, keep: bool = False) -> bytes | None:
    """With `keep` nobody can change it before this transaction ends."""
    statement = sa.select(_meta.c.value).where(_meta.c.name == name)
    if keep:
        statement = statement.with_for_update(read=True)
    value: bytes | None = conn.execute(statement).scalar()
    return value


def put(conn: sa.Connection, name: str, value: bytes) -> None:
    done = conn.execute(sa.update(_meta).where(_meta.c.name == name).values(value=value))
    if not done.rowcount:
        conn.execute(sa.insert(_meta).values(name=name, value=value))


def make_salt(conn: sa.Connection) -> bytes:
    salt = get(conn, SALT)
    if salt is None:
        salt = os.urandom(32)
        put(conn, SALT, salt)
    return salt


def count_removal(conn: sa.Connection) -> None:
    """Rows were removed: caches must look again, and the files keep their bytes until rewritten."""
    made = int(get(conn, REMOVALS) or b"0") + 1
    put(conn, REMOVALS, str(made).encode())
    put(conn, COMPACTION, str(made).encode())


def drop_if(conn: sa.Connection, name: str, value: bytes | None) -> None:
    """Drop it, unless it was changed since it was read."""
    if value is not None:
        conn.execute(sa.delete(_meta).where(_meta.c.name == name, _meta.c.value == value))
