"""A scope's own row: its number, its version, and the `seq` of its next recall row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

from .....domain.episode import Scope
from ..lazy import Connection, sa, schema, sql
from . import common, meta


@sql
def _bump_scope() -> Any:
    return (
        sa.update(schema.scopes)
        .where(common.this_scope())
        .values(
            version=schema.scopes.c.version + 1,
            epoch=schema.scopes.c.epoch + sa.bindparam("epochs"),
            next_seq=schema.scopes.c.next_seq + sa.bindparam("rows"),
        )
        .returning(schema.scopes.c.id, schema.scopes.c.next_seq)
    )


@sql
def _lock_scope() -> sa.Select[Any]:
    return (
        sa.select(schema.scopes.c.id, schema.scopes.c.next_seq, schema.scopes.c.epoch)
        .where(common.this_scope())
        .with_for_update()
    )


@sql
def _insert_scope() -> Any:
    return sa.insert(schema.scopes).returning(schema.scopes.c.id)


@cache
def _place() -> sa.Select[Any]:
    names = ("id", "tenant", "agent", "user", "key_ref", "sealed_user")
    return sa.select(*(schema.scopes.c[name] for name in names))


@sql
def _by_names() -> sa.Select[Any]:
    return _place().where(common.this_scope())


@sql
def _by_ids() -> sa.Select[Any]:
    return _place().where(schema.scopes.c.id.in_(sa.bindparam("ids", expanding=True)))


def rows_of_names(conn: Connection, kept: Scope) -> Sequence[Any]:
    """What a scope's row says of its key; `kept` has the user as the row has it."""
    names = {"tenant_": kept.tenant, "agent_": kept.agent, "user_": kept.user}
    return conn.execute(_by_names, names).all()


def rows_of_ids(conn: Connection, ids: Sequence[int]) -> list[Any]:
    """As `rows_of_names`, for the scopes of these numbers that exist."""
    found: list[Any] = []
    for some in common.chunks(ids):
        found += conn.execute(_by_ids, {"ids": list(some)}).all()
    return found


def kept_user(conn: Connection, ids: Sequence[int]) -> str | None:
    """The user of scopes of one user, as the rows have the name; None where they are gone."""
    found = rows_of_ids(conn, ids)
    return str(found[0].user) if found else None


def lock(conn: Connection, ids: Collection[int]) -> None:
    """Lock scopes by their numbers, in one order for all writers."""
    for some in common.chunks(sorted(ids)):
        locked = sa.select(schema.scopes.c.id).where(schema.scopes.c.id.in_(some))
        list(conn.execute(locked.order_by(schema.scopes.c.id).with_for_update()))


def user_forms(conn: Connection, tenant: str, hashed: str, plain: str) -> set[str]:
    """Those of the two forms of a user's name that any row has.

    A hash is no plain name, even if a caller gives one that was seen in a copy of the database.
    """
    found: set[str] = set()
    for table in (schema.scopes, schema.holds, schema.keys):
        unsealed = sa.and_(table.c.user == plain, table.c.key_ref.is_(None))
        mine = table.c.tenant == tenant, sa.or_(table.c.user == hashed, unsealed)
        found.update(conn.execute(sa.select(table.c.user).where(*mine)).scalars())
    return found


DOOMED = "doomed:"
"""Begins the name of the record of a key that is to be destroyed, because its rows are removed."""


SEALING = "sealing:"
"""Begins the name of the record of a scope whose contents are not all sealed yet."""


def doom(conn: Connection, ref: str | None) -> None:
    """Record that a key is to be destroyed."""
    if ref is not None:
        meta.put(conn, DOOMED + ref, b"")


def doomed(conn: Connection) -> list[str]:
    """The keys that are to be destroyed."""
    names = schema.meta.c.name
    found = sa.select(names).where(names.startswith(DOOMED))
    return [name.removeprefix(DOOMED) for name in conn.execute(found).scalars()]


def forget_doomed(conn: Connection, refs: Sequence[str]) -> None:
    """Remove the records of keys that are destroyed."""
    for some in common.chunks([DOOMED + ref for ref in refs]):
        conn.execute(sa.delete(schema.meta).where(schema.meta.c.name.in_(some)))


def newest_keys(conn: Connection, most: int) -> list[str]:
    """The keys of the scopes that were created last."""
    known = schema.scopes.c
    found = sa.select(known.key_ref).where(known.key_ref.is_not(None)).order_by(known.id.desc())
    return list(conn.execute(found.limit(most)).scalars())


def take_rows(conn: Connection, scope: Scope, count: int, *, epochs: int = 0) -> tuple[int, int]:
    """Reserve `count` rows: the scope's number and the first `seq`. Locks the scope."""
    counts = {"rows": count, "epochs": epochs}
    row = conn.execute(_bump_scope, common.scope_params(conn, scope) | counts).one_or_none()
    if row is not None:
        return row.id, row.next_seq - count
    return _create(conn, scope, next_seq=1 + count, epoch=epochs), 1


def _create(conn: Connection, scope: Scope, *, next_seq: int, epoch: int) -> int:
    made = conn.execute(
        _insert_scope,
        conn.seals.new_scope(scope) | {"version": 1, "epoch": epoch, "next_seq": next_seq},
    )
    key: int = made.scalar_one()
    return key


class LockedScope(NamedTuple):
    """A scope that this transaction has locked."""

    id: int
    next_seq: int
    epoch: int


def lock_scope(conn: Connection, scope: Scope) -> LockedScope | None:
    """Lock a scope against other writers until the transaction ends; None if it is unknown."""
    row = conn.execute(_lock_scope, common.scope_params(conn, scope)).one_or_none()
    return None if row is None else LockedScope(row.id, row.next_seq, row.epoch)


def lock_blindly(conn: Connection, scope: Scope) -> None:
    """As `lock_scope`, without waiting for the answer."""
    conn.execute(_lock_scope, common.scope_params(conn, scope)).close()


def lock_or_create(conn: Connection, scope: Scope) -> LockedScope:
    """As `lock_scope`; creates an unknown scope."""
    locked = lock_scope(conn, scope)
    return locked or LockedScope(_create(conn, scope, next_seq=1, epoch=0), next_seq=1, epoch=0)
