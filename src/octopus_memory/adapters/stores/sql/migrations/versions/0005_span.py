"""Store the span of an episode's recall rows, and an episode's holds."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("octopus_episodes", sa.Column("first_seq", sa.BigInteger()))
    op.add_column("octopus_episodes", sa.Column("last_seq", sa.BigInteger()))
    op.create_index("octopus_holds_episode", "octopus_holds", ["tenant", "episode_id"])
