"""Standing facts about a user, each with its source."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from octopus_memory.adapters.stores.sql.types import Name, UtcTime, Uuid

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "octopus_facts",
        sa.Column("scope_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", Uuid(), nullable=False),
        sa.Column("tenant", Name(100), nullable=False),
        sa.Column("episode_id", Uuid()),
        sa.Column("turn_id", Uuid()),
        sa.Column("ordinal", sa.Integer()),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("since", UtcTime(), nullable=False),
        sa.Column("ends", sa.Boolean(), nullable=False),
        sa.Column("is_pinned", sa.Boolean(), nullable=False),
        sa.Column("codec", sa.SmallInteger()),
        sa.Column("content", sa.LargeBinary()),
        sa.Column("deleted_at", UtcTime()),
        sa.Column("digest", sa.LargeBinary()),
        sa.Column("slot_digest", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("scope_id", "id"),
        sqlite_with_rowid=False,
    )
    op.create_index("octopus_facts_episode", "octopus_facts", ["scope_id", "episode_id"])
