"""Legal holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....domain.errors import EpisodeNotFound, LegalHold
from ..lazy import Connection, sa, schema, sql, without_snapshot
from . import audit, common

if TYPE_CHECKING:
    from .....domain.audit import AuditDraft
    from .....domain.retention import Hold


@cache
def _ids() -> sa.BindParameter[Any]:
    return sa.bindparam("ids", expanding=True)


@sql
def _applying() -> sa.Select[Any]:
    return sa.select(schema.holds.c.id).where(
        _by_user_or_episode(
            schema.holds.c.tenant == sa.bindparam("tenant_"),
            schema.holds.c.user == sa.bindparam("user_"),
            schema.holds.c.episode_id.in_(_ids()),
        )
    )


def _by_user_or_episode(
    tenant: sa.ColumnElement[bool], user: sa.ColumnElement[bool], episode: sa.ColumnElement[bool]
) -> sa.ColumnElement[bool]:
    """Match by user or by episode; each repeats the tenant, to use its own index."""
    return sa.or_(sa.and_(tenant, user), sa.and_(tenant, episode))


def place(conn: Connection, hold: Hold, *, entry: AuditDraft | None = None) -> None:
    if conn.execute(sa.select(schema.holds.c.id).where(schema.holds.c.id == hold.id)).first():
        return
    _wait_for_removals(conn, hold)
    episodes = schema.episodes
    if hold.episode_id is not None:
        known = conn.execute(
            sa.select(episodes.c.id).where(
                episodes.c.id == hold.episode_id, episodes.c.tenant == hold.tenant
            )
        ).first()
        if known is None:
            raise EpisodeNotFound(hold.episode_id)
    conn.execute(
        sa.insert(schema.holds).values(
            id=hold.id,
            tenant=hold.tenant,
            user=hold.user,
            episode_id=hold.episode_id,
            reason=hold.reason,
            placed_at=hold.placed_at,
            placed_by=hold.placed_by,
        )
    )
    if entry is not None:
        audit.append(conn, entry)


def _wait_for_removals(conn: Connection, hold: Hold) -> None:
    """Wait for removals that checked for holds before this one was placed."""
    scopes, episodes = schema.scopes, schema.episodes
    about = sa.select(scopes.c.id).where(scopes.c.tenant == hold.tenant)
    if hold.user is not None:
        about = about.where(scopes.c.user == conn.seals.user(hold.tenant, hold.user))
    else:
        own = sa.select(episodes.c.scope_id).where(episodes.c.id == hold.episode_id)
        about = about.where(scopes.c.id == own.scalar_subquery())
    conn.execute(about.order_by(scopes.c.id).with_for_update()).all()


def lift(conn: Connection, tenant: str, hold_id: UUID, *, entry: AuditDraft | None = None) -> bool:
    done = conn.execute(
        sa.delete(schema.holds).where(schema.holds.c.tenant == tenant, schema.holds.c.id == hold_id)
    )
    if done.rowcount and entry is not None:
        audit.append(conn, entry)
    return done.rowcount > 0


@without_snapshot
def list_holds(conn: Connection, tenant: str) -> list[Hold]:
    found = conn.execute(
        sa.select(schema.holds)
        .where(schema.holds.c.tenant == tenant)
        .order_by(schema.holds.c.placed_at, schema.holds.c.id)
    )
    return [_hold(row) for row in found]


def _hold(row: sa.Row[Any]) -> Hold:
    from .....domain.retention import Hold

    return Hold(
        id=row.id,
        tenant=row.tenant,
        user=row.user,
        episode_id=row.episode_id,
        reason=row.reason,
        placed_at=row.placed_at,
        placed_by=row.placed_by,
    )


def check(conn: Connection, tenant: str, user: str, episode_ids: Sequence[UUID]) -> None:
    """:raises LegalHold: when a hold applies to the user or to one of the episodes"""
    kept = conn.seals.user(tenant, user)
    for some in list(common.chunks(episode_ids)) or [[]]:
        found = conn.execute(_applying, {"tenant_": tenant, "user_": kept, "ids": some}).first()
        if found is not None:
            raise LegalHold(found.id)


def is_held() -> sa.ColumnElement[bool]:
    """True if a hold applies to an episode, which the query joins with its scope."""
    episodes, scopes = schema.episodes, schema.scopes
    return (
        sa.select(sa.literal(1))
        .where(
            _by_user_or_episode(
                schema.holds.c.tenant == scopes.c.tenant,
                schema.holds.c.user == scopes.c.user,
                schema.holds.c.episode_id == episodes.c.id,
            )
        )
        .correlate(episodes, scopes)
        .exists()
    )
