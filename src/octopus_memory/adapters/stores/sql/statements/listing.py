"""Lists of episodes and scopes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from .....domain.episode import Episode, Scope
from .....ports.values import OpenEpisode
from .. import rows
from ..lazy import Connection, sa, schema, sql, sql_for, without_snapshot
from . import common


class Wanted(NamedTuple):
    """The filter of a list of a scope's episodes."""

    include_archived: bool
    leave_out_sessions: Sequence[str]

    def params(self, scope: Scope) -> dict[str, Any]:
        left_out = {"sessions": self.leave_out_sessions} if self.leave_out_sessions else {}
        return common.scope_params(scope) | left_out


@without_snapshot
def page(conn: Connection, scope: Scope, wanted: Wanted, offset: int, limit: int) -> list[Episode]:
    # Not every dialect has a page of no rows.
    if not limit:
        return []
    statement = _page(wanted.include_archived, bool(wanted.leave_out_sessions))
    bounds = {"offset_": offset, "limit_": limit}
    found = conn.execute(statement, wanted.params(scope) | bounds)
    return [rows.episode(row, scope) for row in found]


def page_and_count(
    conn: Connection, scope: Scope, wanted: Wanted, offset: int, limit: int
) -> tuple[list[Episode], int]:
    found = page(conn, scope, wanted, offset, limit)
    if offset == 0 and len(found) < limit:
        return found, len(found)
    statement = _count(wanted.include_archived, bool(wanted.leave_out_sessions))
    return found, conn.execute(statement, wanted.params(scope)).scalar_one()


@sql_for
def _page(include_archived: bool, leaves_out: bool) -> sa.Select[Any]:
    return (
        sa.select(*rows.episode_columns())
        .where(*_conditions(include_archived, leaves_out))
        .order_by(schema.episodes.c.order_at.desc(), schema.episodes.c.id.desc())
        .offset(sa.bindparam("offset_", type_=sa.Integer))
        .limit(sa.bindparam("limit_", type_=sa.Integer))
    )


@sql_for
def _count(include_archived: bool, leaves_out: bool) -> sa.Select[Any]:
    wanted = _conditions(include_archived, leaves_out)
    return sa.select(sa.func.count().label("count")).select_from(schema.episodes).where(*wanted)


def _conditions(include_archived: bool, leaves_out: bool) -> list[sa.ColumnElement[bool]]:
    wanted = [common.undeleted_in_scope()]
    if leaves_out:
        wanted.append(schema.episodes.c.session_id.not_in(sa.bindparam("sessions", expanding=True)))
    if not include_archived:
        wanted.append(schema.episodes.c.is_archived.is_(False))
    return wanted


@without_snapshot
def open_episodes(
    conn: Connection,
    *,
    touched_before: datetime,
    opened_before: datetime,
    after: UUID | None = None,
    limit: int,
) -> list[OpenEpisode]:
    given: dict[str, Any] = {"touched_": touched_before, "opened_": opened_before, "limit_": limit}
    if after is not None:
        given["after_"] = after
    return [
        OpenEpisode(
            episode=rows.episode(row, Scope(tenant=row.tenant, agent=row.agent, user=row.user)),
            opened_at=row.opened_at,
            touched_at=row.touched_at,
        )
        for row in conn.execute(_open_after if after else _open, given)
    ]


@sql
def _open() -> sa.Select[Any]:
    return (
        sa.select(
            *rows.episode_columns(),
            schema.episodes.c.opened_at,
            schema.episodes.c.touched_at,
            schema.scopes.c.tenant,
            schema.scopes.c.agent,
            schema.scopes.c.user,
        )
        .join(schema.scopes, schema.scopes.c.id == schema.episodes.c.scope_id)
        .where(
            schema.episodes.c.ended_at.is_(None),
            schema.episodes.c.deleted_at.is_(None),
            sa.or_(
                schema.episodes.c.touched_at < sa.bindparam("touched_"),
                schema.episodes.c.opened_at < sa.bindparam("opened_"),
            ),
        )
        .order_by(schema.episodes.c.id)
        .limit(sa.bindparam("limit_", type_=sa.Integer))
    )


@sql
def _open_after() -> sa.Select[Any]:
    return _open().where(schema.episodes.c.id > sa.bindparam("after_"))


def locate(
    conn: Connection,
    episode_ids: Sequence[UUID],
    *,
    tenant: str | None = None,
    deleted: bool = True,
) -> dict[UUID, Scope]:
    statement = sa.select(
        schema.episodes.c.id, schema.scopes.c.tenant, schema.scopes.c.agent, schema.scopes.c.user
    ).join(schema.scopes, schema.scopes.c.id == schema.episodes.c.scope_id)
    if tenant is not None:
        statement = statement.where(
            schema.episodes.c.tenant == tenant, schema.scopes.c.tenant == tenant
        )
    if not deleted:
        statement = statement.where(schema.episodes.c.deleted_at.is_(None))
    located: dict[UUID, Scope] = {}
    for some in common.chunks(episode_ids):
        found = conn.execute(statement.where(schema.episodes.c.id.in_(some)))
        located |= {
            row.id: Scope(tenant=row.tenant, agent=row.agent, user=row.user) for row in found
        }
    return located


def scopes(
    conn: Connection,
    *,
    tenant: str | None = None,
    user: str | None = None,
    after: int = 0,
    limit: int | None = None,
) -> list[tuple[int, Scope]]:
    statement = (
        sa.select(
            schema.scopes.c.id, schema.scopes.c.tenant, schema.scopes.c.agent, schema.scopes.c.user
        )
        .where(schema.scopes.c.id > after)
        .order_by(schema.scopes.c.id)
        .limit(limit)
    )
    if tenant is not None:
        statement = statement.where(schema.scopes.c.tenant == tenant)
    if user is not None:
        statement = statement.where(schema.scopes.c.user == user)
    found = conn.execute(statement)
    return [(row.id, Scope(tenant=row.tenant, agent=row.agent, user=row.user)) for row in found]


def tenant_page(
    conn: Connection,
    tenant: str,
    *,
    agents: Collection[str] | None = None,
    user: str | None = None,
    include_archived: bool = True,
    offset: int,
    limit: int,
) -> tuple[list[Episode], int]:
    wanted = [
        schema.episodes.c.tenant == tenant,
        schema.scopes.c.tenant == tenant,
        schema.episodes.c.deleted_at.is_(None),
    ]
    if agents is not None:
        wanted.append(schema.scopes.c.agent.in_(sorted(agents)))
    if user is not None:
        wanted.append(schema.scopes.c.user == user)
    if not include_archived:
        wanted.append(schema.episodes.c.is_archived.is_(False))
    joined = schema.episodes.join(schema.scopes, schema.scopes.c.id == schema.episodes.c.scope_id)
    page = (
        sa.select(*rows.episode_columns(), schema.scopes.c.agent, schema.scopes.c.user)
        .select_from(joined)
        .where(*wanted)
        .order_by(schema.episodes.c.order_at.desc(), schema.episodes.c.id.desc())
        .offset(offset)
        .limit(limit)
    )
    # Not every dialect has a page of no rows.
    read = conn.execute(page) if limit else ()
    found = [
        rows.episode(row, Scope(tenant=tenant, agent=row.agent, user=row.user)) for row in read
    ]
    count = sa.select(sa.func.count()).select_from(joined).where(*wanted)
    return found, int(conn.execute(count).scalar_one())
