"""The statements that write, each called inside one transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ...domain.episode import Episode, Scope, SessionStatus, Turn
from ...domain.errors import (
    EpisodeChanged,
    EpisodeClosed,
    EpisodeNotFound,
    IdempotencyConflict,
    SessionNotFound,
)
from ...domain.message import Role
from ...ports.store import (
    SUMMARY_ORDINAL,
    Append,
    Closing,
    Idempotency,
    Lexical,
    NewSummary,
    NewTurn,
    Target,
    WorkKind,
)
from . import reads, rows, schema

_bump_scope = (
    sa.update(schema.scopes)
    .where(reads.WHO)
    .values(
        version=schema.scopes.c.version + 1,
        epoch=schema.scopes.c.epoch + sa.bindparam("epochs"),
        next_seq=schema.scopes.c.next_seq + sa.bindparam("rows"),
    )
    .returning(schema.scopes.c.id, schema.scopes.c.next_seq)
)
_this_episode = sa.and_(
    schema.episodes.c.id == sa.bindparam("episode_"),
    schema.episodes.c.scope_id == sa.bindparam("scope_"),
)
_grow_episode = (
    sa.update(schema.episodes)
    .where(_this_episode, schema.episodes.c.ended_at.is_(None))
    .values(
        message_count=schema.episodes.c.message_count + sa.bindparam("messages"),
        input_tokens=schema.episodes.c.input_tokens + sa.bindparam("input"),
        output_tokens=schema.episodes.c.output_tokens + sa.bindparam("output"),
        last_message_at=sa.bindparam("last"),
        last_seen_at=sa.case(
            (schema.episodes.c.last_seen_at < sa.bindparam("last"), sa.bindparam("last")),
            else_=schema.episodes.c.last_seen_at,
        ),
        touched_at=sa.bindparam("now"),
    )
    .returning(schema.episodes.c.message_count, schema.episodes.c.session_id)
)
_insert_turns = sa.insert(schema.turns)
_insert_recall = sa.insert(schema.recall)
_insert_work = sa.insert(schema.work)


def append(conn: sa.Connection, write: Append) -> list[Turn]:
    if write.idempotency is not None:
        stored = _stored_before(conn, write.scope, write.idempotency)
        if stored is not None:
            return stored
    scope_id, first_seq = _take_rows(conn, write.scope, len(write.turns))
    match write.target:
        case Target.NEW:
            first = _start(conn, scope_id, write)
        case Target.RESUME:
            _resume(conn, scope_id, write)
            first = _grow(conn, scope_id, write)
        case Target.OPEN:
            first = _grow(conn, scope_id, write)
    turns = _insert(conn, scope_id, write, first, first_seq)
    if write.idempotency is not None:
        _remember_key(conn, scope_id, write, write.idempotency, first)
    if write.closing is not None:
        _end(conn, write.scope, write.episode_id, write.closing, now=write.now)
    return turns


def _take_rows(
    conn: sa.Connection, scope: Scope, count: int, *, epochs: int = 0
) -> tuple[int, int]:
    """The scope's key and the first `seq` of `count` new rows; the scope is locked by it."""
    counts = {"rows": count, "epochs": epochs}
    row = conn.execute(_bump_scope, reads.who(scope) | counts).one_or_none()
    if row is not None:
        return row.id, row.next_seq - count
    made = conn.execute(
        sa.insert(schema.scopes).returning(schema.scopes.c.id),
        {
            "tenant": scope.tenant,
            "agent": scope.agent,
            "user": scope.user,
            "version": 1,
            "epoch": epochs,
            "next_seq": 1 + count,
        },
    )
    return made.scalar_one(), 1


def _start(conn: sa.Connection, scope_id: int, write: Append) -> int:
    episodes, conversations = schema.episodes, schema.conversations
    _check_none_open(conn, scope_id, write)
    if not _set_session(conn, scope_id, write):
        conn.execute(
            sa.insert(conversations).values(
                scope_id=scope_id,
                session_id=write.session_id,
                tenant=write.scope.tenant,
                status=SessionStatus.ACTIVE.value,
                metadata=rows.dump_json(write.metadata or {}),
                created_at=write.at,
            )
        )
    spent, made = _tokens(write.turns)
    last = write.turns[-1].at if write.turns else write.at
    conn.execute(
        sa.insert(episodes).values(
            id=write.episode_id,
            tenant=write.scope.tenant,
            scope_id=scope_id,
            session_id=write.session_id,
            started_at=write.at,
            last_message_at=last,
            last_seen_at=last,
            order_at=schema.OPEN_END,
            opened_at=write.now,
            touched_at=write.now,
            message_count=len(write.turns),
            input_tokens=spent,
            output_tokens=made,
            is_archived=False,
        )
    )
    return 0


