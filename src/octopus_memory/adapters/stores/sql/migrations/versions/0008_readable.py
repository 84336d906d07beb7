"""The view of episodes for people with a SQL client."""

from __future__ import annotations

from alembic import op

from octopus_memory.adapters.stores.sql import views

revision = "0008"
down_revision = "0006"


def upgrade() -> None:
    views.create(op.get_bind())
