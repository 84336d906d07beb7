"""The work still to be done: rows that are claimed, finished or given back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ....domain.episode import Scope, Turn
from ....ports.store import SUMMARY_ORDINAL, Backlog, Removal, Work, WorkKind
from .. import rows, schema, types
from .reads import chunks

_scopes, _work, _recall, _jobs = schema.scopes, schema.work, schema.recall, schema.jobs
_episodes, _turns = schema.episodes, schema.turns
_KIND_OF = {number: kind for kind, number in rows.KINDS.items()}
_MOST = 400


def waiting(work: sa.Select[Any], limit: int) -> sa.Select[Any]:
    """What of it can be claimed, passing over what another claimant is taking right now."""
    return (
        work.where(_work.c.kind == sa.bindparam("kind_"), _work.c.ready_at <= sa.bindparam("now_"))
        .order_by(_work.c.ready_at, _work.c.id)
        .limit(limit)
        .with_for_update(of=_work, skip_locked=True)
    )


@cache
def _waiting(limit: int) -> sa.Select[Any]:
    joined = _work.join(_scopes, _scopes.c.id == _work.c.scope_id)
    work = sa.select(_work, _scopes.c.agent, _scopes.c.user).select_from(joined)
    return waiting(work, limit)


_ids: sa.BindParameter[Any] = sa.bindparam("ids", expanding=True)
_these = _work.c.id.in_(_ids)
_lease = (
    sa.update(_work)
    .where(_these)
    .values(owner=sa.bindparam("owner_"), ready_at=sa.bindparam("until_"))
)
_finish = sa.delete(_work).where(_these)
_unfindable = sa.select(
    sa.func.sum(_episodes.c.message_count - _episodes.c.unfindable_from).label("waiting"),
    sa.func.min(_episodes.c.touched_at).label("old"),
).where(_episodes.c.unfindable_from.is_not(None))
_model = sa.select(schema.models.c.id).where(schema.models.c.name == sa.bindparam("model_"))
_insert_model = sa.insert(schema.models).returning(schema.models.c.id)
_bump = (
    sa.update(_scopes)
    .where(_scopes.c.id == sa.bindparam("scope_"), _scopes.c.tenant == sa.bindparam("tenant_"))
    .values(version=_scopes.c.version + 1)
)
_set_vector = (
    sa.update(_recall)
    .where(
        _recall.c.scope_id == sa.bindparam("scope_"),
        _recall.c.seq == sa.bindparam("seq_"),
        _recall.c.tenant == sa.bindparam("tenant_"),
    )
    .values(model_id=sa.bindparam("key_"), vector=sa.bindparam("vector_"))
)
_set_reference = (
    sa.update(_turns)
    .where(
        _turns.c.episode_id == sa.bindparam("episode_"),
        _turns.c.ordinal == sa.bindparam("ordinal_"),
        _turns.c.scope_id == sa.bindparam("scope_"),
    )
    .values(embedding_ref=sa.bindparam("ref_"))
)
_said = (
    sa.select(*rows.TURN_COLUMNS, _episodes.c.session_id)
    .select_from(_work)
    .join(
        _turns,
        sa.and_(
            _turns.c.episode_id == _work.c.episode_id,
            _turns.c.scope_id == _work.c.scope_id,
            _turns.c.ordinal.between(_work.c.ordinal - 1, _work.c.ordinal),
        ),
    )
    .join(_episodes, _episodes.c.id == _turns.c.episode_id)
    .where(_these, _episodes.c.deleted_at.is_(None))
)


def claim(
    conn: sa.Connection,
    kind: WorkKind,
    *,
    owner: str,
    limit: int,
    now: datetime,
    until: datetime,
) -> list[Work]:
    taken = take(conn, _waiting(limit), kind, owner=owner, now=now, until=until)
    return [_claimed(row) for row in taken]


def take(
    conn: sa.Connection,
    waits: sa.Select[Any],
    kind: WorkKind,
    *,
    owner: str,
    now: datetime,
    until: datetime,
) -> Sequence[rows.Row]:
    """Lease what `waiting` made a statement for."""
    taken = list(conn.execute(waits, {"kind_": rows.KINDS[kind], "now_": now}))
    for some in chunks([row.id for row in taken], _MOST):
        conn.execute(_lease, {"ids": some, "owner_": owner, "until_": until})
    return taken


def _claimed(row: rows.Row) -> Work:
    return Work(
        id=row.id,
        kind=_KIND_OF[row.kind],
        scope=Scope(tenant=row.tenant, agent=row.agent, user=row.user),
        scope_id=row.scope_id,
        episode_id=row.episode_id,
        ordinal=row.ordinal,
        seq=row.seq,
        attempts=row.attempts,
    )


def finish(conn: sa.Connection, work: Sequence[Work | Removal]) -> None:
    for some in chunks([piece.id for piece in work], _MOST):
        conn.execute(_finish, {"ids": some})


def postpone(
    conn: sa.Connection,
    work: Sequence[Work | Removal],
    *,
    until: datetime,
    owner: str | None,
) -> None:
    mine = sa.true() if owner is None else _work.c.owner == owner
    for some in chunks([piece.id for piece in work], _MOST):
        conn.execute(
            sa.update(_work)
            .where(_these, mine)
            .values(owner=None, ready_at=until, attempts=_work.c.attempts + 1),
            {"ids": some},
        )


def owners(conn: sa.Connection) -> list[str]:
    held = sa.union(
        sa.select(_work.c.owner).where(_work.c.owner.is_not(None)),
        sa.select(_jobs.c.owner).where(_jobs.c.owner.is_not(None)),
    )
    return [owner for owner in conn.execute(held).scalars() if owner]


def release(conn: sa.Connection, owner: str) -> None:
    conn.execute(
        sa.update(_work)
        .where(_work.c.owner == owner)
        .values(owner=None, ready_at=_work.c.created_at)
    )
    conn.execute(
        sa.update(_jobs).where(_jobs.c.owner == owner).values(owner=None, leads_until=None)
    )


def backlog(conn: sa.Connection) -> dict[WorkKind, Backlog]:
    counted = sa.select(
        _work.c.kind, sa.func.count().label("waiting"), sa.func.min(_work.c.created_at).label("old")
    ).group_by(_work.c.kind)
    found = {kind: Backlog(waiting=0, oldest=None) for kind in WorkKind}
    for row in conn.execute(counted):
        found[_KIND_OF[row.kind]] = Backlog(waiting=row.waiting, oldest=row.old)
    unfindable = conn.execute(_unfindable).one()
    if unfindable.waiting:
        queued = found[WorkKind.EMBED]
        oldest = min(queued.oldest or unfindable.old, unfindable.old)
        found[WorkKind.EMBED] = Backlog(waiting=queued.waiting + unfindable.waiting, oldest=oldest)
    return found


def turns(conn: sa.Connection, work: Sequence[Work]) -> list[Turn]:
    found: dict[tuple[UUID, int], Sequence[Any]] = {}
    for some in chunks([piece.id for piece in work], _MOST):
        # Two pieces that follow each other share a turn.
        found |= {(row[0], row[1]): row for row in conn.execute(_said, {"ids": some}).all()}
    return rows.turns(found.values())


def put_vectors(conn: sa.Connection, model: str, done: Sequence[tuple[Work, bytes]]) -> None:
    key = model_id(conn, model)
    # By its number, not its name: the rows of a scope that was erased and begun again are others.
    # In one order for all: two workers that lock the same scopes would wait for each other.
    tenants = {work.scope_id: work.scope.tenant for work, _ in done}
    conn.execute(_bump, [{"scope_": id_, "tenant_": tenants[id_]} for id_ in sorted(tenants)])
    conn.execute(
        _set_vector,
        [
            {
                "scope_": work.scope_id,
                "seq_": work.seq,
                "tenant_": work.scope.tenant,
                "key_": key,
                "vector_": vector,
            }
            for work, vector in done
        ],
    )
    referenced = [
        {
            "episode_": work.episode_id,
            "ordinal_": work.ordinal,
            "scope_": work.scope_id,
            "ref_": f"{model}/{work.seq}",
        }
        for work, _ in done
        if work.ordinal != SUMMARY_ORDINAL
    ]
    if referenced:
        conn.execute(_set_reference, referenced)
    finish(conn, [work for work, _ in done])


def model_id(conn: sa.Connection, model: str) -> int:
    known = conn.execute(_model, {"model_": model}).first()
    if known is not None:
        return int(known.id)
    return int(conn.execute(_insert_model, {"name": model}).scalar_one())


def use_model(conn: sa.Connection, model: str, *, now: datetime) -> int:
    """Queue every row whose vector is another model's, unless it is queued already."""
    key = model_id(conn, model)
    outdated = _recall.c.model_id.not_in([key, schema.NO_MODEL])
    return conn.execute(queueing(WorkKind.EMBED, outdated), {"now_": now}).rowcount


def queueing(kind: WorkKind, *wanted: sa.ColumnElement[bool]) -> sa.Insert:
    """Queue these recall rows, but for those that wait already, at the time `now_`."""
    queued = sa.select(sa.literal(1)).where(
        _work.c.kind == rows.KINDS[kind],
        _work.c.scope_id == _recall.c.scope_id,
        _work.c.seq == _recall.c.seq,
    )
    now: sa.BindParameter[datetime] = sa.bindparam("now_", type_=types.UtcTime())
    values = {
        "kind": sa.literal(rows.KINDS[kind]),
        "tenant": _recall.c.tenant,
        "scope_id": _recall.c.scope_id,
        "episode_id": _recall.c.episode_id,
        "ordinal": _recall.c.ordinal,
        "seq": _recall.c.seq,
        "attempts": sa.literal(0),
        "created_at": now,
        "ready_at": now,
    }
    found = sa.select(*values.values()).where(*wanted, ~queued.exists())
    return sa.insert(_work).from_select(list(values), found)
