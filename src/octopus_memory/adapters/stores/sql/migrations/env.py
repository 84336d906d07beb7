"""Run by Alembic: the connection is the one `migrate.upgrade` hands over."""

from __future__ import annotations

from alembic import context

from octopus_memory.adapters.stores.sql.migrate import VERSION_TABLE
from octopus_memory.adapters.stores.sql.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transaction_per_migration=False,
)
context.run_migrations()
