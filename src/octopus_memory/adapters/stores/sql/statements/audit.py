"""The audit log."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from .. import rows
from ..lazy import Connection, sa, schema, sql, without_snapshot
from ..seals import load_json
from . import meta

if TYPE_CHECKING:
    from .....domain.audit import AuditDraft, AuditEntry, AuditHead


@sql
def _insert() -> sa.Insert:
    return sa.insert(schema.audit)


def append(conn: Connection, entry: AuditDraft) -> AuditEntry:
    from .....domain.audit import chained

    # Concurrent writers of one log wait here. Of two that begin a log, one loses the race and
    # retries.
    last = head(conn, entry.tenant, change=True)
    new = chained(entry, seq=last.seq + 1, previous=last.hash)
    conn.execute(
        _insert,
        {
            "tenant": new.tenant,
            "seq": new.seq,
            "at": new.at,
            "actor": new.actor,
            "action": new.action,
            "subject": new.subject,
            "outcome": new.outcome,
            "detail": rows.dump_json(new.detail),
            "previous": new.previous,
            "hash": new.hash,
        },
    )
    meta.put(conn, _head_of(entry.tenant), new.seq.to_bytes(8) + new.hash)
    return new


def head(conn: Connection, tenant: str, *, change: bool = False) -> AuditHead:
    """The end of the log, stored apart from it so that missing entries at the end are noticed."""
    from .....domain.audit import AuditHead

    kept = meta.get(conn, _head_of(tenant), change=change)
    return AuditHead(seq=int.from_bytes(kept[:8]), hash=kept[8:]) if kept else AuditHead()


def _head_of(tenant: str) -> str:
    return f"audit {sha256(tenant.encode()).hexdigest()[:32]}"


@without_snapshot
def entries(
    conn: Connection, tenant: str, *, after: int = 0, limit: int = 1_000
) -> list[AuditEntry]:
    found = conn.execute(
        sa.select(schema.audit)
        .where(schema.audit.c.tenant == tenant, schema.audit.c.seq > after)
        .order_by(schema.audit.c.seq)
        .limit(limit)
    )
    return [_entry(row) for row in found]


def _entry(row: sa.Row[Any]) -> AuditEntry:
    from .....domain.audit import AuditEntry

    return AuditEntry(
        tenant=row.tenant,
        seq=row.seq,
        at=row.at,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        outcome=row.outcome,
        detail=load_json(row.detail),
        previous=row.previous,
        hash=row.hash,
    )
