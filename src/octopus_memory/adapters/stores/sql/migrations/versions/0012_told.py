"""The times that a turn tells of. Rows made before are queued, and resolved by the worker."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from octopus_memory.adapters.stores.sql.types import UtcTime

revision = "0012"
down_revision = "0011"

_TIMES = 4
"""The kind of work that resolves a turn's times."""
_MAY_TELL = 2 | 4
"""The flags of a text with a number or a word of time."""
_FROM_ROW = ("tenant", "scope_id", "episode_id", "ordinal", "seq")
_recall = sa.table("octopus_recall", *(sa.column(name) for name in (*_FROM_ROW, "flags")))
_work = sa.table(
    "octopus_work",
    *(sa.column(name) for name in ("kind", *_FROM_ROW, "attempts", "created_at", "ready_at")),
)


def upgrade() -> None:
    op.add_column(
        "octopus_recall",
        sa.Column("told", sa.BigInteger(), nullable=False, server_default="0"),
    )
    now = sa.literal(datetime.now(UTC), UtcTime())
    values = {
        "kind": sa.literal(_TIMES),
        **{name: _recall.c[name] for name in _FROM_ROW},
        "attempts": sa.literal(0),
        "created_at": now,
        "ready_at": now,
    }
    may_tell = _recall.c.flags.op("&")(_MAY_TELL) != 0
    turns = sa.select(*values.values()).where(may_tell, _recall.c.ordinal >= 0)
    op.get_bind().execute(sa.insert(_work).from_select(list(values), turns))