def _check_none_open(conn: sa.Connection, scope_id: int, write: Append) -> None:
    episodes = schema.episodes
    opened = conn.execute(
        sa.select(episodes.c.id).where(
            episodes.c.scope_id == scope_id,
            episodes.c.session_id == write.session_id,
            episodes.c.ended_at.is_(None),
        )
    ).first()
    if opened is not None:
        raise EpisodeChanged(write.session_id)


def _set_session(conn: sa.Connection, scope_id: int, write: Append) -> bool:
    conversations = schema.conversations
    values: dict[str, Any] = {"status": SessionStatus.ACTIVE.value}
    if write.metadata is not None:
        values["metadata"] = rows.dump_json(write.metadata)
    done = conn.execute(
        sa.update(conversations)
        .where(conversations.c.scope_id == scope_id, conversations.c.session_id == write.session_id)
        .values(values)
    )
    return done.rowcount > 0


def _grow(conn: sa.Connection, scope_id: int, write: Append) -> int:
    if not write.turns:
        return _ends(conn, write)
    spent, made = _tokens(write.turns)
    row = conn.execute(
        _grow_episode,
        {
            "episode_": write.episode_id,
            "scope_": scope_id,
            "messages": len(write.turns),
            "input": spent,
            "output": made,
            "last": write.turns[-1].at,
            "now": write.now,
        },
    ).one_or_none()
    if row is None:
        _known(conn, scope_id, write.episode_id)
        raise EpisodeChanged(write.session_id)
    if write.metadata is not None:
        _set_session(conn, scope_id, write)
    count: int = row.message_count
    return count - len(write.turns)


def _ends(conn: sa.Connection, write: Append) -> int:
    """An append without turns can only end its episode, however many it has by now."""
    if write.closing is None:
        raise ValueError("an append to an episode that exists needs turns or a closing")
    episode = reads.episodes(conn, write.scope, [write.episode_id]).get(write.episode_id)
    if episode is None:
        raise EpisodeNotFound(write.episode_id)
    if not episode.is_open:
        raise EpisodeChanged(write.session_id)
    return episode.message_count


def _resume(conn: sa.Connection, scope_id: int, write: Append) -> None:
    episodes = schema.episodes
    _known(conn, scope_id, write.episode_id)
    _check_none_open(conn, scope_id, write)
    done = conn.execute(
        sa.update(episodes)
        .where(
            episodes.c.id == write.episode_id,
            episodes.c.scope_id == scope_id,
            episodes.c.ended_at.is_not(None),
            episodes.c.is_archived.is_(False),
        )
        .values(
            ended_at=None,
            order_at=schema.OPEN_END,
            end_reason=None,
            opened_at=write.now,
            summarized_by=None,
            **rows.pack_summary(None),
        )
    )
    if not done.rowcount:
        raise EpisodeChanged(write.session_id)
    _set_session(conn, scope_id, write)
    _drop_summary_rows(conn, write.scope, scope_id, write.episode_id)


def _known(conn: sa.Connection, scope_id: int, episode_id: UUID) -> None:
    found = conn.execute(
        sa.select(schema.episodes.c.id).where(_this_episode),
        {"episode_": episode_id, "scope_": scope_id},
    ).first()
    if found is None:
        raise EpisodeNotFound(episode_id)


def _tokens(turns: Any) -> tuple[int, int]:
    made = sum(t.tokens for t in turns if t.message.role is Role.ASSISTANT)
    return sum(t.tokens for t in turns) - made, made


def _insert(
    conn: sa.Connection, scope_id: int, write: Append, first: int, first_seq: int
) -> list[Turn]:
    if not write.turns:
        return []
    episode = {
        "tenant": write.scope.tenant,
        "scope_id": scope_id,
        "episode_id": write.episode_id,
    }
    turns, log, recall, work = [], [], [], []
    for place, new in enumerate(write.turns):
        ordinal, seq = first + place, first_seq + place
        turns.append(
            Turn(
                id=new.id,
                episode_id=write.episode_id,
                session_id=write.session_id,
                ordinal=ordinal,
                message=new.message,
                tokens=new.tokens,
                at=new.at,
                has_pii=new.has_pii,
            )
        )
        log.append(episode | _turn_row(new, ordinal))
        recall.append(episode | _recall_row(new, ordinal, seq))
        if new.embed:
            work.append(_work_row(WorkKind.EMBED, episode, ordinal, seq, write.now))
    conn.execute(_insert_turns, log)
    conn.execute(_insert_recall, recall)
    if work:
        conn.execute(_insert_work, work)
    return turns


def _turn_row(new: NewTurn, ordinal: int) -> dict[str, Any]:
    return {
        "ordinal": ordinal,
        "id": new.id,
        "role": rows.ROLES[new.message.role],
        "at": new.at,
        "tokens": new.tokens,
        "agent": _as_name(new.message.agent),
        "has_pii": new.has_pii,
    } | rows.pack_message(new.message)


