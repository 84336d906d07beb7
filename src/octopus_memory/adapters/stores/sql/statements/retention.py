"""An episode's stages: archive, delete, restore, purge."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....domain.episode import Episode, Scope
from .....domain.errors import EpisodeArchived, EpisodeChanged, EpisodeNotFound
from .....ports.recall_rows import RowPart
from .....ports.values import SUMMARY_ORDINAL, IndexEntry
from .. import rows
from ..lazy import Connection, sa, schema, sql
from . import audit, close, common, episodes, facts, holds, index_turns, meta, remove, scopes

if TYPE_CHECKING:
    from .....domain.audit import AuditDraft
    from .....domain.retention import Aged, Stage


@cache
def _moved_columns() -> list[str]:
    return [column.name for column in schema.turns_archive.c if column.name != "row"]


@sql
def _this() -> sa.Select[Any]:
    return sa.select(
        *rows.episode_columns(), schema.episodes.c.aged_from, schema.episodes.c.deleted_at
    ).where(common.in_scope(), schema.episodes.c.id == sa.bindparam("episode_"))


@sql
def _set_archived() -> sa.Update:
    return (
        sa.update(schema.episodes)
        .where(common.this_episode())
        .values(
            is_archived=True,
            is_cold=sa.bindparam("cold_"),
            archived_at=sa.bindparam("at_"),
            unfindable_from=None,
        )
    )


@sql
def _set_deleted() -> sa.Update:
    return (
        sa.update(schema.episodes)
        .where(common.this_episode())
        .values(deleted_at=sa.bindparam("at_"), unfindable_from=None)
    )


def _move_turns(source: sa.Table, target: sa.Table) -> sa.Insert:
    moved = sa.select(*(source.c[name] for name in _moved_columns())).where(
        source.c.episode_id == sa.bindparam("episode_"), source.c.scope_id == sa.bindparam("scope_")
    )
    return sa.insert(target).from_select(_moved_columns(), moved)


@sql
def _to_archive() -> sa.Insert:
    return _move_turns(schema.turns, schema.turns_archive)


@sql
def _from_archive() -> sa.Insert:
    return _move_turns(schema.turns_archive, schema.turns)


def aged(
    conn: Connection,
    stage: Stage,
    *,
    before: datetime,
    after: tuple[datetime, UUID] | None = None,
    limit: int,
    held: bool = False,
) -> list[Aged]:
    # Imported late because only the retention job needs it.
    from .....domain.retention import Stage

    since = schema.episodes.c.deleted_at if stage is Stage.DELETED else schema.episodes.c.aged_from
    wanted = [since <= before, holds.is_held() if held else ~holds.is_held()]
    if stage is not Stage.DELETED:
        archived = sa.true() if stage is Stage.ARCHIVED else sa.false()
        wanted += [
            schema.episodes.c.deleted_at.is_(None),
            schema.episodes.c.is_archived == archived,
        ]
    if after is not None:
        moment, key = after
        # The first condition is redundant, but lets the index start there.
        wanted += [since >= moment, sa.or_(since > moment, schema.episodes.c.id > key)]
    statement = (
        sa.select(
            *rows.episode_columns(),
            since.label("since"),
            schema.scopes.c.tenant,
            schema.scopes.c.agent,
            schema.scopes.c.user,
        )
        .join(schema.scopes, schema.scopes.c.id == schema.episodes.c.scope_id)
        .where(*wanted)
        .order_by(since, schema.episodes.c.id)
        .limit(limit)
    )
    from .....domain.retention import Aged

    found = common.with_keys(conn, conn.execute(statement).all(), statement, "episodes.scope_id")
    return [
        Aged(
            episode=rows.episode(conn, row, common.scope_of(conn, row, row.scope_id)),
            stage=stage,
            since=row.since,
        )
        for row in found
    ]


def archive(
    conn: Connection,
    now: datetime,
    scope: Scope,
    episode_id: UUID,
    *,
    cold: bool = False,
    at: datetime | None = None,
    since: datetime | None = None,
) -> Episode:
    at = at or now
    (scope_id, *_), before = _lock_episode(conn, scope, episode_id)
    if before is None or before.ended_at is None or before.deleted_at is not None:
        raise EpisodeNotFound(episode_id)
    if before.is_archived:
        return rows.episode(conn, before, scope)
    _check_since(conn, before, since)
    holds.check(conn, scope.tenant, scope.user, [episode_id])
    this = {"episode_": episode_id, "scope_": scope_id}
    if cold:
        conn.execute(_to_archive, this)
    conn.execute(remove.drop_turns, this)
    close.drop_rows(conn, scope, scope_id, episode_id, part=RowPart.TURNS, now=at)
    conn.execute(_set_archived, this | {"cold_": cold, "at_": at})
    meta.count_removal(conn)
    return replace(
        rows.episode(conn, before, scope), is_archived=True, is_cold=cold, archived_at=at
    )


def delete(
    conn: Connection,
    scope: Scope,
    episode_id: UUID,
    *,
    at: datetime,
    since: datetime | None = None,
    keep_facts: Collection[UUID] = (),
    entry: AuditDraft | None = None,
) -> None:
    (scope_id, *_), before = _lock_episode(conn, scope, episode_id)
    if before is None or before.ended_at is None:
        raise EpisodeNotFound(episode_id)
    if before.deleted_at is not None:
        return
    _check_since(conn, before, since)
    holds.check(conn, scope.tenant, scope.user, [episode_id])
    close.drop_rows(conn, scope, scope_id, episode_id, part=RowPart.ALL, now=at)
    this = {"episode_": episode_id, "scope_": scope_id}
    facts.detach(conn, scope_id, episode_id, keep_facts)
    conn.execute(_set_deleted, this | {"at_": at})
    meta.count_removal(conn)
    if entry is not None:
        audit.append(conn, entry)


def _check_since(conn: Connection, before: rows.Row, since: datetime | None) -> None:
    if since is not None and before.aged_from != since:
        raise EpisodeChanged(rows.session_id(conn, before))


def restore(
    conn: Connection,
    scope: Scope,
    episode_id: UUID,
    entries: list[IndexEntry],
    *,
    at: datetime,
    entry: AuditDraft | None = None,
    epoch: int | None = None,
) -> Episode:
    (scope_id, _, now_epoch), before = _lock_episode(conn, scope, episode_id)
    if before is None:
        raise EpisodeNotFound(episode_id)
    if epoch not in (None, now_epoch):
        raise EpisodeChanged(rows.session_id(conn, before))
    was_deleted = before.deleted_at is not None
    if not was_deleted and not before.is_archived:
        return rows.episode(conn, before, scope)
    if not was_deleted and not before.is_cold:
        raise EpisodeArchived(episode_id)
    changes: dict[str, Any] = {"deleted_at": None, "aged_from": at}
    if before.is_cold:
        this = {"episode_": episode_id, "scope_": scope_id}
        conn.execute(_from_archive, this)
        conn.execute(remove.drop_cold_turns, this)
        changes |= {"is_archived": False, "is_cold": False, "archived_at": None}
    close.drop_rows(conn, scope, scope_id, episode_id, part=RowPart.ALL, now=at)
    _index(conn, scope, scope_id, before, entries, now=at)
    _set(conn, scope_id, episode_id, **changes)
    if entry is not None:
        audit.append(conn, entry)
    return episodes.episodes(conn, scope, [episode_id])[episode_id]


def _index(
    conn: Connection,
    scope: Scope,
    scope_id: int,
    before: rows.Row,
    entries: list[IndexEntry],
    *,
    now: datetime,
) -> None:
    turns = conn.execute(
        sa.select(schema.turns.c.ordinal, schema.turns.c.role, schema.turns.c.at).where(
            schema.turns.c.episode_id == before.id, schema.turns.c.scope_id == scope_id
        )
    )
    said = {row.ordinal: (row.role, row.at) for row in turns}
    if before.summary is not None:
        said[SUMMARY_ORDINAL] = (rows.SUMMARY_ROLE, before.ended_at)
    if said.keys() != {new.ordinal for new in entries}:
        raise EpisodeChanged(rows.session_id(conn, before))
    if not entries:
        return
    # The vectors are gone; each turn gets a new reference with its new vector.
    conn.execute(
        sa.update(schema.turns)
        .where(schema.turns.c.episode_id == before.id, schema.turns.c.scope_id == scope_id)
        .values(embedding_ref=None)
    )
    _, first = scopes.take_rows(conn, scope, len(entries))
    episode_key = common.episode_key(scope, scope_id, before.id)
    index_turns.insert(conn, episode_key, first, said, entries, now=now)
    common.set_last_seq(conn, episode_key, first + len(entries) - 1)


def purge(
    conn: Connection,
    now: datetime,
    scope: Scope,
    episode_id: UUID,
    *,
    since: datetime | None = None,
) -> dict[str, int]:
    (scope_id, *_), before = _lock_episode(conn, scope, episode_id)
    if before is None or before.deleted_at is None:
        return {}
    if since is not None and before.deleted_at != since:
        return {}
    holds.check(conn, scope.tenant, scope.user, [episode_id])
    # Deleted by an earlier release, it may have pinned facts.
    facts.detach(conn, scope_id, episode_id)
    removed = remove.episode(conn, scope, scope_id, episode_id, now=now)
    removed["facts"] += facts.drop_detached(conn, scope_id)
    removed["sessions"] = remove.empty_session(conn, scope_id, before.session_id)
    scopes_gone = remove.empty_scope(conn, scope_id)
    if scopes_gone:
        removed["scopes"] = scopes_gone
    meta.count_removal(conn)
    return removed


def _lock_episode(
    conn: Connection, scope: Scope, episode_id: UUID
) -> tuple[scopes.LockedScope, rows.Row | None]:
    """The locked scope, and the episode, deleted or not."""
    locked = scopes.lock_scope(conn, scope)
    if locked is None:
        return scopes.LockedScope(0, 0, 0), None
    found = conn.execute(
        _this, common.scope_params(conn, scope) | {"episode_": episode_id}
    ).one_or_none()
    return locked, found


def _set(conn: Connection, scope_id: int, episode_id: UUID, **values: Any) -> None:
    conn.execute(
        sa.update(schema.episodes).where(common.this_episode()).values(values),
        {"episode_": episode_id, "scope_": scope_id},
    )
