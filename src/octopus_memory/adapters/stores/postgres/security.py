"""Row-level security: the database itself limits the rows that a transaction reaches.

A transaction sets `octopus.reach` to "all", or to "tenant:" and a name. A statement without a
tenant condition then finds no other tenant's rows; without the setting it fails.
"""

from __future__ import annotations

import sqlalchemy as sa

from ..sql.transactions import Every, Person, Reach
from ..sql.types import Name
from . import nodes

_SETTING = "current_setting('octopus.reach')"
# In a subquery, so that the server reads the setting once. Citus refuses one in a policy.
_REACHED = f"(SELECT {_SETTING}) IN ('all', 'tenant:' || tenant)"
_REACHED_BY_ROW = f"{_SETTING} IN ('all', 'tenant:' || tenant)"
_PROTECT = (
    "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
    "DROP POLICY IF EXISTS octopus_reach ON {table}",
    "CREATE POLICY octopus_reach ON {table} USING ({reached}) WITH CHECK ({reached})",
)
# Settings for every tenant are readable by every tenant.
_SHARE_SETTINGS = """
    DROP POLICY IF EXISTS octopus_shared ON octopus_agents;
    CREATE POLICY octopus_shared ON octopus_agents FOR SELECT USING (tenant = '')
"""
# No statistics on these columns: they sample values, and would outlive erased rows.
_PRIVATE = (
    "content",
    "detail",
    "digest",
    "fingerprint",
    "key",
    "key_salts",
    "message",
    "metadata",
    "query",
    "reason",
    "sealed_user",
    "session_id",
    "slot_digest",
    "speaker",
    "summary",
    "terms",
    "tool_calls",
    "user",
    "vector",
)
# The schema of the tables need not be first in the search path.
_WITH_TENANT = """
    SELECT quote_ident(c.relname) AS name,
        c.relrowsecurity AND c.relforcerowsecurity
            AND EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid) AS protected
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relkind IN ('r', 'p') AND c.relnamespace = (
            SELECT relnamespace FROM pg_class WHERE oid = to_regclass('octopus_schema')
        )
        AND c.relname LIKE 'octopus\\_%' AND a.attname = 'tenant' AND NOT a.attisdropped
    ORDER BY c.relname
"""
_ROLE = "SELECT rolname, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
_COLUMNS = """
    SELECT quote_ident(a.attname) FROM pg_attribute a
    WHERE a.attrelid = to_regclass(:table) AND a.attnum > 0 AND a.attname = ANY(:names)
"""


EVERYTHING = "all"
"""The value of `octopus.reach` for every tenant."""


def setting(reach: Reach, dialect: sa.Dialect) -> str:
    """The value of `octopus.reach`."""
    if isinstance(reach, Every):
        return EVERYTHING
    tenant = reach.tenant if isinstance(reach, Person) else reach
    return f"tenant:{Name().process_bind_param(tenant, dialect)}"


def why_not_held(conn: sa.Connection) -> str | None:
    """Return why row-level security does not apply to the connected role; None if it does."""
    name, is_superuser, bypasses = conn.exec_driver_sql(_ROLE).one()
    if is_superuser:
        return f"the role {name} is a superuser"
    return f"the role {name} has BYPASSRLS" if bypasses else None


def tables(conn: sa.Connection) -> list[str]:
    """The tables with tenants' rows, including those of indexes."""
    return [row.name for row in conn.execute(sa.text(_WITH_TENANT))]


def protect(conn: sa.Connection, *, on_nodes: bool) -> None:
    """Enable row-level security on every table that lacks it; only the owner can."""
    for row in conn.execute(sa.text(_WITH_TENANT)).all():
        if row.protected:
            continue
        if on_nodes and nodes.is_spread(conn, row.name):
            replace_policy(conn, row.name)
        else:
            _protect(conn, row.name)


def replace_policy(conn: sa.Connection, table: str) -> None:
    """Replace the policy of a table by one that Citus can distribute."""
    if table in tables(conn):
        for statement in _PROTECT:
            conn.exec_driver_sql(statement.format(table=table, reached=_REACHED_BY_ROW))


def _protect(conn: sa.Connection, table: str) -> None:
    for statement in _PROTECT:
        conn.exec_driver_sql(statement.format(table=table, reached=_REACHED))
    if table == "octopus_agents":
        conn.exec_driver_sql(_SHARE_SETTINGS)
    given = {"table": table, "names": list(_PRIVATE)}
    for column in conn.execute(sa.text(_COLUMNS), given).scalars().all():
        conn.exec_driver_sql(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0")
