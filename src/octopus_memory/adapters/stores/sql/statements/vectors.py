"""Vectors, and the model of new ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from .....ports.recall_rows import Work, WorkKind
from .....ports.values import SUMMARY_ORDINAL
from .. import column_values
from ..lazy import Connection, sa, schema, sql
from . import meta, mirror, recall_rows, work


@sql
def _bump_version() -> sa.Update:
    return (
        sa.update(schema.scopes)
        .where(
            schema.scopes.c.id == sa.bindparam("scope_"),
            schema.scopes.c.tenant == sa.bindparam("tenant_"),
        )
        .values(version=schema.scopes.c.version + 1)
    )


@sql
def _set_vector() -> sa.Update:
    return (
        sa.update(schema.recall)
        .where(
            schema.recall.c.scope_id == sa.bindparam("scope_"),
            schema.recall.c.seq == sa.bindparam("seq_"),
            schema.recall.c.tenant == sa.bindparam("tenant_"),
        )
        .values(model_id=sa.bindparam("key_"), vector=sa.bindparam("vector_"))
    )


@sql
def _set_reference() -> sa.Update:
    return (
        sa.update(schema.turns)
        .where(
            schema.turns.c.episode_id == sa.bindparam("episode_"),
            schema.turns.c.ordinal == sa.bindparam("ordinal_"),
            schema.turns.c.scope_id == sa.bindparam("scope_"),
        )
        .values(embedding_ref=sa.bindparam("ref_"))
    )


def put(conn: Connection, model: str, done: Sequence[tuple[Work, bytes]], *, now: datetime) -> bool:
    """Store vectors and finish their work; False if another model is in use by now."""
    # A worker may finish after the model changed. Its items stay in the queue, for the new model.
    if meta.get(conn, meta.MODEL, keep=True) not in (None, model.encode()):
        return False
    _put(conn, model, done)
    mirror.queue_upserts(conn, [work for work, _ in done], now=now)
    return True


def _put(conn: Connection, model: str, done: Sequence[tuple[Work, bytes]]) -> None:
    key = meta.model_id(conn, model)
    # By number, because an erased scope that is created again has other rows under the same name.
    # In one order for all workers, because two that lock the same scopes could deadlock.
    tenants = {piece.scope_id: piece.scope.tenant for piece, _ in done}
    conn.execute(
        _bump_version, [{"scope_": id_, "tenant_": tenants[id_]} for id_ in sorted(tenants)]
    )
    plain = recall_rows.reseal(
        conn, [(piece, {"vector": vector, "model_id": key}) for piece, vector in done]
    )
    if plain:
        conn.execute(
            _set_vector,
            [
                {
                    "scope_": piece.scope_id,
                    "seq_": piece.seq,
                    "tenant_": piece.scope.tenant,
                    "key_": key,
                    "vector_": values["vector"],
                }
                for piece, values in plain
            ],
        )
    referenced = [
        {
            "episode_": piece.episode_id,
            "ordinal_": piece.ordinal,
            "scope_": piece.scope_id,
            "ref_": f"{model}/{piece.seq}",
        }
        for piece, _ in done
        if piece.ordinal != SUMMARY_ORDINAL
    ]
    if referenced:
        conn.execute(_set_reference, referenced)
    work.finish(conn, [piece for piece, _ in done])


def use_model(conn: Connection, model: str, *, now: datetime) -> int:
    """Make a model the one in use, and queue the rows whose vector is another model's."""
    meta.put(conn, meta.MODEL, model.encode())
    key = meta.model_id(conn, model)
    outdated = schema.recall.c.model_id.not_in([key, column_values.NO_MODEL])
    return conn.execute(work.queueing(WorkKind.EMBED, outdated), {"now_": now}).rowcount
