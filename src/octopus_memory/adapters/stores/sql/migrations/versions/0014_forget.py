"""Previews of what is to be forgotten."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from octopus_memory.adapters.stores.sql.types import Name, UtcTime

revision = "0014"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "octopus_forget_previews",
        sa.Column("scope_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("token", sa.String(32), nullable=False),
        sa.Column("tenant", Name(100), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.Column("chosen", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "token"),
        sqlite_with_rowid=False,
    )
    op.create_index("octopus_forget_previews_age", "octopus_forget_previews", ["expires_at"])
