"""Sessions as a whole: their list, and where their replay begins."""

from __future__ import annotations

from .....domain.episode import Scope, Session
from .....domain.errors import SessionNotFound
from .. import rows
from ..lazy import Connection, sa, schema
from . import common, scopes


def page(conn: Connection, scope: Scope, *, offset: int, limit: int) -> tuple[list[Session], int]:
    told, had = schema.conversations, schema.episodes
    seen = sa.func.max(had.c.last_seen_at).label("last_seen_at")
    columns = [
        told.c[name] for name in ("scope_id", "session_id", "status", "metadata", "created_at")
    ]
    found = (
        sa.select(*columns, seen)
        .join(
            had,
            sa.and_(
                had.c.scope_id == told.c.scope_id,
                had.c.session_id == told.c.session_id,
                had.c.deleted_at.is_(None),
            ),
        )
        .where(told.c.scope_id == common.scope_id(), told.c.tenant == sa.bindparam("tenant_"))
        .group_by(*columns)
    )
    whose = common.scope_params(conn, scope)
    count = conn.execute(sa.select(sa.func.count()).select_from(found.subquery()), whose)
    newest = found.order_by(seen.desc(), told.c.session_id).offset(offset).limit(limit)
    listed = [rows.session(conn, row, scope) for row in conn.execute(newest, whose)]
    return listed, int(count.scalar_one())


def reset(conn: Connection, scope: Scope, session_id: str) -> None:
    """Leave a session's present turns out of its replay."""
    locked = scopes.lock_scope(conn, scope)
    if locked is None:
        raise SessionNotFound(session_id)
    done = conn.execute(
        sa.update(schema.episodes)
        .where(
            schema.episodes.c.scope_id == locked.id,
            schema.episodes.c.tenant == scope.tenant,
            schema.episodes.c.session_id == conn.seals.of(locked.id).name(session_id),
            schema.episodes.c.deleted_at.is_(None),
        )
        .values(replay_from=schema.episodes.c.message_count)
    )
    if not done.rowcount:
        raise SessionNotFound(session_id)
