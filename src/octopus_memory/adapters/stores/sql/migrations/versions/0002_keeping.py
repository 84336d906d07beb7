"""Stages of retention, holds, erasure and its proof, numbered placeholders, API keys."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from octopus_memory.adapters.stores.sql.types import Name, UtcTime, Uuid

revision = "0002"
down_revision = "0001"

_episodes_then = sa.table(
    "octopus_episodes",
    sa.column("is_archived", sa.Boolean()),
    sa.column("archived_at", UtcTime()),
    sa.column("ended_at", UtcTime()),
)
_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _episodes()
    _archive()
    _placeholders_and_holds()
    _proof()
    _keys()
    op.create_table(
        "octopus_jobs",
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("owner", Name()),
        sa.Column("leads_until", UtcTime()),
        sa.Column("last_run", UtcTime()),
        sa.PrimaryKeyConstraint("name"),
        sqlite_with_rowid=True,
    )


def _episodes() -> None:
    cold: sa.Column[Any] = sa.Column(
        "is_cold", sa.Boolean(), nullable=False, server_default=sa.false()
    )
    op.add_column("octopus_episodes", sa.Column("archived_at", UtcTime()))
    op.add_column("octopus_episodes", cold)
    op.add_column("octopus_episodes", sa.Column("aged_from", UtcTime()))
    op.add_column("octopus_episodes", sa.Column("deleted_at", UtcTime()))
    op.execute("UPDATE octopus_episodes SET aged_from = ended_at")
    archived = sa.update(_episodes_then).where(_episodes_then.c.is_archived.is_(sa.true()))
    op.execute(archived.values(archived_at=_episodes_then.c.ended_at))
    op.create_index("octopus_episodes_age", "octopus_episodes", ["is_archived", "aged_from", "id"])
    op.create_index(
        "octopus_episodes_deleted",
        "octopus_episodes",
        ["deleted_at", "id"],
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
        mssql_where=sa.text("deleted_at IS NOT NULL"),
    )


def _archive() -> None:
    op.create_table(
        "octopus_turns_archive",
        sa.Column("row", _KEY, autoincrement=True, nullable=False),
        sa.Column("episode_id", Uuid(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("id", Uuid(), nullable=False),
        sa.Column("tenant", Name(100), nullable=False),
        sa.Column("scope_id", sa.BigInteger(), nullable=False),
        sa.Column("role", sa.SmallInteger(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("agent", Name()),
        sa.Column("has_pii", sa.Boolean(), nullable=False),
        sa.Column("embedding_ref", Name()),
        sa.Column("codec", sa.SmallInteger(), nullable=False),
        sa.Column("message", sa.LargeBinary(), nullable=False),
        sa.Column("tool_codec", sa.SmallInteger()),
        sa.Column("tool_calls", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("row"),
        sa.UniqueConstraint("episode_id", "ordinal", name="octopus_turns_archive_place"),
        sqlite_with_rowid=True,
    )


def _placeholders_and_holds() -> None:
    op.create_table(
        "octopus_placeholders",
        sa.Column("episode_id", Uuid(), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("tenant", Name(100), nullable=False),
        sa.Column("scope_id", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("episode_id", "kind", "number"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "octopus_holds",
        sa.Column("id", Uuid(), nullable=False),
        sa.Column("tenant", Name(100), nullable=False),
        sa.Column("user", Name()),
        sa.Column("episode_id", Uuid()),
        sa.Column("reason", Name(2_000), nullable=False),
        sa.Column("placed_at", UtcTime(), nullable=False),
        sa.Column("placed_by", Name(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=True,
    )
    op.create_index("octopus_holds_tenant", "octopus_holds", ["tenant", "user"])


def _proof() -> None:
    op.create_table(
        "octopus_audit",
        sa.Column("tenant", Name(100), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("actor", Name(), nullable=False),
        sa.Column("action", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(64)),
        sa.Column("outcome", sa.String(64), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("previous", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "seq"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "octopus_erasures",
        sa.Column("id", Uuid(), nullable=False),
        sa.Column("tenant", Name(100), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.Column("subject", sa.String(64), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("receipt", sa.Text()),
        sa.Column("is_finished", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=True,
    )
    op.create_index("octopus_erasures_unfinished", "octopus_erasures", ["is_finished", "at"])


def _keys() -> None:
    op.create_table(
        "octopus_keys",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("tenant", Name(100), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("name", Name(100), nullable=False),
        sa.Column("agents", sa.Text()),
        sa.Column("user", Name()),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("expires_at", UtcTime()),
        sa.Column("revoked_at", UtcTime()),
        sa.Column("last_used_at", UtcTime()),
        sa.PrimaryKeyConstraint("id"),
        sqlite_with_rowid=True,
    )
