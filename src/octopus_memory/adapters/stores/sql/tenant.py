"""Reading across a tenant's scopes in a SQL store."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from ....domain.episode import Episode, Scope
from ....ports.tenant import TenantReads
from . import rows
from .lazy import Connection, sa, schema
from .transactions import Transactions


class SqlTenantReads(Transactions, TenantReads):
    def locate(
        self, tenant: str, episode_id: UUID, *, include_deleted: bool = False
    ) -> Scope | None:
        return self._read(tenant, _locate, tenant, episode_id, include_deleted=include_deleted)

    def tenant_episodes(
        self,
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
        return self._read(tenant, _page, tenant, wanted, offset, limit)


def _locate(
    conn: Connection, tenant: str, episode_id: UUID, *, include_deleted: bool
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


def _page(
    conn: Connection,
    tenant: str,
    wanted: list[sa.ColumnElement[bool]],
    offset: int,
    limit: int,
) -> tuple[list[Episode], int]:
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
