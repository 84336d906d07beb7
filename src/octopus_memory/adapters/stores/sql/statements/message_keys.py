"""Keyed hashes of the ids that callers gave their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....domain.episode import Scope
from .....ports.values import KeyTaken
from ..lazy import Connection, hot_read, sa, schema, sql
from . import common


@sql
def _known() -> sa.Select[Any]:
    return sa.select(schema.message_keys.c.digest).where(
        schema.message_keys.c.scope_id == common.scope_id(),
        schema.message_keys.c.tenant == sa.bindparam("tenant_"),
        schema.message_keys.c.session_id == sa.bindparam("session_"),
        schema.message_keys.c.digest.in_(sa.bindparam("digests", expanding=True)),
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


@hot_read
def known(
    conn: Connection, scope: Scope, session_id: str, digests: Sequence[bytes]
) -> frozenset[bytes]:
    found: set[bytes] = set()
    for some in common.chunks(digests):
        these = common.scope_params(scope) | {"session_": session_id, "digests": some}
        found.update(bytes(row.digest) for row in conn.execute(_known, these))
    return frozenset(found)


def put(
    conn: Connection, episode_key: dict[str, Any], session_id: str, digests: Sequence[bytes]
) -> None:
    """:raises KeyTaken: when the session has one of the keys"""
    for some in common.chunks(digests):
        these = {"scope_": episode_key["scope_id"], "session_": session_id, "digests": some}
        if conn.execute(_known_there, these).first() is not None:
            raise KeyTaken(session_id)
    if digests:
        whose = {
            "scope_id": episode_key["scope_id"],
            "session_id": session_id,
            "tenant": episode_key["tenant"],
        }
        conn.execute(_insert, [whose | {"digest": digest} for digest in digests])
