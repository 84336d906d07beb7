"""Turns that are stored first and made findable afterwards."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("octopus_episodes", sa.Column("unfindable_from", sa.Integer()))
    _index("octopus_episodes_unfindable", ["scope_id", "id"], "unfindable_from IS NOT NULL")
    # Written anew with every turn, and never read: whoever looks for idle episodes needs the row.
    op.drop_index("octopus_episodes_open", "octopus_episodes")
    _index("octopus_episodes_open", ["id"], "ended_at IS NULL")


def _index(name: str, columns: list[str], where: str) -> None:
    op.create_index(
        name,
        "octopus_episodes",
        columns,
        sqlite_where=sa.text(where),
        postgresql_where=sa.text(where),
        mssql_where=sa.text(where),
    )
