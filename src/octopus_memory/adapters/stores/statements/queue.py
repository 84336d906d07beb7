"""The work still to be done: rows that are claimed, finished or given back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from ....domain.episode import Scope
from ....ports.store import SUMMARY_ORDINAL, Backlog, Removal, Work, WorkKind
from .. import rows, schema, types
from .reads import chunks

_scopes, _work, _recall, _jobs = schema.scopes, schema.work, schema.recall, schema.jobs
_episodes = schema.episodes
_KIND_OF = {number: kind for kind, number in rows.KINDS.items()}
_MOST = 400

_of_scopes = sa.select(_work, _scopes.c.agent, _scopes.c.user).join(
    _scopes, _scopes.c.id == _work.c.scope_id
)
_unfindable = sa.select(
    sa.func.sum(_episodes.c.message_count - _episodes.c.unfindable_from).label("waiting"),
    sa.func.min(_episodes.c.touched_at).label("old"),
).where(_episodes.c.unfindable_from.is_not(None))
_ids: sa.BindParameter[Any] = sa.bindparam("ids", expanding=True)


def claim(
    conn: sa.Connection,
    kind: WorkKind,
    *,
    owner: str,
    limit: int,
    now: datetime,
    until: datetime,
) -> list[Work]:
    waiting = take(conn, _of_scopes, kind, owner=owner, limit=limit, now=now, until=until)
    return [_claimed(row) for row in waiting]


def take(
    conn: sa.Connection,
    work: sa.Select[Any],
    kind: WorkKind,
    *,
    owner: str,
    limit: int,
    now: datetime,
    until: datetime,
) -> Sequence[sa.Row[Any]]:
    """Lease what waits, passing over what another claimant is taking right now."""
    waiting = conn.execute(
        work.where(_work.c.kind == rows.KINDS[kind], _work.c.ready_at <= now)
        .order_by(_work.c.ready_at, _work.c.id)
        .limit(limit)
        .with_for_update(of=_work, skip_locked=True)
    ).all()
    for some in chunks([row.id for row in waiting], _MOST):
        conn.execute(
            sa.update(_work).where(_work.c.id.in_(_ids)).values(owner=owner, ready_at=until),
            {"ids": some},
        )
    return waiting


def _claimed(row: sa.Row[Any]) -> Work:
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
        conn.execute(sa.delete(_work).where(_work.c.id.in_(_ids)), {"ids": some})


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
            .where(_work.c.id.in_(_ids), mine)
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


def put_vectors(conn: sa.Connection, model: str, done: Sequence[tuple[Work, bytes]]) -> None:
    key = model_id(conn, model)
    # By its number, not its name: the rows of a scope that was erased and begun again are others.
    by_scope: dict[tuple[str, int], list[tuple[Work, bytes]]] = defaultdict(list)
    for work, vector in done:
        by_scope[work.scope.tenant, work.scope_id].append((work, vector))
    for (tenant, scope_id), pieces in sorted(by_scope.items()):
        _put_in_scope(conn, tenant, scope_id, key, model, pieces)
    finish(conn, [work for work, _ in done])


def _put_in_scope(
    conn: sa.Connection,
    tenant: str,
    scope_id: int,
    key: int,
    model: str,
    pieces: list[tuple[Work, bytes]],
) -> None:
    known = conn.execute(
        sa.update(_scopes)
        .where(_scopes.c.id == scope_id, _scopes.c.tenant == tenant)
        .values(version=_scopes.c.version + 1)
    )
    if not known.rowcount:
        return
    conn.execute(
        sa.update(_recall)
        .where(
            _recall.c.scope_id == sa.bindparam("scope_"),
            _recall.c.seq == sa.bindparam("seq_"),
            _recall.c.tenant == sa.bindparam("tenant_"),
        )
        .values(model_id=sa.bindparam("key_"), vector=sa.bindparam("vector_")),
        [
            {
                "scope_": scope_id,
                "seq_": work.seq,
                "tenant_": tenant,
                "key_": key,
                "vector_": vector,
            }
            for work, vector in pieces
        ],
    )
    turns = schema.turns
    referenced = [
        {
            "episode_": work.episode_id,
            "ordinal_": work.ordinal,
            "scope_": scope_id,
            "ref_": f"{model}/{work.seq}",
        }
        for work, _ in pieces
        if work.ordinal != SUMMARY_ORDINAL
    ]
    if referenced:
        conn.execute(
            sa.update(turns)
            .where(
                turns.c.episode_id == sa.bindparam("episode_"),
                turns.c.ordinal == sa.bindparam("ordinal_"),
                turns.c.scope_id == sa.bindparam("scope_"),
            )
            .values(embedding_ref=sa.bindparam("ref_")),
            referenced,
        )


def model_id(conn: sa.Connection, model: str) -> int:
    models = schema.models
    known = conn.execute(sa.select(models.c.id).where(models.c.name == model)).scalar()
    if known is not None:
        return int(known)
    made = conn.execute(sa.insert(models).values(name=model).returning(models.c.id))
    return int(made.scalar_one())


def use_model(conn: sa.Connection, model: str, *, now: datetime) -> int:
    """Queue every row whose vector is another model's, unless it is queued already."""
    key = model_id(conn, model)
    outdated = _recall.c.model_id.not_in([key, schema.NO_MODEL])
    return queue_rows(conn, WorkKind.EMBED, [outdated], now=now)


def queue_rows(
    conn: sa.Connection,
    kind: WorkKind,
    wanted: Sequence[sa.ColumnElement[bool]],
    *,
    now: datetime,
) -> int:
    """Queue these recall rows, but for those that wait already; returns how many."""
    queued = sa.select(sa.literal(1)).where(
        _work.c.kind == rows.KINDS[kind],
        _work.c.scope_id == _recall.c.scope_id,
        _work.c.seq == _recall.c.seq,
    )
    values = {
        "kind": sa.literal(rows.KINDS[kind]),
        "tenant": _recall.c.tenant,
        "scope_id": _recall.c.scope_id,
        "episode_id": _recall.c.episode_id,
        "ordinal": _recall.c.ordinal,
        "seq": _recall.c.seq,
        "attempts": sa.literal(0),
        "created_at": sa.literal(now, types.UtcTime()),
        "ready_at": sa.literal(now, types.UtcTime()),
    }
    found = sa.select(*values.values()).where(*wanted, ~queued.exists())
    done = conn.execute(sa.insert(_work).from_select(list(values), found))
    return done.rowcount
