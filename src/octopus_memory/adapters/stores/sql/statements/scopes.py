"""A scope's own row: its number, its version, and the `seq` of its next recall row."""

from __future__ import annotations

from typing import Any, NamedTuple

from .....domain.episode import Scope
from ..lazy import Connection, sa, schema, sql
from . import common


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
