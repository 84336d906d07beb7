"""Turns that hold what memory itself gave to a model are to be cleaned, by the background work."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    meta = sa.table(
        "octopus_meta", sa.column("name", sa.String()), sa.column("value", sa.LargeBinary())
    )
    # A new database has no records of its own yet, and no turns.
    if op.get_bind().execute(sa.select(meta.c.name).limit(1)).first() is not None:
        op.bulk_insert(meta, [{"name": "own_words", "value": b"owed"}])
