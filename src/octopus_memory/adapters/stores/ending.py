"""How an episode ends: its closing, its summary, its archival."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ...domain.episode import Episode, Scope, SessionStatus
from ...domain.errors import EpisodeChanged, EpisodeClosed, EpisodeNotFound
from ...ports.store import SUMMARY_ORDINAL, Closing, NewSummary, WorkKind
from . import reads, rows, schema, scopes

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
    conn: sa.Connection, scope: Scope, episode_id: UUID, summary: NewSummary, *, now: datetime
) -> None:
    before = reads.episodes(conn, scope, [episode_id]).get(episode_id)
    if before is None or before.ended_at is None:
        return
    scope_id, _ = scopes.take_rows(conn, scope, 0)
    drop_summary_rows(conn, scope, scope_id, episode_id)
    _write_summary(conn, scope, episode_id, summary, at=before.ended_at, now=now)


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


def drop_summary_rows(conn: sa.Connection, scope: Scope, scope_id: int, episode_id: UUID) -> None:
    scopes.take_rows(conn, scope, 0, epochs=1)
    for table in (schema.recall, schema.work):
        conn.execute(
            sa.delete(table).where(
                table.c.scope_id == scope_id,
                table.c.episode_id == episode_id,
                table.c.ordinal == SUMMARY_ORDINAL,
            )
        )


def archive(conn: sa.Connection, scope: Scope, episode_id: UUID) -> Episode:
    before = reads.episodes(conn, scope, [episode_id]).get(episode_id)
    if before is None or before.is_open:
        raise EpisodeNotFound(episode_id)
    if before.is_archived:
        return before
    scope_id, _ = scopes.take_rows(conn, scope, 0, epochs=1)
    conn.execute(sa.delete(schema.turns).where(schema.turns.c.episode_id == episode_id))
    for table in (schema.recall, schema.work):
        conn.execute(
            sa.delete(table).where(
                table.c.scope_id == scope_id,
                table.c.episode_id == episode_id,
                table.c.ordinal != SUMMARY_ORDINAL,
            )
        )
    # A key whose turns are gone has nothing left to give back.
    keys = schema.idempotency
    conn.execute(
        sa.delete(keys).where(keys.c.scope_id == scope_id, keys.c.episode_id == episode_id)
    )
    conn.execute(
        sa.update(schema.episodes).where(THIS_EPISODE).values(is_archived=True),
        {"episode_": episode_id, "scope_": scope_id},
    )
    return reads.episodes(conn, scope, [episode_id])[episode_id]
