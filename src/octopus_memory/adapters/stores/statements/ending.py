"""How an episode ends: its closing, its summary, and what recall finds it by."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ....domain.episode import Episode, Scope, SessionStatus
from ....domain.errors import EpisodeChanged, EpisodeClosed, EpisodeNotFound
from ....ports.store import SUMMARY_ORDINAL, Closing, NewSummary, RowPart, WorkKind
from .. import rows, schema
from . import mirror, reads, scopes

THIS_EPISODE = sa.and_(
    schema.episodes.c.id == sa.bindparam("episode_"),
    schema.episodes.c.scope_id == sa.bindparam("scope_"),
)
INSERT_RECALL = sa.insert(schema.recall)
INSERT_WORK = sa.insert(schema.work)


def close_episode(
    conn: sa.Connection,
    scope: Scope,
    episode_id: UUID,
    closing: Closing,
    *,
    expect_messages: int,
    now: datetime,
) -> Episode:
    scopes.lock(conn, scope)
    before = reads.episodes(conn, scope, [episode_id]).get(episode_id)
    if before is None:
        raise EpisodeNotFound(episode_id)
    if not before.is_open:
        raise EpisodeClosed(episode_id)
    if before.message_count != expect_messages:
        raise EpisodeChanged(before.session_id)
    return end(conn, scope, episode_id, closing, now=now)


def end(
    conn: sa.Connection, scope: Scope, episode_id: UUID, closing: Closing, *, now: datetime
) -> Episode:
    episodes, conversations = schema.episodes, schema.conversations
    values: dict[str, Any] = {
        "ended_at": closing.ended_at,
        "order_at": closing.ended_at,
        "aged_from": closing.ended_at,
        "end_reason": closing.reason.value,
    }
    if closing.input_tokens is not None:
        values["input_tokens"] = closing.input_tokens
    if closing.output_tokens is not None:
        values["output_tokens"] = closing.output_tokens
    row = conn.execute(
        sa.update(episodes)
        .where(episodes.c.id == episode_id)
        .values(values)
        .returning(episodes.c.scope_id, episodes.c.session_id)
    ).one()
    conn.execute(
        sa.update(conversations)
        .where(
            conversations.c.scope_id == row.scope_id,
            conversations.c.session_id == row.session_id,
        )
        .values(status=SessionStatus.after(closing.reason).value)
    )
    if closing.summary is not None:
        _write_summary(conn, scope, episode_id, closing.summary, at=closing.ended_at, now=now)
    return reads.episodes(conn, scope, [episode_id])[episode_id]


def put_summary(
    conn: sa.Connection,
    scope: Scope,
    episode_id: UUID,
    summary: NewSummary,
    *,
    replacing: int | None = None,
    now: datetime,
) -> None:
    held = scopes.lock(conn, scope)
    before = reads.episodes(conn, scope, [episode_id]).get(episode_id)
    if held is None or before is None or before.ended_at is None:
        return
    if replacing is not None and not _is_summary(conn, held[0], episode_id, replacing):
        return
    drop_summary_rows(conn, scope, held[0], episode_id, now=now)
    _write_summary(conn, scope, episode_id, summary, at=before.ended_at, now=now)


def _is_summary(conn: sa.Connection, scope_id: int, episode_id: UUID, seq: int) -> bool:
    recall = schema.recall
    found = conn.execute(
        sa.select(recall.c.seq).where(
            recall.c.scope_id == scope_id,
            recall.c.seq == seq,
            recall.c.episode_id == episode_id,
            recall.c.ordinal == SUMMARY_ORDINAL,
        )
    )
    return found.first() is not None


def _write_summary(
    conn: sa.Connection,
    scope: Scope,
    episode_id: UUID,
    new: NewSummary,
    *,
    at: datetime,
    now: datetime,
) -> None:
    scope_id, seq = scopes.take_rows(conn, scope, 1)
    conn.execute(
        sa.update(schema.episodes)
        .where(THIS_EPISODE)
        .values(summarized_by=new.by, **rows.pack_summary(new.summary)),
        {"episode_": episode_id, "scope_": scope_id},
    )
    episode = {"tenant": scope.tenant, "scope_id": scope_id, "episode_id": episode_id}
    conn.execute(
        INSERT_RECALL,
        episode
        | {
            "seq": seq,
            "ordinal": SUMMARY_ORDINAL,
            "role": rows.SUMMARY_ROLE,
            "at": at,
            "model_id": None,
        }
        | rows.lexical_columns(new.lexical),
    )
    work = [rows.work_row(WorkKind.EMBED, episode, SUMMARY_ORDINAL, seq, now)]
    if new.improve:
        work.append(rows.work_row(WorkKind.SUMMARIZE, episode, SUMMARY_ORDINAL, seq, now))
    conn.execute(INSERT_WORK, work)


def drop_summary_rows(
    conn: sa.Connection, scope: Scope, scope_id: int, episode_id: UUID, *, now: datetime
) -> None:
    drop_rows(conn, scope, scope_id, episode_id, part=RowPart.SUMMARY, now=now)


def drop_rows(
    conn: sa.Connection,
    scope: Scope,
    scope_id: int,
    episode_id: UUID,
    *,
    part: RowPart,
    now: datetime,
) -> int:
    """Take an episode's rows out of what recall searches; returns how many."""
    _, next_seq = scopes.take_rows(conn, scope, 0, epochs=1)
    removed = 0
    for table in (schema.work, schema.recall):
        wanted = [table.c.scope_id == scope_id, table.c.episode_id == episode_id]
        if table is schema.work:
            # What a remote index must still be told of is not this episode's own work.
            wanted.append(table.c.kind != rows.KINDS[WorkKind.UNINDEX])
        if part is RowPart.SUMMARY:
            wanted.append(table.c.ordinal == SUMMARY_ORDINAL)
        elif part is RowPart.TURNS:
            wanted.append(table.c.ordinal != SUMMARY_ORDINAL)
        removed = conn.execute(sa.delete(table).where(*wanted)).rowcount
    mirror.unfollow(
        conn, scope.tenant, scope_id, episode_id, part=part, before_seq=next_seq, now=now
    )
    return removed
