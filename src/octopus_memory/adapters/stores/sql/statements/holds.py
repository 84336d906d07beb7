"""Legal holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....domain.errors import EpisodeNotFound, KeyMissing, LegalHold
from ..lazy import Connection, sa, schema, sql, without_snapshot
from ..seals import REASON
from . import audit, common, scopes

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
    # Before it locks scopes, as all do that write a user's name.
    told = _of_person(conn, hold.id, hold.tenant, hold.user, hold.reason)
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
            **told,
            episode_id=hold.episode_id,
            placed_at=hold.placed_at,
            placed_by=hold.placed_by,
        )
    )
    if entry is not None:
        audit.append(conn, entry)


def _wait_for_removals(conn: Connection, hold: Hold) -> None:
    """Wait for removals that checked for holds before this one was placed."""
    known, episodes = schema.scopes, schema.episodes
    about = sa.select(known.c.id).where(known.c.tenant == hold.tenant)
    if hold.user is not None:
        about = about.where(known.c.user == conn.seals.user(hold.tenant, hold.user))
    else:
        own = sa.select(episodes.c.scope_id).where(episodes.c.id == hold.episode_id)
        about = about.where(known.c.id == own.scalar_subquery())
    conn.execute(about.order_by(known.c.id).with_for_update()).all()


def _of_person(
    conn: Connection, hold_id: UUID, tenant: str, user: str | None, reason: str
) -> dict[str, Any]:
    """The columns that tell of a person, sealed with a key of the hold's own.

    A user's that is not sealed yet is left to `encrypt`, which seals all rows of a user at once.
    """
    kept = None if user is None else conn.seals.new_user(tenant, user)
    if user is not None and kept == user:
        return {"user": user, "reason": reason}
    ref, seal = conn.seals.new_key()
    if ref is None:
        return {"user": user, "reason": reason}
    told = seal.text(REASON, hold_id, json.dumps([user, reason]))
    return {"user": kept, "reason": told, "key_ref": ref}


def lift(conn: Connection, tenant: str, hold_id: UUID, *, entry: AuditDraft | None = None) -> bool:
    own = schema.holds.c.tenant == tenant, schema.holds.c.id == hold_id
    if conn.seals.are_on:
        scopes.doom(conn, conn.execute(sa.select(schema.holds.c.key_ref).where(*own)).scalar())
    done = conn.execute(sa.delete(schema.holds).where(*own))
    if done.rowcount and entry is not None:
        audit.append(conn, entry)
    return done.rowcount > 0


@without_snapshot
def list_holds(conn: Connection, tenant: str) -> list[Hold]:
    found = conn.execute(
        sa.select(schema.holds)
        .where(schema.holds.c.tenant == tenant)
        .order_by(schema.holds.c.placed_at, schema.holds.c.id)
    ).all()
    conn.seals.fetch([], [row.key_ref for row in found])
    return [_hold(conn, row) for row in found]


def _hold(conn: Connection, row: sa.Row[Any]) -> Hold:
    from .....domain.retention import Hold

    user, reason = row.user, row.reason
    try:
        seal = conn.seals.by_ref(row.key_ref)
    except KeyMissing as error:
        # It still holds what it held.
        reason = f"cannot be read: {error}"
    else:
        if row.key_ref is not None:
            user, reason = json.loads(seal.open_text(REASON, row.id, reason))
    return Hold(
        id=row.id,
        tenant=row.tenant,
        user=user,
        episode_id=row.episode_id,
        reason=reason,
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
    episodes, known = schema.episodes, schema.scopes
    return (
        sa.select(sa.literal(1))
        .where(
            _by_user_or_episode(
                schema.holds.c.tenant == known.c.tenant,
                schema.holds.c.user == known.c.user,
                schema.holds.c.episode_id == episodes.c.id,
            )
        )
        .correlate(episodes, known)
        .exists()
    )
