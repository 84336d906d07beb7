"""API keys."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .....domain.errors import KeyMissing
from ..lazy import Connection, sa, schema, sql, types, without_snapshot
from ..seals import USER, load_json
from . import audit, meta

if TYPE_CHECKING:
    from .....domain.audit import AuditDraft
    from .....domain.identity import ApiKey


def put(
    conn: Connection, key: ApiKey, secret_hash: bytes, *, entry: AuditDraft | None = None
) -> None:
    conn.execute(
        sa.insert(schema.keys).values(
            id=key.id,
            tenant=key.tenant,
            role=key.role.value,
            name=key.name,
            agents=None if key.agents is None else json.dumps(key.agents),
            **_of_person(conn, key),
            hash=secret_hash,
            created_at=key.created_at,
            expires_at=key.expires_at,
            revoked_at=key.revoked_at,
            last_used_at=key.last_used_at,
        )
    )
    if entry is not None:
        audit.append(conn, entry)


def _of_person(conn: Connection, key: ApiKey) -> dict[str, Any]:
    """The columns that name the key's user, sealed with a key of the row's own.

    A user's that is not sealed yet is left to `encrypt`, which seals all rows of a user at once.
    """
    kept = None if key.user is None else conn.seals.new_user(key.tenant, key.user)
    if key.user is None or kept == key.user:
        return {"user": key.user}
    ref, seal = conn.seals.new_key()
    sealed = seal.data(USER, key.id, key.user.encode("utf-8", "surrogatepass"))
    return {"user": kept, "key_ref": ref, "sealed_user": sealed}


@sql
def _find() -> sa.Select[Any]:
    return sa.select(schema.keys).where(schema.keys.c.id == sa.bindparam("id_"))


@without_snapshot
def find(conn: Connection, key_id: str) -> tuple[ApiKey, bytes] | None:
    if "\0" in key_id:
        # PostgreSQL refuses to compare with it, and no id has one.
        return None
    row = conn.execute(_find, {"id_": key_id}).one_or_none()
    return None if row is None else (_key(conn, row, is_used=True), row.hash)


@without_snapshot
def listed(conn: Connection, tenant: str | None = None) -> list[ApiKey]:
    whose = sa.true() if tenant is None else schema.keys.c.tenant == tenant
    found = conn.execute(
        sa.select(schema.keys).where(whose).order_by(schema.keys.c.created_at, schema.keys.c.id)
    ).all()
    conn.seals.fetch([], [row.key_ref for row in found])
    return [_key(conn, row) for row in found]


def update(
    conn: Connection,
    key_id: str,
    *,
    used_at: datetime | None = None,
    revoked_at: datetime | None = None,
    expires_at: datetime | None = None,
    entry: AuditDraft | None = None,
) -> bool:
    keys, values = schema.keys, dict[str, Any]()
    if used_at is not None:
        values["last_used_at"] = used_at
    if revoked_at is not None:
        first = sa.literal(revoked_at, types.UtcTime())
        values["revoked_at"] = sa.func.coalesce(keys.c.revoked_at, first)
    if expires_at is not None:
        soonest = sa.literal(expires_at, types.UtcTime())
        values["expires_at"] = sa.case(
            (keys.c.expires_at < soonest, keys.c.expires_at), else_=soonest
        )
    done = conn.execute(sa.update(keys).where(keys.c.id == key_id).values(values))
    if not done.rowcount:
        return False
    if entry is not None:
        audit.append(conn, entry)
    return True


def end_visit(conn: Connection, visit: str, until: datetime, *, now: datetime) -> None:
    names = schema.meta.c.name
    over = sa.and_(names > _VISIT, names < _visit_name("", now))
    conn.execute(sa.delete(schema.meta).where(over))
    meta.put(conn, _visit_name(visit, until), b"ended")


@without_snapshot
def has_visit_ended(conn: Connection, visit: str, until: datetime) -> bool:
    return meta.get(conn, _visit_name(visit, until)) is not None


_VISIT = "visit:"


def _visit_name(visit: str, until: datetime) -> str:
    """Name of a visit's record; in the order of time, so that the database finds old ones."""
    return f"{_VISIT}{until:%Y%m%d%H%M%S}:{visit}"


def _key(conn: Connection, row: sa.Row[Any], *, is_used: bool = False) -> ApiKey:
    # Imported late because only a service has keys.
    from .....domain.identity import AccessRole, ApiKey

    user = row.user
    if row.key_ref is not None:
        try:
            opened = conn.seals.by_ref(row.key_ref).open_data(USER, row.id, bytes(row.sealed_user))
            user = opened.decode("utf-8", "surrogatepass")
        except KeyMissing:
            if is_used:
                raise
            # It is listed all the same, so that it can be revoked.
            user = "cannot be read"
    agents: Any = None if row.agents is None else load_json(row.agents)
    return ApiKey(
        id=row.id,
        tenant=row.tenant,
        role=AccessRole(row.role),
        name=row.name,
        agents=None if agents is None else tuple(agents),
        user=user,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
    )
