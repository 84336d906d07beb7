"""Agents' stored settings, for one tenant or for every tenant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .....domain.episode import Scope
from .....domain.errors import SettingsChanged
from .....domain.message import Json
from .....ports.admin import AgentSettings
from .. import rows
from ..lazy import Connection, sa, schema, sql, without_snapshot
from ..seals import load_json
from . import audit

if TYPE_CHECKING:
    from .....domain.audit import AuditDraft

FOR_ALL = ""
"""The tenant of settings for every tenant; no real tenant is empty."""


@sql
def _config() -> sa.Select[Any]:
    agents = schema.agents
    own, for_all = agents.c.tenant == sa.bindparam("tenant_"), agents.c.tenant == FOR_ALL
    return sa.select(agents.c.tenant, agents.c.config).where(
        agents.c.agent == sa.bindparam("agent_"), sa.or_(own, for_all)
    )


@sql
def _configs() -> sa.Select[Any]:
    return sa.select(schema.agents)


def _select(conn: Connection, tenant: str, agent: str) -> Any:
    return conn.execute(_config, {"tenant_": tenant, "agent_": agent})


@without_snapshot
def config(conn: Connection, tenant: str | None, agent: str) -> AgentSettings:
    tenant = FOR_ALL if tenant is None else tenant
    texts = dict(_select(conn, tenant, agent).all())
    own, for_all = texts.get(tenant), texts.get(FOR_ALL)
    return AgentSettings(
        for_all=None if for_all is None else load_json(for_all),
        own=None if own is None or tenant == FOR_ALL else load_json(own),
        version=_version(texts),
    )


def read_version(conn: Connection, scope: Scope, expected: str | None) -> Any:
    """The result that `check_version` reads; None if there is nothing to check_version.

    PostgreSQL pipelines it with the next statement, so that it costs no round trip.
    """
    return None if expected is None else _select(conn, scope.tenant, scope.agent)


def check_version(found: Any, expected: str | None) -> None:
    """:raises SettingsChanged: when the settings have another version than the one a write used"""
    if found is not None and _version(dict(found.all())) != expected:
        raise SettingsChanged


def _version(texts: Mapping[str, str]) -> str:
    """The stored texts themselves, so that every change changes the version."""
    return "\0".join(f"{tenant}\0{texts[tenant]}" for tenant in sorted(texts))


@without_snapshot
def configs(conn: Connection) -> dict[tuple[str | None, str], Mapping[str, Json]]:
    return {
        (row.tenant or None, row.agent): load_json(row.config) for row in conn.execute(_configs)
    }


def put(
    conn: Connection,
    tenant: str | None,
    agent: str,
    config: Mapping[str, Json] | None,
    *,
    entry: AuditDraft | None = None,
    seen: str | None = None,
) -> None:
    tenant = FOR_ALL if tenant is None else tenant
    agents = schema.agents
    this = sa.and_(agents.c.tenant == tenant, agents.c.agent == agent)
    # Lock before the version is read, so that a concurrent change waits and then sees this one.
    conn.execute(sa.select(agents.c.agent).where(this).with_for_update()).first()
    if seen is not None and _version(dict(_select(conn, tenant, agent).all())) != seen:
        raise SettingsChanged
    if config is None:
        conn.execute(sa.delete(agents).where(this))
    else:
        text = rows.dump_json(config)
        # Of two concurrent inserts the database refuses one, whose retry sees the other.
        if not conn.execute(sa.update(agents).where(this).values(config=text)).rowcount:
            conn.execute(sa.insert(agents).values(tenant=tenant, agent=agent, config=text))
    if entry is not None:
        audit.append(conn, entry)
