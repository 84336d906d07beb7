"""What a remote index must still be told: rows to take in, rows to take out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ....domain.episode import Scope
from ....ports.work import Removal, RowPart, Work, WorkKind
from .. import rows, schema
from . import meta, queue, reads
from .reads import chunks

_work, _recall, _scopes = schema.work, schema.recall, schema.scopes
_insert_work = sa.insert(_work)
_seqs: sa.BindParameter[Any] = sa.bindparam("seqs", expanding=True)
_drop_followed = sa.delete(_work).where(
    _work.c.kind == rows.KINDS[WorkKind.INDEX],
    _work.c.scope_id == sa.bindparam("scope_"),
    _work.c.seq.in_(_seqs),
)
_follow = queue.queueing(
    WorkKind.INDEX,
    _recall.c.scope_id == sa.bindparam("scope_"),
    _recall.c.seq.in_(_seqs),
    _recall.c.vector.is_not(None),
)
_WHOLE_SCOPE = UUID(int=0)
"""Stands for every episode in a removal's row."""
_PART_OF = {number: part for part, number in rows.PARTS.items()}
_MOST = 400


def name(conn: sa.Connection) -> str | None:
    kept = meta.get(conn, meta.MIRROR)
    return kept.decode() if kept else None


def use(conn: sa.Connection, mirror: str | None, *, now: datetime) -> None:
    about = [rows.KINDS[WorkKind.INDEX], rows.KINDS[WorkKind.UNINDEX]]
    conn.execute(sa.delete(_work).where(_work.c.kind.in_(about)))
    meta.put(conn, meta.MIRROR, (mirror or "").encode())
    if mirror is not None:
        queue_all(conn, None, now=now)


def queue_all(conn: sa.Connection, scope_id: int | None, *, now: datetime) -> int:
    model = meta.get(conn, meta.MODEL)
    if model is None or name(conn) is None:
        return 0
    key = queue.model_id(conn, model.decode())
    wanted = [_recall.c.model_id == key]
    if scope_id is not None:
        wanted.append(_recall.c.scope_id == scope_id)
    return conn.execute(queue.queueing(WorkKind.INDEX, *wanted), {"now_": now}).rowcount


def follow(conn: sa.Connection, embedded: Sequence[Work], *, now: datetime) -> None:
    """Queue rows that have just got their vector."""
    if name(conn) is None:
        return
    by_scope: dict[int, list[int]] = {}
    for work in embedded:
        by_scope.setdefault(work.scope_id, []).append(work.seq)
    for scope_id, seqs in by_scope.items():
        for some in chunks(seqs, _MOST):
            # A worker may be giving the row with its former vector right now: what it finishes
            # then must not be this.
            these = {"scope_": scope_id, "seqs": some}
            conn.execute(_drop_followed, these)
            conn.execute(_follow, these | {"now_": now})


def unfollow(
    conn: sa.Connection,
    tenant: str,
    scope_id: int,
    episode_id: UUID | None,
    *,
    part: RowPart = RowPart.ALL,
    before_seq: int,
    now: datetime,
) -> None:
    """Queue the removal of rows that this transaction removes."""
    if name(conn) is None:
        return
    conn.execute(
        _insert_work,
        {
            "kind": rows.KINDS[WorkKind.UNINDEX],
            "tenant": tenant,
            "scope_id": scope_id,
            "episode_id": _WHOLE_SCOPE if episode_id is None else episode_id,
            "ordinal": rows.PARTS[part],
            "seq": before_seq,
            "attempts": 0,
            "created_at": now,
            "ready_at": now,
        },
    )


def claim_removals(
    conn: sa.Connection, *, owner: str, limit: int, now: datetime, until: datetime
) -> list[Removal]:
    waits = queue.waiting(sa.select(_work), limit)
    taken = queue.take(conn, waits, WorkKind.UNINDEX, owner=owner, now=now, until=until)
    return [_removal(row) for row in taken]


def _removal(row: rows.Row) -> Removal:
    return Removal(
        id=row.id,
        tenant=row.tenant,
        scope_id=row.scope_id,
        episode_id=None if row.episode_id == _WHOLE_SCOPE else row.episode_id,
        part=_PART_OF[row.ordinal],
        before_seq=row.seq,
        attempts=row.attempts,
    )


def waiting_removals(conn: sa.Connection, scope_ids: Sequence[int]) -> int:
    kind = rows.KINDS[WorkKind.UNINDEX]
    wanted = sa.select(sa.func.count()).where(_work.c.kind == kind, _work.c.scope_id.in_(scope_ids))
    return int(conn.execute(wanted).scalar_one())


def unindexed(conn: sa.Connection, scope: Scope, limit: int) -> list[int]:
    kinds = [rows.KINDS[WorkKind.EMBED], rows.KINDS[WorkKind.INDEX]]
    waiting = (
        sa.select(_work.c.seq)
        .join(_scopes, _scopes.c.id == _work.c.scope_id)
        .where(reads.WHO, _work.c.kind.in_(kinds))
        .distinct()
        .limit(limit)
    )
    return list(conn.execute(waiting, reads.who(scope)).scalars())


def scopes(conn: sa.Connection, after: int, limit: int) -> list[tuple[int, Scope]]:
    found = conn.execute(
        sa.select(_scopes.c.id, _scopes.c.tenant, _scopes.c.agent, _scopes.c.user)
        .where(_scopes.c.id > after)
        .order_by(_scopes.c.id)
        .limit(limit)
    )
    return [(row.id, Scope(tenant=row.tenant, agent=row.agent, user=row.user)) for row in found]
