"""Keyed hashes of the ids that callers gave their messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from .....domain.episode import Scope
from .....domain.ids import KEY_SALT_SIZE
from .....ports.values import KeyTaken, MessageKeys
from .. import rows
from ..lazy import Asked, Connection, results_of, sa, schema, sql, without_snapshot
from ..seals import SALTS, Seal
from . import common, scopes


@cache
def _in_session() -> sa.Select[Any]:
    return sa.select(schema.message_keys.c.digest).where(
        schema.message_keys.c.scope_id == common.scope_id(),
        schema.message_keys.c.tenant == sa.bindparam("tenant_"),
        schema.message_keys.c.session_id == sa.bindparam("session_"),
    )


@sql
def _of_session() -> sa.Select[Any]:
    return _in_session().order_by(schema.message_keys.c.digest)


@sql
def _known() -> sa.Select[Any]:
    return _in_session().where(
        schema.message_keys.c.digest.in_(sa.bindparam("digests", expanding=True))
    )


@sql
def _known_there() -> sa.Select[Any]:
    return sa.select(schema.message_keys.c.digest).where(
        schema.message_keys.c.scope_id == sa.bindparam("scope_"),
        schema.message_keys.c.session_id == sa.bindparam("session_"),
        schema.message_keys.c.digest.in_(sa.bindparam("digests", expanding=True)),
    )


@sql
def _insert() -> sa.Insert:
    return sa.insert(schema.message_keys)


@sql
def drop_of_session() -> sa.Delete:
    return sa.delete(schema.message_keys).where(
        schema.message_keys.c.scope_id == sa.bindparam("scope_"),
        schema.message_keys.c.session_id == sa.bindparam("session_"),
    )


@sql
def _salts() -> sa.Select[Any]:
    return sa.select(schema.conversations.c.key_salts).where(
        schema.conversations.c.scope_id == common.scope_id(),
        schema.conversations.c.tenant == sa.bindparam("tenant_"),
        schema.conversations.c.session_id == sa.bindparam("session_"),
    )


@without_snapshot
def known(
    conn: Connection, scope: Scope, session_id: str, digests: Sequence[bytes] | None = None
) -> MessageKeys:
    this, seal = common.session_params(conn, scope, session_id), conn.seals.find(scope)
    asked: list[Asked] = [(_of_session, this)]
    if digests is not None:
        kept = list(map(seal.digest, digests))
        asked = [(_known, this | {"digests": some}) for some in common.chunks(kept)]
    salts, *found = results_of(conn, (_salts, this), *asked)
    opened = [seal.open_digest(bytes(row.digest)) for some in found for row in some]
    return MessageKeys(
        # In their own order, which is not that of their stored forms.
        digests=sorted(opened) if conn.seals.are_on else opened,
        salts=_salts_of(seal, this["session_"], salts.one_or_none()),
    )


def bring_in(conn: Connection, scope: Scope, session_id: str, keys: MessageKeys) -> int:
    locked = scopes.lock_scope(conn, scope)
    this, seal = common.session_params(conn, scope, session_id), conn.seals.find(scope)
    row = conn.execute(_salts, this).one_or_none()
    if locked is None or row is None:
        return 0
    had = _salts_of(seal, this["session_"], row)
    salts = list(dict.fromkeys([*had, *keys.salts]))
    if len(salts) > len(had):
        conn.execute(
            sa.update(schema.conversations)
            .where(
                schema.conversations.c.scope_id == locked.id,
                schema.conversations.c.session_id == this["session_"],
            )
            .values(key_salts=seal.data(SALTS, this["session_"], b"".join(salts)))
        )
    stored = set(known(conn, scope, session_id, keys.digests).digests)
    new = [digest for digest in dict.fromkeys(keys.digests) if digest not in stored]
    put(conn, {"scope_id": locked.id, "tenant": scope.tenant}, session_id, new)
    return len(new)


def _salts_of(seal: Seal, session: str, row: rows.Row | None) -> list[bytes]:
    joined = b"" if row is None else bytes(row.key_salts or b"")
    joined = seal.open_data(SALTS, session, joined) if joined else b""
    return [joined[i : i + KEY_SALT_SIZE] for i in range(0, len(joined), KEY_SALT_SIZE)]


def put(
    conn: Connection, episode_key: dict[str, Any], session_id: str, digests: Sequence[bytes]
) -> None:
    """:raises KeyTaken: when the session has one of the keys"""
    if not digests:
        return
    seal = conn.seals.of(episode_key["scope_id"])
    name, kept = seal.name(session_id), list(map(seal.digest, digests))
    for some in common.chunks(kept):
        these = {"scope_": episode_key["scope_id"], "session_": name, "digests": some}
        if conn.execute(_known_there, these).first() is not None:
            raise KeyTaken(session_id)
    whose = {
        "scope_id": episode_key["scope_id"],
        "session_id": name,
        "tenant": episode_key["tenant"],
    }
    conn.execute(_insert, [whose | {"digest": digest} for digest in kept])
