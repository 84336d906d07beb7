"""Work for the mirror: rows to send, rows to delete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....ports.recall_rows import RowPart, Work, WorkKind
from .. import column_values, rows
from ..lazy import Connection, sa, schema, sql
from . import common, meta
from . import work as work_statements

if TYPE_CHECKING:
    from .....domain.erasure import Erasure


@sql
def _insert_work() -> sa.Insert:
    return sa.insert(schema.work)


@cache
def _seqs() -> sa.BindParameter[Any]:
    return sa.bindparam("seqs", expanding=True)


@sql
def _drop_queued() -> sa.Delete:
    return sa.delete(schema.work).where(
        schema.work.c.kind == rows.KINDS[WorkKind.INDEX],
        schema.work.c.scope_id == sa.bindparam("scope_"),
        schema.work.c.seq.in_(_seqs()),
    )


@sql
def _queue_upserts() -> sa.Insert:
    return work_statements.queueing(
        WorkKind.INDEX,
        schema.recall.c.scope_id == sa.bindparam("scope_"),
        schema.recall.c.seq.in_(_seqs()),
        schema.recall.c.model_id > column_values.NO_MODEL,
    )


def name(conn: Connection) -> str | None:
    kept = meta.get(conn, meta.MIRROR)
    return kept.decode() if kept else None


def use(conn: Connection, mirror: str | None, *, now: datetime) -> None:
    about = [rows.KINDS[WorkKind.INDEX], rows.KINDS[WorkKind.UNINDEX]]
    conn.execute(sa.delete(schema.work).where(schema.work.c.kind.in_(about)))
    meta.put(conn, meta.MIRROR, (mirror or "").encode())
    if mirror is not None:
        queue_all(conn, now)


def queue_all(conn: Connection, now: datetime, scope_id: int | None = None) -> int:
    model = meta.get(conn, meta.MODEL)
    if model is None or name(conn) is None:
        return 0
    key = meta.model_id(conn, model.decode())
    wanted = [schema.recall.c.model_id == key]
    if scope_id is not None:
        wanted.append(schema.recall.c.scope_id == scope_id)
    return conn.execute(work_statements.queueing(WorkKind.INDEX, *wanted), {"now_": now}).rowcount


def queue_upserts(conn: Connection, embedded: Sequence[Work], *, now: datetime) -> None:
    """Queue rows that were embedded just now."""
    if name(conn) is None:
        return
    by_scope: dict[int, list[int]] = {}
    for work in embedded:
        by_scope.setdefault(work.scope_id, []).append(work.seq)
    for scope_id, seqs in by_scope.items():
        for some in common.chunks(seqs):
            # Replace items that wait: a worker may be sending the old vector, and must not finish
            # this one.
            these = {"scope_": scope_id, "seqs": some}
            conn.execute(_drop_queued, these)
            conn.execute(_queue_upserts, these | {"now_": now})


def queue_removal(
    conn: Connection,
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
            "episode_id": work_statements.WHOLE_SCOPE if episode_id is None else episode_id,
            "ordinal": rows.PARTS[part],
            "seq": before_seq,
            "attempts": 0,
            "created_at": now,
            "ready_at": now,
        },
    )


def waiting_removals(conn: Connection, erasure: Erasure) -> int:
    work, kind = schema.work, rows.KINDS[WorkKind.UNINDEX]
    of_kind = sa.select(sa.func.count()).where(work.c.kind == kind)
    found = [
        conn.execute(of_kind.where(work.c.scope_id.in_(some))).scalar_one()
        for some in common.chunks(erasure.scope_ids)
    ]
    return sum(found)
