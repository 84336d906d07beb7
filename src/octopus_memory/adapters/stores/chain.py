"""The audit log's statements."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ...domain.audit import GENESIS, AuditDraft, AuditEntry, chained
from . import rows, schema

_audit = schema.audit


def append(conn: sa.Connection, draft: AuditDraft) -> AuditEntry:
    last = conn.execute(
        sa.select(_audit.c.seq, _audit.c.hash)
        .where(_audit.c.tenant == draft.tenant)
        .order_by(_audit.c.seq.desc())
        .limit(1)
    ).one_or_none()
    # Two at once give the same number, and one of them is run again.
    seq, previous = (last.seq + 1, last.hash) if last else (1, GENESIS)
    entry = chained(draft, seq=seq, previous=previous)
    conn.execute(
        sa.insert(_audit).values(
            tenant=entry.tenant,
            seq=entry.seq,
            at=entry.at,
            actor=entry.actor,
            action=entry.action,
            subject=entry.subject,
            outcome=entry.outcome,
            detail=rows.dump_json(entry.detail),
            previous=entry.previous,
            hash=entry.hash,
        )
    )
    return entry


def entries(conn: sa.Connection, tenant: str, *, after: int, limit: int) -> list[AuditEntry]:
    found = conn.execute(
        sa.select(_audit)
        .where(_audit.c.tenant == tenant, _audit.c.seq > after)
        .order_by(_audit.c.seq)
        .limit(limit)
    )
    return [_entry(row) for row in found]


def tenants(conn: sa.Connection) -> list[str]:
    return list(
        conn.execute(sa.select(_audit.c.tenant).distinct().order_by(_audit.c.tenant)).scalars()
    )


def _entry(row: sa.Row[Any]) -> AuditEntry:
    return AuditEntry(
        tenant=row.tenant,
        seq=row.seq,
        at=row.at,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        outcome=row.outcome,
        detail=rows.load_json(row.detail),
        previous=row.previous,
        hash=row.hash,
    )
