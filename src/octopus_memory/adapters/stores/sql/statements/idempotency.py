"""Idempotency keys: calls that repeat a stored one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn

from .....domain.episode import Scope, Turn
from .....domain.errors import EpisodeArchived, EpisodeDeleted, IdempotencyConflict
from .....ports.values import Append, Idempotency
from .. import rows
from ..lazy import Connection, sa, schema, sql
from . import common, episodes


@sql
def _insert_key() -> sa.Insert:
    return sa.insert(schema.idempotency)


@sql
def _key_before() -> sa.Select[Any]:
    return (
        sa.select(schema.idempotency)
        .join(schema.scopes, schema.scopes.c.id == schema.idempotency.c.scope_id)
        .where(common.this_scope(), schema.idempotency.c.key == sa.bindparam("idempotency_key"))
    )


@sql
def _stage() -> sa.Select[Any]:
    return sa.select(schema.episodes.c.deleted_at).where(common.this_episode())


def repeated(conn: Connection, scope: Scope, idempotency: Idempotency) -> list[Turn] | None:
    seal = conn.seals.find(scope)
    key = {"idempotency_key": seal.name(idempotency.key)}
    row = conn.execute(_key_before, common.scope_params(conn, scope) | key).one_or_none()
    if row is None:
        return None
    if row.fingerprint != seal.fingerprint(idempotency.fingerprint):
        raise IdempotencyConflict(idempotency.key)
    stop = row.first + row.count
    stored = episodes.turns(conn, scope, row.episode_id, start=row.first, stop=stop)
    if not stored:
        _raise_gone(conn, row)
    return stored


def _raise_gone(conn: Connection, key: rows.Row) -> NoReturn:
    """Raise the error that says what became of the turns.

    They must not be stored again, because a restore would show both.
    """
    this = {"episode_": key.episode_id, "scope_": key.scope_id}
    episode = conn.execute(_stage, this).one()
    is_removed = episode.deleted_at is not None or key.count == 0
    raise (EpisodeDeleted if is_removed else EpisodeArchived)(key.episode_id)


def put(
    conn: Connection, scope_id: int, write: Append, idempotency: Idempotency, first: int
) -> None:
    seal = conn.seals.of(scope_id)
    conn.execute(
        _insert_key,
        {
            "scope_id": scope_id,
            "key": seal.name(idempotency.key),
            "tenant": write.scope.tenant,
            "fingerprint": seal.fingerprint(idempotency.fingerprint),
            "episode_id": write.episode_id,
            "first": first,
            "count": len(write.turns),
            "used_at": write.now,
        },
    )


def prune(conn: Connection, *, before: datetime) -> int:
    keys = schema.idempotency
    return conn.execute(sa.delete(keys).where(keys.c.used_at < before)).rowcount
