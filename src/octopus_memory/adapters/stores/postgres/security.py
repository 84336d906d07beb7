"""Row-level security: whose rows a transaction reaches, held by the database itself.

A transaction says it in the setting `octopus.reach`: "all", or "tenant:" and a name. A statement
without a tenant condition then finds nothing of others, and where nothing was said, nothing.
"""

from __future__ import annotations

import sqlalchemy as sa

from ..sql.transactions import Every, Reach
from ..sql.types import Name

_REACHED = "(SELECT current_setting('octopus.reach')) IN ('all', 'tenant:' || tenant)"
_PROTECT = """
    ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
    ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
    DROP POLICY IF EXISTS octopus_reach ON {table};
    CREATE POLICY octopus_reach ON {table} USING ({reached}) WITH CHECK ({reached})
"""
# Settings that hold for every tenant without its own are every tenant's to read.
_SHARE_SETTINGS = """
    DROP POLICY IF EXISTS octopus_shared ON octopus_agents;
    CREATE POLICY octopus_shared ON octopus_agents FOR SELECT USING (tenant = '')
"""
# The planner's statistics are samples of values, and would outlive what they were taken from.
_PRIVATE = (
    "content",
    "detail",
    "digest",
    "fingerprint",
    "key",
    "message",
    "metadata",
    "query",
    "reason",
    "session_id",
    "slot_digest",
    "speaker",
    "summary",
    "terms",
    "tool_calls",
    "user",
    "vector",
)
# The schema with the tables need not be the first one of the search path.
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


def setting(reach: Reach, dialect: sa.Dialect) -> str:
    """What `octopus.reach` is set to."""
    if isinstance(reach, Every):
        return "all"
    return f"tenant:{Name().process_bind_param(reach, dialect)}"


def why_not_held(conn: sa.Connection) -> str | None:
    """Why row-level security does not hold the role that is connected; None where it does."""
    name, is_superuser, bypasses = conn.exec_driver_sql(_ROLE).one()
    if is_superuser:
        return f"the role {name} is a superuser"
    return f"the role {name} has BYPASSRLS" if bypasses else None


def tables(conn: sa.Connection) -> list[str]:
    """The tables with rows of tenants, those of indexes included."""
    return [row.name for row in conn.execute(sa.text(_WITH_TENANT))]


def protect(conn: sa.Connection) -> None:
    """Protect every table that is not yet; only their owner can."""
    for row in conn.execute(sa.text(_WITH_TENANT)).all():
        if not row.protected:
            _protect(conn, row.name)


def _protect(conn: sa.Connection, table: str) -> None:
    conn.exec_driver_sql(_PROTECT.format(table=table, reached=_REACHED))
    if table == "octopus_agents":
        conn.exec_driver_sql(_SHARE_SETTINGS)
    given = {"table": table, "names": list(_PRIVATE)}
    for column in conn.execute(sa.text(_COLUMNS), given).scalars().all():
        conn.exec_driver_sql(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0")
