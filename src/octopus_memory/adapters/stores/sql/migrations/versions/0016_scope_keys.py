"""The random id of the key that seals a scope, and the user's name sealed with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

_WITH_NAME = ("octopus_scopes", "octopus_keys")


def upgrade() -> None:
    for table in (*_WITH_NAME, "octopus_holds"):
        op.add_column(table, sa.Column("key_ref", sa.String(36)))
    for table in _WITH_NAME:
        op.add_column(table, sa.Column("sealed_user", sa.LargeBinary()))
