"""The database's own records: its secret, the model in use, the mirror, removals."""

from __future__ import annotations

import os
from typing import Any

from .....ports.admin import StoreState
from ..lazy import Connection, sa, schema, sql, without_snapshot

SALT, KEYS, SEALED, MODEL, MIRROR, REMOVALS, COMPACTED, OWN_WORDS, LOST = (
    "salt",
    "scope_keys",
    "all_sealed",
    "embedding_model",
    "mirror",
    "removals",
    "compacted",
    "own_words",
    "lost_messages",
)


@sql
def _value() -> sa.Select[Any]:
    return sa.select(schema.meta.c.value).where(schema.meta.c.name == sa.bindparam("name_"))


@sql
def _state() -> sa.Select[Any]:
    names = [MODEL, MIRROR, REMOVALS, COMPACTED, OWN_WORDS, LOST]
    return sa.select(schema.meta).where(schema.meta.c.name.in_(names))


@sql
def _value_to_keep() -> sa.Select[Any]:
    return _value().with_for_update(read=True)


@sql
def _value_to_change() -> sa.Select[Any]:
    return _value().with_for_update()


@sql
def _update() -> sa.Update:
    return (
        sa.update(schema.meta)
        .where(schema.meta.c.name == sa.bindparam("name_"))
        .values(value=sa.bindparam("value_"))
    )


@sql
def _insert() -> sa.Insert:
    return sa.insert(schema.meta)


@without_snapshot
def get(conn: Connection, name: str, *, keep: bool = False, change: bool = False) -> bytes | None:
    """A value. `keep` locks it against changes by others; `change` locks it for a change."""
    statement = _value_to_keep if keep else _value_to_change if change else _value
    row = conn.execute(statement, {"name_": name}).first()
    return None if row is None else row.value


def put(conn: Connection, name: str, value: bytes) -> None:
    done = conn.execute(_update, {"name_": name, "value_": value})
    if not done.rowcount:
        conn.execute(_insert, {"name": name, "value": value})


@without_snapshot
def salt(conn: Connection) -> bytes:
    """The secret that hashes are keyed with."""
    return conn.seals.salt(get(conn, SALT) or b"")


def make_salt(conn: Connection) -> bytes:
    salt = get(conn, SALT)
    if salt is None:
        salt = conn.seals.sealed_salt(os.urandom(32))
        put(conn, SALT, salt)
    return salt


@sql
def _of_keys() -> sa.Select[Any]:
    return sa.select(schema.meta).where(schema.meta.c.name.in_([SALT, KEYS, SEALED]))


@without_snapshot
def keys(conn: Connection) -> dict[str, bytes]:
    """The records that opening a database reads: its secret, and what seals it."""
    return {row.name: bytes(row.value) for row in conn.execute(_of_keys)}


def begin_sealing(conn: Connection, fingerprint: bytes) -> dict[str, bytes]:
    """Record the key store by its fingerprint; the records, which another process may have made."""
    if get(conn, KEYS, change=True) is None:
        conn.execute(_insert, {"name": KEYS, "value": fingerprint})
        if not knows_users(conn):
            put(conn, SEALED, b"1")
    return keys(conn)


def knows_users(conn: Connection) -> bool:
    """True if any row names a user."""
    return any(
        conn.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first()
        for table in (schema.scopes, schema.holds, schema.keys)
    )


def count_removal(conn: Connection) -> int:
    """Count a removal of rows, so that caches check again and the files are rewritten."""
    kept = get(conn, REMOVALS, change=True)
    made = int(kept or b"0") + 1
    _set_number(conn, REMOVALS, kept, made)
    return made


def number(conn: Connection, name: str) -> int:
    return int(get(conn, name) or b"0")


@without_snapshot
def state(conn: Connection) -> StoreState:
    found = {row.name: row.value for row in conn.execute(_state)}
    model, mirror = found.get(MODEL), found.get(MIRROR)
    return StoreState(
        model=None if model is None else model.decode(),
        mirror=mirror.decode() if mirror else None,
        removals=int(found.get(REMOVALS, b"0")),
        compacted=int(found.get(COMPACTED, b"0")),
        owes_own_words=found.get(OWN_WORDS) == b"owed",
        lost=int(found.get(LOST, b"0")),
    )


def count_lost(conn: Connection, messages: int) -> None:
    kept = get(conn, LOST, change=True)
    _set_number(conn, LOST, kept, int(kept or b"0") + messages)


def own_words_removed(conn: Connection) -> None:
    put(conn, OWN_WORDS, b"removed")


def raise_to(conn: Connection, name: str, value: int) -> None:
    """Raise a number; never lower what another process has written."""
    kept = get(conn, name, change=True)
    if int(kept or b"0") < value:
        _set_number(conn, name, kept, value)


def _set_number(conn: Connection, name: str, kept: bytes | None, value: int) -> None:
    """Insert a number that does not exist, so that one of two concurrent writers fails and retries.

    An update would overwrite the number of the other.
    """
    if kept is None:
        conn.execute(_insert, {"name": name, "value": str(value).encode()})
    else:
        put(conn, name, str(value).encode())


@sql
def _model() -> sa.Select[Any]:
    return sa.select(schema.models.c.id).where(schema.models.c.name == sa.bindparam("model_"))


@sql
def _insert_model() -> Any:
    return sa.insert(schema.models).returning(schema.models.c.id)


def model_id(conn: Connection, model: str) -> int:
    known = conn.execute(_model, {"model_": model}).first()
    if known is not None:
        return int(known.id)
    return int(conn.execute(_insert_model, {"name": model}).scalar_one())
