"""The statements that list episodes: a scope's, and those that are open."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from .....domain.episode import Episode, Scope
from .....ports.store import OpenEpisode
from .. import rows
from ..lazy import Connection, sa, schema, sql, sql_for
from . import common


class Wanted(NamedTuple):
    """Which episodes of a scope are listed."""

    since: datetime | None
    until: datetime | None
    include_archived: bool
    include_open: bool
    leave_out_sessions: Sequence[str]

    def asked(self, scope: Scope) -> tuple[tuple[tuple[str, ...], bool, bool], dict[str, Any]]:
        """What the statements are made for, and their parameters."""
        bounds: dict[str, Any] = {"since_": self.since, "until_": self.until}
        given = {name: value for name, value in bounds.items() if value is not None}
        if self.leave_out_sessions:
            given["sessions"] = self.leave_out_sessions
        made_for = tuple(given), bool(self.include_archived), bool(self.include_open)
        return made_for, given | common.scope_params(scope)


def page(conn: Connection, scope: Scope, wanted: Wanted, offset: int, limit: int) -> list[Episode]:
    # Not every dialect has a page of no rows.
    if not limit:
        return []
    made_for, given = wanted.asked(scope)
    bounds = {"offset_": offset, "limit_": limit}
    return [rows.episode(row, scope) for row in conn.execute(_page(*made_for), given | bounds)]


def page_and_count(
    conn: Connection, scope: Scope, wanted: Wanted, offset: int, limit: int
) -> tuple[list[Episode], int]:
    found = page(conn, scope, wanted, offset, limit)
    if offset == 0 and len(found) < limit:
        return found, len(found)
    made_for, given = wanted.asked(scope)
    return found, conn.execute(_count(*made_for), given).scalar_one()


@sql_for
def _page(given: tuple[str, ...], include_archived: bool, include_open: bool) -> sa.Select[Any]:
    return (
        sa.select(*rows.episode_columns())
        .where(*_listed(given, include_archived, include_open))
        .order_by(schema.episodes.c.order_at.desc(), schema.episodes.c.id.desc())
        .offset(sa.bindparam("offset_", type_=sa.Integer))
        .limit(sa.bindparam("limit_", type_=sa.Integer))
    )


@sql_for
def _count(given: tuple[str, ...], include_archived: bool, include_open: bool) -> sa.Select[Any]:
    wanted = _listed(given, include_archived, include_open)
    return sa.select(sa.func.count().label("count")).select_from(schema.episodes).where(*wanted)


def _listed(
    given: tuple[str, ...], include_archived: bool, include_open: bool
) -> list[sa.ColumnElement[bool]]:
    """The conditions of a list, where these parameters are given."""
    known = {
        "since_": schema.episodes.c.order_at >= sa.bindparam("since_"),
        "until_": schema.episodes.c.started_at <= sa.bindparam("until_"),
        "sessions": schema.episodes.c.session_id.not_in(sa.bindparam("sessions", expanding=True)),
    }
    wanted = [common.undeleted_in_scope(), *(known[name] for name in given)]
    if not include_archived:
        wanted.append(schema.episodes.c.is_archived.is_(False))
    if not include_open:
        wanted.append(schema.episodes.c.ended_at.is_not(None))
    return wanted


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
    conn: Connection, tenant: str, episode_id: UUID, *, include_deleted: bool = False
) -> Scope | None:
    statement = (
        sa.select(schema.scopes.c.agent, schema.scopes.c.user)
        .join(schema.episodes, schema.episodes.c.scope_id == schema.scopes.c.id)
        .where(
            schema.episodes.c.id == episode_id,
            schema.episodes.c.tenant == tenant,
            schema.scopes.c.tenant == tenant,
        )
    )
    if not include_deleted:
        statement = statement.where(schema.episodes.c.deleted_at.is_(None))
    row = conn.execute(statement).one_or_none()
    return None if row is None else Scope(tenant=tenant, agent=row.agent, user=row.user)


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
