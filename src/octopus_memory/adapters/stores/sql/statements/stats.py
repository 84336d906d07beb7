"""Counts over the whole database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import migrate
from ..lazy import Connection, sa, schema
from . import work

if TYPE_CHECKING:
    from .....ports.admin import StoreStats


def stats(conn: Connection, size_bytes: int | None) -> StoreStats:
    from .....ports.admin import StoreStats

    def count(what: Any, *where: sa.ColumnElement[bool]) -> int:
        return int(conn.execute(sa.select(sa.func.count(what)).where(*where)).scalar_one())

    recall, models = schema.recall, schema.models
    vectors = conn.execute(
        sa.select(models.c.name, sa.func.count())
        .join(recall, recall.c.model_id == models.c.id)
        .group_by(models.c.name)
    )
    scopes, episodes = schema.scopes, schema.episodes
    return StoreStats(
        product=conn.product,
        schema=migrate.HEAD,
        size_bytes=size_bytes,
        tenants=count(scopes.c.tenant.distinct()),
        scopes=count(scopes.c.id),
        sessions=count(schema.conversations.c.scope_id),
        episodes=count(episodes.c.id),
        open_episodes=count(episodes.c.id, episodes.c.ended_at.is_(None)),
        turns=count(schema.turns.c.row),
        facts=count(schema.facts.c.id, schema.facts.c.deleted_at.is_(None)),
        vectors={row[0]: row[1] for row in vectors},
        backlog=work.backlog(conn),
    )
