"""The work queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from .....domain.episode import Scope, Turn
from .....ports.recall_rows import Backlog, Removal, Work, WorkKind
from .. import rows
from ..lazy import Connection, results_of, sa, schema, sql, sql_for, types, without_snapshot
from . import common, recall_rows, scopes

_KIND_OF = {number: kind for kind, number in rows.KINDS.items()}
_PART_OF = {number: part for part, number in rows.PARTS.items()}
WHOLE_SCOPE = UUID(int=0)
"""Stands for every episode of a scope in the row of a removal."""


@sql_for
def _ready(limit: int) -> sa.Select[Any]:
    """The items that can be claimed."""
    # Subqueries, because PostgreSQL would join all waiting items before it takes the first.
    of_scope = (
        sa.select(column)
        .where(schema.scopes.c.id == schema.work.c.scope_id)
        .scalar_subquery()
        .label(column.name)
        for column in (schema.scopes.c.agent, schema.scopes.c.user)
    )
    return (
        sa.select(schema.work, *of_scope)
        .where(
            schema.work.c.kind == sa.bindparam("kind_"),
            schema.work.c.ready_at <= sa.bindparam("now_"),
        )
        .order_by(schema.work.c.ready_at, schema.work.c.id)
        .limit(limit)
    )


@sql_for
def _waiting(limit: int) -> sa.Select[Any]:
    """The items that can be claimed, skipping those that another worker is claiming."""
    return _ready(limit)().with_for_update(of=schema.work, skip_locked=True)


@cache
def _ids() -> sa.BindParameter[Any]:
    return sa.bindparam("ids", expanding=True)


@cache
def _these() -> sa.ColumnElement[bool]:
    return schema.work.c.id.in_(_ids())


@sql
def _lease() -> sa.Update:
    return (
        sa.update(schema.work)
        .where(_these())
        .values(owner=sa.bindparam("owner_"), ready_at=sa.bindparam("until_"))
    )


@sql
def _lease_free() -> Any:
    is_free = schema.work.c.ready_at <= sa.bindparam("now_")
    return _lease().where(is_free).returning(schema.work.c.id)


@sql
def _finish() -> sa.Delete:
    return sa.delete(schema.work).where(_these())


@sql
def _unindexed() -> sa.Select[Any]:
    return sa.select(
        sa.func.sum(schema.episodes.c.message_count - schema.episodes.c.unfindable_from).label(
            "waiting"
        ),
        sa.func.min(schema.episodes.c.touched_at).label("old"),
    ).where(schema.episodes.c.unfindable_from.is_not(None))


@sql
def _claimed_turns() -> sa.Select[Any]:
    return (
        sa.select(*rows.turn_columns(), schema.episodes.c.session_id)
        .select_from(schema.work)
        .join(
            schema.turns,
            sa.and_(
                schema.turns.c.episode_id == schema.work.c.episode_id,
                schema.turns.c.scope_id == schema.work.c.scope_id,
                schema.turns.c.ordinal.between(schema.work.c.ordinal - 1, schema.work.c.ordinal),
            ),
        )
        .join(schema.episodes, schema.episodes.c.id == schema.turns.c.episode_id)
        .where(_these(), schema.episodes.c.deleted_at.is_(None))
    )


def claim(
    conn: Connection,
    kind: WorkKind,
    *,
    worker_id: str,
    limit: int,
    now: datetime,
    until: datetime,
) -> list[Removal] | list[Work]:
    taken = list(conn.execute(_waiting(limit), {"kind_": rows.KINDS[kind], "now_": now}))
    for some in common.chunks([row.id for row in taken]):
        conn.execute(_lease, {"ids": some, "owner_": worker_id, "until_": until})
    return _claimed(conn, kind, taken)


def claim_unlocked(
    conn: Connection,
    kind: WorkKind,
    *,
    worker_id: str,
    limit: int,
    now: datetime,
    until: datetime,
) -> list[Removal] | list[Work]:
    """As `claim`, for rows on several nodes, where no SELECT can lock.

    Of two workers that find the same item, one leases it; the other waits, and then finds its
    `ready_at` in the future.
    """
    found = list(conn.execute(_ready(limit), {"kind_": rows.KINDS[kind], "now_": now}))
    mine: set[int] = set()
    for some in common.chunks([row.id for row in found]):
        given = {"ids": some, "owner_": worker_id, "until_": until, "now_": now}
        mine.update(conn.execute(_lease_free, given).scalars())
    return _claimed(conn, kind, [row for row in found if row.id in mine])


def _claimed(
    conn: Connection, kind: WorkKind, taken: Sequence[rows.Row]
) -> list[Removal] | list[Work]:
    if kind is WorkKind.UNINDEX:
        return [_removal(row) for row in taken]
    # Work goes with its scope. An item without one, or without its key, cannot be done.
    there = conn.seals.readable({row.scope_id for row in taken if row.agent is not None})
    return [_work(conn, row) for row in taken if row.scope_id in there]


def _work(conn: Connection, row: rows.Row) -> Work:
    return Work(
        id=row.id,
        kind=_KIND_OF[row.kind],
        scope=common.scope_of(conn, row, row.scope_id),
        scope_id=row.scope_id,
        episode_id=row.episode_id,
        ordinal=row.ordinal,
        seq=row.seq,
        attempts=row.attempts,
    )


def _removal(row: rows.Row) -> Removal:
    return Removal(
        id=row.id,
        tenant=row.tenant,
        scope_id=row.scope_id,
        episode_id=None if row.episode_id == WHOLE_SCOPE else row.episode_id,
        part=_PART_OF[row.ordinal],
        before_seq=row.seq,
        attempts=row.attempts,
    )


@sql
def _set_told() -> sa.Update:
    return (
        sa.update(schema.recall)
        .where(
            schema.recall.c.scope_id == sa.bindparam("scope_"),
            schema.recall.c.seq == sa.bindparam("seq_"),
            schema.recall.c.tenant == sa.bindparam("tenant_"),
        )
        .values(told=sa.bindparam("told_"))
    )


def finish(
    conn: Connection, work: Sequence[Work | Removal], *, told: Mapping[int, int] | None = None
) -> None:
    found = [
        (piece, {"told": at})
        for piece in work
        if isinstance(piece, Work) and (at := (told or {}).get(piece.id))
    ]
    if found and conn.seals.are_on:
        # Sealed rows are read and written, so that no other call may change them meanwhile.
        scopes.lock(conn, {piece.scope_id for piece, _ in found})
    new = [
        {
            "scope_": piece.scope_id,
            "seq_": piece.seq,
            "tenant_": piece.scope.tenant,
            "told_": values["told"],
        }
        for piece, values in recall_rows.reseal(conn, found)
    ]
    if new:
        conn.execute(_set_told, new)
    for some in common.chunks([piece.id for piece in work]):
        conn.execute(_finish, {"ids": some})


def postpone(
    conn: Connection,
    work: Sequence[Work | Removal],
    *,
    until: datetime,
    worker_id: str | None = None,
) -> None:
    mine = sa.true() if worker_id is None else schema.work.c.owner == worker_id
    for some in common.chunks([piece.id for piece in work]):
        conn.execute(
            sa.update(schema.work)
            .where(_these(), mine)
            .values(owner=None, ready_at=until, attempts=schema.work.c.attempts + 1),
            {"ids": some},
        )


@sql
def _worker_ids() -> sa.CompoundSelect[Any]:
    return sa.union(
        sa.select(schema.work.c.owner).where(schema.work.c.owner.is_not(None)),
        sa.select(schema.jobs.c.owner).where(schema.jobs.c.owner.is_not(None)),
    )


@cache
def _is_stale() -> sa.ColumnElement[bool]:
    # Name the kinds, because the index begins with them.
    return sa.and_(
        schema.work.c.kind.in_(list(_KIND_OF)),
        schema.work.c.ready_at > sa.bindparam("latest_", type_=types.UtcTime()),
    )


@sql
def _stale() -> sa.Select[Any]:
    return sa.select(schema.work.c.id).where(_is_stale()).limit(1)


@without_snapshot
def leases(conn: Connection, latest: datetime) -> tuple[list[str], bool]:
    """The workers that hold a lease, and True if an item waits or is leased beyond `latest`."""
    owners, stale = results_of(conn, (_worker_ids, {}), (_stale, {"latest_": latest}))
    return [row.owner for row in owners if row.owner], stale.first() is not None


def release_leases(
    conn: Connection, gone: Sequence[str], *, now: datetime, latest: datetime
) -> int:
    stale = _release_stale(conn, now=now, latest=latest)
    for some in common.chunks(gone):
        conn.execute(
            sa.update(schema.work)
            .where(schema.work.c.owner.in_(some))
            .values(owner=None, ready_at=schema.work.c.created_at)
        )
        conn.execute(
            sa.update(schema.jobs)
            .where(schema.jobs.c.owner.in_(some))
            .values(owner=None, leads_until=None)
        )
    return stale


def _release_stale(conn: Connection, *, now: datetime, latest: datetime) -> int:
    queued = schema.work.c.created_at
    done = conn.execute(
        sa.update(schema.work)
        .where(_is_stale())
        .values(
            owner=None,
            ready_at=now,
            created_at=sa.case((queued > now, sa.literal(now, types.UtcTime())), else_=queued),
        ),
        {"latest_": latest},
    )
    return done.rowcount


@sql
def _count_by_kind() -> sa.Select[Any]:
    return sa.select(
        schema.work.c.kind,
        sa.func.count().label("waiting"),
        sa.func.min(schema.work.c.created_at).label("old"),
    ).group_by(schema.work.c.kind)


def backlog(conn: Connection) -> dict[WorkKind, Backlog]:
    found = {kind: Backlog(waiting=0, oldest=None) for kind in WorkKind}
    for row in conn.execute(_count_by_kind):
        found[_KIND_OF[row.kind]] = Backlog(waiting=row.waiting, oldest=row.old)
    unindexed = conn.execute(_unindexed).one()
    if unindexed.waiting:
        queued = found[WorkKind.EMBED]
        oldest = min(queued.oldest or unindexed.old, unindexed.old)
        found[WorkKind.EMBED] = Backlog(waiting=queued.waiting + unindexed.waiting, oldest=oldest)
    return found


@without_snapshot
def turns(conn: Connection, work: Sequence[Work]) -> list[Turn]:
    found: dict[tuple[UUID, int], Sequence[Any]] = {}
    for some in common.chunks([piece.id for piece in work]):
        # Consecutive items share a turn.
        found |= {
            (row[0], row[1]): row for row in conn.execute(_claimed_turns, {"ids": some}).fetchall()
        }
    return rows.turns(conn, found.values())


def queueing(kind: WorkKind, *wanted: sa.ColumnElement[bool]) -> sa.Insert:
    """Queue these recall rows at the time `now_`, except those that wait already."""
    queued = sa.select(sa.literal(1)).where(
        schema.work.c.kind == rows.KINDS[kind],
        schema.work.c.scope_id == schema.recall.c.scope_id,
        schema.work.c.seq == schema.recall.c.seq,
    )
    now: sa.BindParameter[datetime] = sa.bindparam("now_", type_=types.UtcTime())
    values = {
        "kind": sa.literal(rows.KINDS[kind]),
        "tenant": schema.recall.c.tenant,
        "scope_id": schema.recall.c.scope_id,
        "episode_id": schema.recall.c.episode_id,
        "ordinal": schema.recall.c.ordinal,
        "seq": schema.recall.c.seq,
        "attempts": sa.literal(0),
        "created_at": now,
        "ready_at": now,
    }
    found = sa.select(*values.values()).where(*wanted, ~queued.exists())
    return sa.insert(schema.work).from_select(list(values), found)


def waiting_rows(conn: Connection, scope: Scope, *, limit: int) -> list[int]:
    kinds = [rows.KINDS[WorkKind.EMBED], rows.KINDS[WorkKind.INDEX]]
    waiting = (
        sa.select(schema.work.c.seq)
        .join(schema.scopes, schema.scopes.c.id == schema.work.c.scope_id)
        .where(common.this_scope(), schema.work.c.kind.in_(kinds))
        .distinct()
        .limit(limit)
    )
    return list(conn.execute(waiting, common.scope_params(conn, scope)).scalars())
