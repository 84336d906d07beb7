"""Keys of messages, sessions that are reset, and turns that are replayed and never recalled."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from octopus_memory.adapters.stores.sql.types import Name

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "octopus_message_keys",
        sa.Column("scope_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("session_id", Name(), nullable=False),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("tenant", Name(100), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "session_id", "digest"),
        sqlite_with_rowid=False,
    )
    op.add_column("octopus_episodes", sa.Column("replay_from", sa.Integer()))
    for table in ("octopus_turns", "octopus_turns_archive"):
        op.add_column(
            table,
            sa.Column("is_indexed", sa.Boolean(), nullable=False, server_default=sa.true()),
        )
