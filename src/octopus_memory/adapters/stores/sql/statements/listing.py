"""Lists of episodes and scopes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from .....domain.episode import Episode, Scope
from .....ports.values import EpisodeQuery, OpenEpisode, TenantScopes
from .. import rows
from ..lazy import Connection, sa, schema, sql, sql_for, without_snapshot
from . import common


@without_snapshot
def scope_page(conn: Connection, scope: Scope, query: EpisodeQuery, limit: int) -> list[Episode]:
    # Not every dialect has a page of no rows.
    if not limit:
        return []
    statement = _page(bool(query.include_archived), bool(query.leave_out_sessions))
    bounds = {"offset_": query.offset, "limit_": limit}
    found = conn.execute(statement, _params(conn, scope, query) | bounds)
    return [rows.episode(conn, row, scope) for row in found]


def scope_page_and_count(
    conn: Connection, scope: Scope, query: EpisodeQuery, limit: int
) -> tuple[list[Episode], int]:
    found = scope_page(conn, scope, query, limit)
    if query.offset == 0 and len(found) < limit:
        return found, len(found)
    statement = _count(bool(query.include_archived), bool(query.leave_out_sessions))
    return found, conn.execute(statement, _params(conn, scope, query)).scalar_one()


def _params(conn: Connection, scope: Scope, query: EpisodeQuery) -> dict[str, Any]:
    left_out = {}
    if query.leave_out_sessions:
        left_out["sessions"] = conn.seals.find(scope).names(query.leave_out_sessions)
    return common.scope_params(conn, scope) | left_out


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
    statement = _open_after if after else _open
    number = "episodes.scope_id"
    found = common.with_keys(conn, conn.execute(statement, given).all(), statement, number, given)
    return [
        OpenEpisode(
            episode=rows.episode(conn, row, common.scope_of(conn, row, row.scope_id)),
            opened_at=row.opened_at,
            touched_at=row.touched_at,
        )
        for row in found
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
        schema.episodes.c.id,
        schema.episodes.c.scope_id,
        schema.scopes.c.tenant,
        schema.scopes.c.agent,
        schema.scopes.c.user,
    ).join(schema.scopes, schema.scopes.c.id == schema.episodes.c.scope_id)
    if tenant is not None:
        statement = statement.where(
            schema.episodes.c.tenant == tenant, schema.scopes.c.tenant == tenant
        )
    if not deleted:
        statement = statement.where(schema.episodes.c.deleted_at.is_(None))
    located: dict[UUID, Scope] = {}
    for some in common.chunks(episode_ids):
        found = conn.execute(statement.where(schema.episodes.c.id.in_(some))).all()
        there = conn.seals.readable({row.scope_id for row in found})
        located |= {
            row.id: common.scope_of(conn, row, row.scope_id)
            for row in found
            if row.scope_id in there
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
        statement = statement.where(schema.scopes.c.user == conn.seals.user(tenant or "", user))
    found = conn.execute(statement).all()
    if user is None:
        # Of all users, those whose keys are lost are passed over; of one, it is an error.
        found = common.with_keys(conn, found, statement, "scopes.id")
    return [(row.id, common.scope_of(conn, row, row.id)) for row in found]


def any_page(conn: Connection, query: EpisodeQuery) -> tuple[list[Episode], int]:
    """A page of any query; `scope_page` is for the frequent ones."""
    of = query.of
    if isinstance(of, Scope):
        of = TenantScopes(of.tenant, [of.agent], of.user)
    joined = schema.episodes.join(schema.scopes, schema.scopes.c.id == schema.episodes.c.scope_id)
    wanted = _wanted(conn, of, query)
    page = (
        sa.select(
            *rows.episode_columns(),
            schema.scopes.c.tenant,
            schema.scopes.c.agent,
            schema.scopes.c.user,
        )
        .select_from(joined)
        .where(*wanted)
        .order_by(schema.episodes.c.order_at.desc(), schema.episodes.c.id.desc())
        .offset(query.offset or None)
        .limit(query.limit)
    )
    # Not every dialect has a page of no rows.
    read = () if query.limit == 0 else conn.execute(page).all()
    if of.user is None:
        read = common.with_keys(conn, read, page, "episodes.scope_id")
    found = [rows.episode(conn, row, common.scope_of(conn, row, row.scope_id)) for row in read]
    is_whole = not query.offset and (query.limit is None or len(found) < query.limit)
    if is_whole or not query.count:
        return found, len(found)
    count = sa.select(sa.func.count()).select_from(joined).where(*wanted)
    return found, int(conn.execute(count).scalar_one())


def _wanted(
    conn: Connection, of: TenantScopes, query: EpisodeQuery
) -> list[sa.ColumnElement[bool]]:
    gone, scopes = schema.episodes.c.deleted_at, schema.scopes.c
    wanted = [
        schema.episodes.c.tenant == of.tenant,
        scopes.tenant == of.tenant,
        gone.is_not(None) if query.deleted else gone.is_(None),
    ]
    if of.agents is not None:
        wanted.append(scopes.agent.in_(sorted(of.agents)))
    if of.user is not None:
        wanted.append(scopes.user == conn.seals.user(of.tenant, of.user))
    if query.leave_out_sessions:
        left_out: Sequence[str] = list(query.leave_out_sessions)
        if isinstance(query.of, Scope):
            left_out = conn.seals.find(query.of).names(left_out)
        wanted.append(schema.episodes.c.session_id.not_in(left_out))
    if not query.include_archived:
        wanted.append(schema.episodes.c.is_archived.is_(False))
    return wanted
