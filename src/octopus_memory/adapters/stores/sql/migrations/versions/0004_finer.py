"""Vectors with room for finer values; terms in three bytes, with counts for the repeated ones.

Everything is made of what is there: a vector keeps its direction, a term's number its lower bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
from alembic import op

from octopus_memory.adapters.stores.sql.types import UtcTime

revision = "0004"
down_revision = "0003"

_BATCH = 1_000
_INDEX = 2
"""The kind of work that gives a row to a remote index."""
_OF_BOTH = ("tenant", "scope_id", "episode_id", "ordinal", "seq")
_BYTES = ("speaker", "terms", "vector")
_recall = sa.table(
    "octopus_recall",
    *(sa.column(name) for name in _OF_BOTH),
    *(sa.column(name, sa.LargeBinary()) for name in _BYTES),
)
_work = sa.table(
    "octopus_work",
    *(sa.column(name) for name in ("kind", *_OF_BOTH, "attempts", "created_at", "ready_at")),
)
_meta = sa.table("octopus_meta", sa.column("name"), sa.column("value", sa.LargeBinary()))


def upgrade() -> None:
    conn = op.get_bind()
    change = (
        sa.update(_recall)
        .where(_recall.c.scope_id == sa.bindparam("scope_"), _recall.c.seq == sa.bindparam("seq_"))
        .values({name: sa.bindparam(f"{name}_") for name in _BYTES})
    )
    for rows in _batches(conn):
        conn.execute(change, [_rewritten(row) for row in rows])
    if conn.dialect.name == "postgresql" and sa.inspect(conn).has_table("octopus_vectors"):
        op.execute(
            "UPDATE octopus_vectors SET terms = "
            "ARRAY(SELECT term & 16777215 FROM unnest(terms) AS term)"
        )
    if conn.execute(sa.select(_meta.c.value).where(_meta.c.name == "mirror")).scalar():
        _give_again(conn)


def _batches(conn: sa.Connection) -> Iterator[Sequence[Any]]:
    scope_id, seq = _recall.c.scope_id, _recall.c.seq
    some = (
        sa.select(scope_id, seq, *(_recall.c[name] for name in _BYTES))
        .order_by(scope_id, seq)
        .limit(_BATCH)
    )
    at_scope, at_seq = 0, 0
    # First what is left of the scope: each of the two is a range of the table's key.
    while rows := (
        conn.execute(some.where(scope_id == at_scope, seq > at_seq)).all()
        or conn.execute(some.where(scope_id > at_scope)).all()
    ):
        yield rows
        at_scope, at_seq = rows[-1].scope_id, rows[-1].seq


def _rewritten(row: Any) -> dict[str, Any]:
    return {
        "scope_": row.scope_id,
        "seq_": row.seq,
        "speaker_": _cut(row.speaker),
        "terms_": _terms(row.terms),
        "vector_": None if row.vector is None else row.vector + bytes(-(-len(row.vector) // 5)),
    }


def _cut(numbers: bytes) -> bytes:
    if len(numbers) % 4:
        return numbers  # Damaged, and told as such when it is recalled.
    return np.frombuffer(numbers, np.uint8).reshape(-1, 4)[:, :3].tobytes()


def _terms(packed: bytes) -> bytes:
    count, odd = divmod(len(packed), 5)
    if odd:
        return packed  # The same.
    numbers = np.frombuffer(packed, np.uint8)[: 4 * count].reshape(-1, 4)[:, :3]
    often = np.frombuffer(packed, np.uint8)[4 * count :]
    again = often > 1
    return b"".join(
        [often[again].tobytes(), b"\0", numbers[again].tobytes(), numbers[~again].tobytes()]
    )


def _give_again(conn: sa.Connection) -> None:
    """Queue every row for the remote index again, because it searches by the terms' numbers too."""
    waits = sa.select(sa.literal(1)).where(
        _work.c.kind == _INDEX,
        _work.c.scope_id == _recall.c.scope_id,
        _work.c.seq == _recall.c.seq,
    )
    now = sa.literal(datetime.now(UTC), UtcTime())
    values = {
        "kind": sa.literal(_INDEX),
        **{name: _recall.c[name] for name in _OF_BOTH},
        "attempts": sa.literal(0),
        "created_at": now,
        "ready_at": now,
    }
    given = sa.select(*values.values()).where(_recall.c.vector.is_not(None), ~waits.exists())
    conn.execute(sa.insert(_work).from_select(list(values), given))
