"""Closing an episode, and its summary."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from .....domain.episode import Episode, Scope, SessionStatus
from .....domain.errors import EpisodeChanged, EpisodeClosed, EpisodeNotFound
from .....ports.recall_rows import RowPart, WorkKind
from .....ports.values import SUMMARY_ORDINAL, Closing, NewSummary
from .. import rows
from ..lazy import Connection, sa, schema, sql, sql_for, types
from . import agent_configs, common, episodes, facts, mirror, placeholders, scopes


@cache
def _ended() -> sa.BindParameter[Any]:
    return sa.bindparam("ended_", type_=types.UtcTime())


@cache
def _set_episode() -> sa.Update:
    return sa.update(schema.episodes).where(common.this_episode())


# The summary's two columns come with the parameters, which name the columns to set.
@sql
def _set_summary() -> sa.Update:
    seq = sa.func.coalesce(common.last_seq(), schema.episodes.c.last_seq)
    return _set_episode().values(summarized_by=sa.bindparam("by_"), last_seq=seq)


@sql
def _end_episode() -> sa.Update:
    return _set_summary().values(
        ended_at=_ended(),
        order_at=_ended(),
        aged_from=_ended(),
        end_reason=sa.bindparam("reason_"),
    )


@sql
def _set_input() -> sa.Update:
    return _set_episode().values(input_tokens=sa.bindparam("tokens_"))


@sql
def _set_output() -> sa.Update:
    return _set_episode().values(output_tokens=sa.bindparam("tokens_"))


def _delete_part(table: sa.Table, part: RowPart) -> sa.Delete:
    is_summary = table.c.ordinal == SUMMARY_ORDINAL
    only = {RowPart.SUMMARY: [is_summary], RowPart.TURNS: [~is_summary], RowPart.ALL: []}
    return common.delete_of_episode(table, common.in_seq_span(table), *only[part])


@sql_for
def _drop_work(part: RowPart) -> sa.Delete:
    # A removal for the mirror is not the episode's own work.
    own = schema.work.c.kind != rows.KINDS[WorkKind.UNINDEX]
    return _delete_part(schema.work, part).where(own)


@sql_for
def _drop_recall(part: RowPart) -> sa.Delete:
    return _delete_part(schema.recall, part)


@sql
def _rewritten() -> sa.Select[Any]:
    return (
        sa.select(schema.recall.c.seq)
        .where(
            schema.recall.c.scope_id == sa.bindparam("scope_"),
            schema.recall.c.seq > sa.bindparam("newest_"),
            schema.recall.c.episode_id == sa.bindparam("episode_"),
            schema.recall.c.ordinal >= 0,
            schema.recall.c.ordinal < sa.bindparam("turns_"),
        )
        .limit(1)
    )


def close_episode(
    conn: Connection,
    now: datetime,
    scope: Scope,
    episode_id: UUID,
    closing: Closing,
    *,
    expect_messages: int,
) -> Episode:
    scope_id, seq = scopes.take_rows(conn, scope, new_row_count(closing))
    decided_by = None if closing.summary is None else closing.summary.settings
    settings = agent_configs.read_version(conn, scope, decided_by)
    before = episodes.episodes(conn, scope, [episode_id]).get(episode_id)
    if before is None:
        raise EpisodeNotFound(episode_id)
    if not before.is_open:
        raise EpisodeClosed(episode_id)
    if before.message_count != expect_messages:
        raise EpisodeChanged(before.session_id)
    agent_configs.check_version(settings, decided_by)
    episode_key = common.episode_key(scope, scope_id, episode_id)
    end(conn, episode_key, before.session_id, seq, closing, now=now)
    return episodes.episodes(conn, scope, [episode_id])[episode_id]


def new_row_count(closing: Closing | None) -> int:
    """The number of recall rows that a closing adds."""
    return 0 if closing is None or closing.summary is None else 1


def end(
    conn: Connection,
    episode_key: dict[str, Any],
    session_id: str,
    seq: int,
    closing: Closing,
    *,
    now: datetime,
    is_new: bool = False,
) -> None:
    """End the episode of `episode_key`; its summary gets the recall row of that `seq`.

    An `is_new` episode began in the same transaction, and has no facts yet.
    """
    new = closing.summary
    this = {"episode_": episode_key["episode_id"], "scope_": episode_key["scope_id"]}
    seal = conn.seals.of(episode_key["scope_id"])
    check_not_rewritten(conn, this, session_id, new)
    conn.execute(
        _end_episode,
        this
        | {
            "ended_": closing.ended_at,
            "reason_": closing.reason.value,
            "by_": None if new is None else new.by,
            "last_": None if new is None else seq,
        }
        | rows.pack_summary(seal, this["episode_"], None if new is None else new.summary),
    )
    if closing.input_tokens is not None:
        conn.execute(_set_input, this | {"tokens_": closing.input_tokens})
    if closing.output_tokens is not None:
        conn.execute(_set_output, this | {"tokens_": closing.output_tokens})
    conn.execute(
        common.set_session_status,
        {
            "scope_": episode_key["scope_id"],
            "session_": seal.name(session_id),
            "status_": SessionStatus.after(closing.reason).value,
        },
    )
    if new is not None:
        placeholders.put(conn, episode_key, session_id, new.placeholders)
        _insert_summary(conn, episode_key, seq, new, at=closing.ended_at, now=now)
        if new.facts is not None:
            facts.replace_found(conn, episode_key, new.facts, is_new=is_new)


def put_summary(
    conn: Connection,
    now: datetime,
    scope: Scope,
    episode_id: UUID,
    summary: NewSummary,
    *,
    replacing: int | None = None,
) -> None:
    locked = scopes.lock_scope(conn, scope)
    before = episodes.episodes(conn, scope, [episode_id]).get(episode_id)
    if locked is None or before is None or before.ended_at is None:
        return
    if replacing is not None and not _is_summary(conn, locked.id, episode_id, replacing):
        return
    if summary.made_of is not None and before.is_archived:
        # Its turns have no recall rows any more, which would show whether they were rewritten.
        raise EpisodeChanged(before.session_id)
    if summary.made_of is not None and summary.made_of.turns > before.message_count:
        # Turns that the summary was made of were removed.
        raise EpisodeChanged(before.session_id)
    agent_configs.check_version(
        agent_configs.read_version(conn, scope, summary.settings), summary.settings
    )
    check_not_rewritten(
        conn, {"episode_": episode_id, "scope_": locked.id}, before.session_id, summary
    )
    drop_summary_rows(conn, scope, locked.id, episode_id, now=now)
    scope_id, seq = scopes.take_rows(conn, scope, 1)
    conn.execute(
        _set_summary,
        {"episode_": episode_id, "scope_": scope_id, "by_": summary.by, "last_": seq}
        | rows.pack_summary(conn.seals.of(scope_id), episode_id, summary.summary),
    )
    episode_key = common.episode_key(scope, scope_id, episode_id)
    placeholders.put(conn, episode_key, before.session_id, summary.placeholders)
    _insert_summary(conn, episode_key, seq, summary, at=before.ended_at, now=now)
    if summary.facts is not None:
        facts.replace_found(conn, episode_key, summary.facts)


def check_not_rewritten(
    conn: Connection, this: dict[str, Any], session_id: str, new: NewSummary | None
) -> None:
    """Refuse a summary of turns that were rewritten meanwhile."""
    if new is None or new.made_of is None:
        return
    read = {"newest_": new.made_of.newest, "turns_": new.made_of.turns}
    if conn.execute(_rewritten, this | read).first() is not None:
        raise EpisodeChanged(session_id)


def _is_summary(conn: Connection, scope_id: int, episode_id: UUID, seq: int) -> bool:
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


def _insert_summary(
    conn: Connection,
    episode_key: dict[str, Any],
    seq: int,
    new: NewSummary,
    *,
    at: datetime,
    now: datetime,
) -> None:
    """Insert a summary's recall row, and the work that it needs."""
    row = {
        "seq": seq,
        "ordinal": SUMMARY_ORDINAL,
        "role": rows.SUMMARY_ROLE,
        "at": at,
        "model_id": None,
    }
    row = episode_key | row | rows.lexical_columns(new.lexical)
    conn.execute(common.insert_recall, conn.seals.of(episode_key["scope_id"]).recall_row(row))
    work = [rows.work_row(WorkKind.EMBED, episode_key, SUMMARY_ORDINAL, seq, now)]
    if new.improve:
        work.append(rows.work_row(WorkKind.SUMMARIZE, episode_key, SUMMARY_ORDINAL, seq, now))
    conn.execute(common.insert_work, work)


def drop_summary_rows(
    conn: Connection, scope: Scope, scope_id: int, episode_id: UUID, *, now: datetime
) -> None:
    drop_rows(conn, scope, scope_id, episode_id, part=RowPart.SUMMARY, now=now)


def drop_rows(
    conn: Connection,
    scope: Scope,
    scope_id: int,
    episode_id: UUID,
    *,
    part: RowPart,
    now: datetime,
) -> int:
    """Delete an episode's recall rows and their work; returns how many rows."""
    _, next_seq = scopes.take_rows(conn, scope, 0, epochs=1)
    these = {"scope_": scope_id, "episode_": episode_id}
    conn.execute(_drop_work(part), these)
    removed = conn.execute(_drop_recall(part), these).rowcount
    mirror.queue_removal(
        conn, scope.tenant, scope_id, episode_id, part=part, before_seq=next_seq, now=now
    )
    return removed
