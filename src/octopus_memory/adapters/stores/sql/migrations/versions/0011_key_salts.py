"""Salts of message keys that an import brought."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("octopus_conversations", sa.Column("key_salts", sa.LargeBinary()))