def _as_name(agent: str | None) -> str | None:
    """As much of it as a column of names holds; the message keeps it as it was given."""
    return agent and agent.encode("utf-8", "replace").decode()[: schema.LONGEST_NAME]


def _recall_row(new: NewTurn, ordinal: int, seq: int) -> dict[str, Any]:
    return {
        "seq": seq,
        "ordinal": ordinal,
        "role": rows.ROLES[new.message.role],
        "at": new.at,
        "model_id": None if new.embed else schema.NO_MODEL,
    } | _lexical_columns(new.lexical)


def _lexical_columns(lexical: Lexical) -> dict[str, Any]:
    return {"flags": lexical.flags, "speaker": lexical.speaker, "terms": lexical.terms}


def _work_row(
    kind: WorkKind, episode: dict[str, Any], ordinal: int, seq: int, now: datetime
) -> dict[str, Any]:
    return episode | {
        "kind": rows.KINDS[kind],
        "ordinal": ordinal,
        "seq": seq,
        "attempts": 0,
        "created_at": now,
        "ready_at": now,
    }


def _stored_before(
    conn: sa.Connection, scope: Scope, idempotency: Idempotency
) -> list[Turn] | None:
    keys = schema.idempotency
    row = conn.execute(
        sa.select(keys)
        .join(schema.scopes, schema.scopes.c.id == keys.c.scope_id)
        .where(reads.WHO, keys.c.key == idempotency.key),
        reads.who(scope),
    ).one_or_none()
    if row is None:
        return None
    if row.fingerprint != idempotency.fingerprint:
        raise IdempotencyConflict(idempotency.key)
    return reads.turns(conn, scope, row.episode_id, row.first, row.first + row.count)


def _remember_key(
    conn: sa.Connection, scope_id: int, write: Append, idempotency: Idempotency, first: int
) -> None:
    conn.execute(
        sa.insert(schema.idempotency).values(
            scope_id=scope_id,
            key=idempotency.key,
            tenant=write.scope.tenant,
            fingerprint=idempotency.fingerprint,
            episode_id=write.episode_id,
            first=first,
            count=len(write.turns),
            used_at=write.now,
        )
    )


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
    return _end(conn, scope, episode_id, closing, now=now)


def _end(
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
    scope_id, _ = _take_rows(conn, scope, 0)
    _drop_summary_rows(conn, scope, scope_id, episode_id)
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
    scope_id, seq = _take_rows(conn, scope, 1)
    conn.execute(
        sa.update(schema.episodes)
        .where(_this_episode)
        .values(summarized_by=new.by, **rows.pack_summary(new.summary)),
        {"episode_": episode_id, "scope_": scope_id},
    )
    episode = {"tenant": scope.tenant, "scope_id": scope_id, "episode_id": episode_id}
    conn.execute(
        _insert_recall,
        episode
        | {
            "seq": seq,
            "ordinal": SUMMARY_ORDINAL,
            "role": rows.SUMMARY_ROLE,
            "at": at,
            "model_id": None,
        }
        | _lexical_columns(new.lexical),
    )
    work = [_work_row(WorkKind.EMBED, episode, SUMMARY_ORDINAL, seq, now)]
    if new.improve:
        work.append(_work_row(WorkKind.SUMMARIZE, episode, SUMMARY_ORDINAL, seq, now))
    conn.execute(_insert_work, work)


def _drop_summary_rows(conn: sa.Connection, scope: Scope, scope_id: int, episode_id: UUID) -> None:
    _take_rows(conn, scope, 0, epochs=1)
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
    scope_id, _ = _take_rows(conn, scope, 0, epochs=1)
    conn.execute(sa.delete(schema.turns).where(schema.turns.c.episode_id == episode_id))
    for table in (schema.recall, schema.work):
        conn.execute(
            sa.delete(table).where(
                table.c.scope_id == scope_id,
                table.c.episode_id == episode_id,
                table.c.ordinal != SUMMARY_ORDINAL,
            )
        )
    conn.execute(
        sa.update(schema.episodes).where(_this_episode).values(is_archived=True),
        {"episode_": episode_id, "scope_": scope_id},
    )
    return reads.episodes(conn, scope, [episode_id])[episode_id]


def touch(
    conn: sa.Connection, scope: Scope, session_id: str, *, seen_at: datetime, now: datetime
) -> None:
    state = reads.session(conn, scope, session_id)
    if state is None:
        raise SessionNotFound(session_id)
    if state.episode is None or not state.episode.is_open:
        return
    episodes = schema.episodes
    conn.execute(
        sa.update(episodes)
        .where(episodes.c.id == state.episode.id)
        .values(last_seen_at=max(seen_at, state.session.last_seen_at), touched_at=now)
    )
