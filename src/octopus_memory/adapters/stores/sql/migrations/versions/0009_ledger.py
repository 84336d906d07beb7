"""The ledger: which memories a model was shown for which turn."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from octopus_memory.adapters.stores.sql.types import Name, UtcTime, Uuid

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "octopus_injections",
        sa.Column("scope_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", Uuid(), nullable=False),
        sa.Column("tenant", Name(100), nullable=False),
        sa.Column("session_id", Name(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("budget_tokens", sa.Integer(), nullable=False),
        sa.Column("block_tokens", sa.Integer(), nullable=False),
        sa.Column("left_out", sa.Integer(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("codec", sa.SmallInteger()),
        sa.Column("query", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("scope_id", "id"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "octopus_injections_session", "octopus_injections", ["scope_id", "session_id", "id"]
    )
    op.create_table(
        "octopus_injected",
        sa.Column("scope_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("injection_id", Uuid(), nullable=False),
        sa.Column("episode_id", Uuid(), nullable=False),
        sa.Column("tenant", Name(100), nullable=False),
        sa.Column("shown", sa.Integer(), nullable=False),
        sa.Column("memories", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "injection_id", "episode_id"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "octopus_injected_episode", "octopus_injected", ["scope_id", "episode_id", "injection_id"]
    )
