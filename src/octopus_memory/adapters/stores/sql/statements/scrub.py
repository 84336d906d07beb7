"""New text for stored turns: the log's rows, and what recall finds them by. The statements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....domain.episode import Scope
from .....domain.errors import EpisodeChanged
from .....ports.store import RowPart, WorkKind
from .. import column_values, rows
from ..lazy import Connection, sa, schema
from . import close, episodes, mirror, scopes
from . import work as work_sql

if TYPE_CHECKING:
    from .....ports.carried import Rewritten


def turns_of(row: rows.Row) -> sa.Table:
    """Where the turns of an episode are."""
    return schema.turns_archive if row.is_cold else schema.turns


def turns(conn: Connection, scope_id: int, row: rows.Row, new_turns: Sequence[Rewritten]) -> None:
    table = turns_of(row)
    here = sa.and_(table.c.episode_id == row.id, table.c.scope_id == scope_id)
    kept = set(conn.execute(sa.select(table.c.ordinal).where(here)).scalars())
    if not kept.issuperset(new.ordinal for new in new_turns):
        raise EpisodeChanged(row.session_id)
    values = [
        {"tokens": new.tokens, "has_pii": new.has_pii, "embedding_ref": None}
        | rows.pack_message(new.message)
        for new in new_turns
    ]
    conn.execute(
        sa.update(table)
        .where(here, table.c.ordinal == sa.bindparam("ordinal_"))
        .values({name: sa.bindparam(f"{name}_") for name in values[0]}),
        [
            {"ordinal_": new.ordinal} | {f"{name}_": value for name, value in each.items()}
            for new, each in zip(new_turns, values, strict=True)
        ],
    )


def recall_rows(
    conn: Connection,
    scope: Scope,
    scope_id: int,
    episode_id: UUID,
    new_turns: Sequence[Rewritten],
    *,
    now: datetime,
) -> None:
    """Rows of new turns get new numbers: what was begun for the old text finds nothing to put.

    A remote index is told to remove all of an episode's turns below a number, so with one the rows
    that stay as they are move above it too, and are given to it again.
    """
    changed = {new.ordinal: new for new in new_turns}
    here = sa.and_(
        schema.recall.c.scope_id == scope_id,
        schema.recall.c.episode_id == episode_id,
        schema.recall.c.ordinal >= 0,
        close.in_span(schema.recall),
    )
    this = {"episode_": episode_id, "scope_": scope_id}
    found = conn.execute(
        sa.select(schema.recall).where(here).order_by(schema.recall.c.ordinal), this
    ).mappings()
    mirrored = mirror.name(conn) is not None
    moved = [dict(row) for row in found if mirrored or row["ordinal"] in changed]
    if not moved:
        return
    waiting = remove_rows(conn, scope_id, [row["seq"] for row in moved])
    _, first = scopes.take_rows(conn, scope, len(moved), epochs=1)
    episode = {"tenant": scope.tenant, "scope_id": scope_id, "episode_id": episode_id}
    recall, work = [], []
    for seq, row in enumerate(moved, start=first):
        new = changed.get(row["ordinal"])
        recall.append(row | {"seq": seq} | _as_new(new))
        if row["seq"] in waiting if new is None else new.embed:
            work.append(rows.work_row(WorkKind.EMBED, episode, row["ordinal"], seq, now))
    conn.execute(close.insert_recall, recall)
    close.note_last(conn, episode, first + len(moved) - 1)
    if work:
        conn.execute(close.insert_work, work)
    if mirrored:
        tell_mirror(conn, scope, scope_id, episode_id, recall, first, now=now)


def _as_new(new: Rewritten | None) -> dict[str, Any]:
    if new is None:
        return {}
    model = None if new.embed else column_values.NO_MODEL
    return {"model_id": model, "vector": None} | rows.lexical_columns(new.lexical)


def remove_rows(conn: Connection, scope_id: int, seqs: list[int]) -> set[int]:
    """Take these rows and their work away; returns which of them waited for a vector."""
    waiting: set[int] = set()
    for some in episodes.chunks(seqs):
        # What a remote index must still be told has a number in that place that is no row's.
        mine = sa.and_(
            schema.work.c.scope_id == scope_id,
            schema.work.c.seq.in_(some),
            schema.work.c.kind != rows.KINDS[WorkKind.UNINDEX],
        )
        embed = sa.select(schema.work.c.seq).where(
            mine, schema.work.c.kind == rows.KINDS[WorkKind.EMBED]
        )
        waiting.update(conn.execute(embed).scalars())
        conn.execute(sa.delete(schema.work).where(mine))
        conn.execute(
            sa.delete(schema.recall).where(
                schema.recall.c.scope_id == scope_id, schema.recall.c.seq.in_(some)
            )
        )
    return waiting


def tell_mirror(
    conn: Connection,
    scope: Scope,
    scope_id: int,
    episode_id: UUID,
    recall: list[dict[str, Any]],
    first: int,
    *,
    now: datetime,
) -> None:
    mirror.unfollow(
        conn,
        scope.tenant,
        scope_id,
        episode_id,
        part=RowPart.TURNS,
        before_seq=first,
        now=now,
    )
    kept = [row for row in recall if row["vector"] is not None]
    if not kept:
        return
    above = [
        schema.recall.c.scope_id == scope_id,
        schema.recall.c.seq >= first,
        schema.recall.c.vector.is_not(None),
    ]
    conn.execute(work_sql.queueing(WorkKind.INDEX, *above), {"now_": now})
    set_references(conn, scope_id, episode_id, kept)


def set_references(
    conn: Connection, scope_id: int, episode_id: UUID, recall: list[dict[str, Any]]
) -> None:
    """Name the vector of each turn by the number that its recall row has now."""
    kept = [row for row in recall if row["vector"] is not None]
    if not kept:
        return
    models = {row.id: row.name for row in conn.execute(sa.select(schema.models))}
    table = schema.turns
    conn.execute(
        sa.update(table)
        .where(
            table.c.episode_id == episode_id,
            table.c.scope_id == scope_id,
            table.c.ordinal == sa.bindparam("ordinal_"),
        )
        .values(embedding_ref=sa.bindparam("ref_")),
        [
            {"ordinal_": row["ordinal"], "ref_": f"{models[row['model_id']]}/{row['seq']}"}
            for row in kept
        ],
    )
