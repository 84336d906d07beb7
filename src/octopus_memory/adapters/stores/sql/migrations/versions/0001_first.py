"""The schema of the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from octopus_memory.adapters.stores.sql.types import UtcTime, Uuid

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "octopus_agents",
        sa.Column("tenant", sa.String(length=100), nullable=False),
        sa.Column("agent", sa.String(length=256), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "agent"),
        sqlite_with_rowid=True,
    )
    op.create_table(
        "octopus_conversations",
        sa.Column("scope_id", sa.BigInteger(), nullable=False),
        sa.Column("session_id", sa.String(length=256), nullable=False),
        sa.Column("tenant", sa.String(length=100), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "session_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "octopus_episodes",
        sa.Column("id", Uuid(), nullable=False),
        sa.Column("tenant", sa.String(length=100), nullable=False),
        sa.Column("scope_id", sa.BigInteger(), nullable=False),
        sa.Column("session_id", sa.String(length=256), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=False),
        sa.Column("last_message_at", UtcTime(), nullable=False),
        sa.Column("last_seen_at", UtcTime(), nullable=False),
        sa.Column("ended_at", UtcTime(), nullable=True),
        sa.Column("order_at", UtcTime(), nullable=False),
        sa.Column("opened_at", UtcTime(), nullable=False),
        sa.Column("touched_at", UtcTime(), nullable=False),
        sa.Column("end_reason", sa.String(length=16), nullable=True),
        sa.Column("message_count", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("summary_codec", sa.SmallInteger(), nullable=True),
        sa.Column("summary", sa.LargeBinary(), nullable=True),
        sa.Column("summarized_by", sa.String(length=256), nullable=True),
        sa.Column("is_archived", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=True,
    )
    op.create_index(
        "octopus_episodes_newest", "octopus_episodes", ["scope_id", "order_at", "id"], unique=False
    )
    op.create_index(
        "octopus_episodes_open",
        "octopus_episodes",
        ["id", "touched_at"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
        mssql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        "octopus_episodes_session",
        "octopus_episodes",
        ["scope_id", "session_id", "id"],
        unique=False,
    )
    op.create_table(
        "octopus_idempotency",
        sa.Column("scope_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=256), nullable=False),
        sa.Column("tenant", sa.String(length=100), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("episode_id", Uuid(), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("used_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("scope_id", "key"),
        sqlite_with_rowid=False,
    )
    op.create_index("octopus_idempotency_age", "octopus_idempotency", ["used_at"], unique=False)
    op.create_table(
        "octopus_meta",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sqlite_with_rowid=True,
    )
    op.create_table(
        "octopus_models",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("name", sa.String(length=256), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sqlite_with_rowid=True,
    )
    op.create_table(
        "octopus_recall",
        sa.Column("scope_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant", sa.String(length=100), nullable=False),
        sa.Column("episode_id", Uuid(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("role", sa.SmallInteger(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("flags", sa.SmallInteger(), nullable=False),
        sa.Column("speaker", sa.LargeBinary(), nullable=False),
        sa.Column("terms", sa.LargeBinary(), nullable=False),
        sa.Column("model_id", sa.BigInteger(), nullable=True),
        sa.Column("vector", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("scope_id", "seq"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "octopus_scopes",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("tenant", sa.String(length=100), nullable=False),
        sa.Column("agent", sa.String(length=256), nullable=False),
        sa.Column("user", sa.String(length=256), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant", "user", "agent", name="octopus_scopes_who"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "octopus_turns",
        sa.Column(
            "row",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("episode_id", Uuid(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("id", Uuid(), nullable=False),
        sa.Column("tenant", sa.String(length=100), nullable=False),
        sa.Column("scope_id", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.SmallInteger(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("agent", sa.String(length=256), nullable=True),
        sa.Column("has_pii", sa.Boolean(), nullable=False),
        sa.Column("embedding_ref", sa.String(length=256), nullable=True),
        sa.Column("codec", sa.SmallInteger(), nullable=False),
        sa.Column("message", sa.LargeBinary(), nullable=False),
        sa.Column("tool_codec", sa.SmallInteger(), nullable=True),
        sa.Column("tool_calls", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("row"),
        sa.UniqueConstraint("episode_id", "ordinal", name="octopus_turns_place"),
        sqlite_with_rowid=True,
    )
    op.create_table(
        "octopus_work",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("kind", sa.SmallInteger(), nullable=False),
        sa.Column("tenant", sa.String(length=100), nullable=False),
        sa.Column("scope_id", sa.BigInteger(), nullable=False),
        sa.Column("episode_id", Uuid(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("ready_at", UtcTime(), nullable=False),
        sa.Column("owner", sa.String(length=256), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index("octopus_work_ready", "octopus_work", ["kind", "ready_at", "id"], unique=False)
    op.create_index("octopus_work_subject", "octopus_work", ["scope_id", "seq"], unique=False)
