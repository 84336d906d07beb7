"""API keys in a SQL store."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ....ports.api_keys import Keys
from . import rows
from .lazy import Connection, sa, schema
from .statements import audit
from .transactions import Every, Transactions

if TYPE_CHECKING:
    from ....domain.audit import AuditDraft
    from ....domain.identity import ApiKey


class SqlKeys(Transactions, Keys):
    def put_key(self, key: ApiKey, secret_hash: bytes, *, entry: AuditDraft | None = None) -> None:
        self._write(key.tenant, _put, key, secret_hash, entry)

    def find_key(self, key_id: str) -> tuple[ApiKey, bytes] | None:
        return self._read(Every.TENANT, _find, key_id)

    def listed_keys(self, tenant: str | None = None) -> list[ApiKey]:
        return self._read(Every.TENANT if tenant is None else tenant, _listed, tenant)

    def end_key(
        self,
        key_id: str,
        *,
        revoked_at: datetime | None,
        expires_at: datetime,
        entry: AuditDraft | None = None,
    ) -> bool:
        return self._write(Every.TENANT, _end, key_id, revoked_at, expires_at, entry)

    def key_used(self, key_id: str, at: datetime) -> None:
        self._write(Every.TENANT, _used, key_id, at)


def _put(conn: Connection, key: ApiKey, secret_hash: bytes, entry: AuditDraft | None) -> None:
    conn.execute(
        sa.insert(schema.keys).values(
            id=key.id,
            tenant=key.tenant,
            role=key.role.value,
            name=key.name,
            agents=None if key.agents is None else json.dumps(key.agents),
            user=key.user,
            hash=secret_hash,
            created_at=key.created_at,
            expires_at=key.expires_at,
            revoked_at=key.revoked_at,
            last_used_at=key.last_used_at,
        )
    )
    if entry is not None:
        audit.append(conn, entry)


def _find(conn: Connection, key_id: str) -> tuple[ApiKey, bytes] | None:
    row = conn.execute(sa.select(schema.keys).where(schema.keys.c.id == key_id)).one_or_none()
    return None if row is None else (_key(row), row.hash)


def _listed(conn: Connection, tenant: str | None) -> list[ApiKey]:
    whose = sa.true() if tenant is None else schema.keys.c.tenant == tenant
    found = conn.execute(
        sa.select(schema.keys).where(whose).order_by(schema.keys.c.created_at, schema.keys.c.id)
    )
    return [_key(row) for row in found]


def _end(
    conn: Connection,
    key_id: str,
    revoked_at: datetime | None,
    expires_at: datetime,
    entry: AuditDraft | None,
) -> bool:
    row = conn.execute(
        sa.select(schema.keys).where(schema.keys.c.id == key_id).with_for_update()
    ).one_or_none()
    if row is None:
        return False
    soonest = expires_at if row.expires_at is None else min(row.expires_at, expires_at)
    conn.execute(
        sa.update(schema.keys)
        .where(schema.keys.c.id == key_id)
        .values(revoked_at=row.revoked_at or revoked_at, expires_at=soonest)
    )
    if entry is not None:
        audit.append(conn, entry)
    return True


def _used(conn: Connection, key_id: str, at: datetime) -> None:
    conn.execute(sa.update(schema.keys).where(schema.keys.c.id == key_id).values(last_used_at=at))


def _key(row: sa.Row[Any]) -> ApiKey:
    # Only a service has keys: whoever recalls need not wait for what they are made of.
    from ....domain.identity import AccessRole, ApiKey

    agents: Any = None if row.agents is None else rows.load_json(row.agents)
    return ApiKey(
        id=row.id,
        tenant=row.tenant,
        role=AccessRole(row.role),
        name=row.name,
        agents=None if agents is None else tuple(agents),
        user=row.user,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )
