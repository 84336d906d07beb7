"""Appending turns, and keeping a session from becoming idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from .....domain.episode import Scope, Session, SessionStatus, Turn
from .....domain.errors import EpisodeChanged, EpisodeNotFound, SessionNotFound
from .....domain.message import Json
from .....ports.values import Append, Placeholder, Target
from .. import column_values, rows
from ..lazy import Connection, sa, schema, sql, types
from ..seals import METADATA
from . import (
    agent_configs,
    close,
    common,
    episodes,
    idempotency,
    index_turns,
    message_keys,
    scopes,
)
from .placeholders import put as put_placeholders


@cache
def _last_at() -> sa.BindParameter[Any]:
    return sa.bindparam("last", type_=types.UtcTime())


def _later_of(known: sa.Column[datetime]) -> sa.Case[datetime]:
    return sa.case((known < _last_at(), _last_at()), else_=known)


@cache
def _in_this_episode() -> sa.ColumnElement[bool]:
    return sa.and_(schema.episodes.c.id == sa.bindparam("episode_"), common.in_scope())


@sql
def _grow_episode() -> Any:
    return (
        sa.update(schema.episodes)
        .where(_in_this_episode(), schema.episodes.c.ended_at.is_(None))
        .values(
            message_count=schema.episodes.c.message_count + sa.bindparam("messages"),
            input_tokens=schema.episodes.c.input_tokens + sa.bindparam("input"),
            output_tokens=schema.episodes.c.output_tokens + sa.bindparam("output"),
            # Turns may arrive out of order. An empty episode has no last turn.
            last_message_at=sa.case(
                (schema.episodes.c.message_count == 0, _last_at()),
                else_=_later_of(schema.episodes.c.last_message_at),
            ),
            last_seen_at=_later_of(schema.episodes.c.last_seen_at),
            touched_at=sa.bindparam("now", type_=types.UtcTime()),
            last_seq=sa.func.coalesce(common.last_seq(), schema.episodes.c.last_seq),
        )
        .returning(
            *(schema.episodes.c[name] for name in ("scope_id", "message_count", "unfindable_from"))
        )
    )


@sql
def _grow_unindexed() -> Any:
    return _grow_episode().values(
        unfindable_from=sa.func.coalesce(
            schema.episodes.c.unfindable_from, schema.episodes.c.message_count
        )
    )


@sql
def _set_unindexed() -> sa.Update:
    return (
        sa.update(schema.episodes)
        .where(common.this_episode())
        .values(unfindable_from=sa.bindparam("first_"))
    )


@sql
def _reopen() -> sa.Update:
    return (
        sa.update(schema.episodes)
        .where(
            common.this_episode(),
            schema.episodes.c.ended_at.is_not(None),
            schema.episodes.c.is_archived.is_(False),
            schema.episodes.c.deleted_at.is_(None),
        )
        .values(
            ended_at=None,
            aged_from=None,
            order_at=column_values.OPEN_END,
            end_reason=None,
            opened_at=sa.bindparam("now_"),
            summarized_by=None,
            **rows.NO_SUMMARY,
        )
    )


@cache
def _ended() -> Any:
    return sa.func.count(schema.episodes.c.ended_at)


@sql
def _session_state() -> sa.Select[Any]:
    return (
        sa.select(
            sa.func.count().label("known"),
            (sa.func.count(schema.episodes.c.id) - _ended()).label("still_open"),
            sa.func.max(schema.episodes.c.started_at).label("latest"),
        )
        .select_from(
            schema.conversations.outerjoin(
                schema.episodes,
                sa.and_(
                    schema.episodes.c.scope_id == schema.conversations.c.scope_id,
                    schema.episodes.c.session_id == schema.conversations.c.session_id,
                ),
            )
        )
        .where(common.this_session())
    )


@sql
def _set_metadata() -> sa.Update:
    return common.set_session_status().values(metadata=sa.bindparam("metadata_"))


@sql
def _insert_session() -> sa.Insert:
    return sa.insert(schema.conversations)


@sql
def _insert_episode() -> sa.Insert:
    return sa.insert(schema.episodes)


@sql
def _insert_turns() -> sa.Insert:
    return sa.insert(schema.turns)


@sql
def _episode_id() -> sa.Select[Any]:
    return sa.select(schema.episodes.c.id).where(
        _in_this_episode(), schema.episodes.c.deleted_at.is_(None)
    )


def append(conn: Connection, write: Append) -> list[Turn]:
    if write.idempotency is not None:
        stored = idempotency.repeated(conn, write.scope, write.idempotency)
        if stored is not None:
            return stored
    scope_id, first_seq = _reserve_rows(conn, write)
    # Read under the lock of the scope, because the settings may have changed by then.
    settings = agent_configs.read_version(conn, write.scope, write.settings)
    match write.target:
        case Target.NEW:
            first = _start(conn, scope_id, first_seq, write)
        case Target.RESUME:
            _resume(conn, scope_id, write)
            scope_id, first = _grow(conn, scope_id, first_seq, write)
        case Target.OPEN:
            scope_id, first = _grow(conn, scope_id, first_seq, write)
    agent_configs.check_version(settings, write.settings)
    episode_key = common.episode_key(write.scope, scope_id, write.episode_id)
    message_keys.put(conn, episode_key, write.session_id, write.keys)
    turns = _insert(conn, episode_key, write, first, first_seq)
    put_placeholders(conn, episode_key, write.session_id, write.placeholders)
    if write.idempotency is not None:
        idempotency.put(conn, scope_id, write, write.idempotency, first)
    if write.closing is not None:
        seq = first_seq + (0 if _is_indexed_later(write) else len(turns))
        is_new = write.target is Target.NEW
        close.end(
            conn, episode_key, write.session_id, seq, write.closing, now=write.now, is_new=is_new
        )
    return turns


def _reserve_rows(conn: Connection, write: Append) -> tuple[int, int]:
    """The scope's number, and the first `seq` of the recall rows written with the turns."""
    count = 0 if _is_indexed_later(write) else len(write.turns)
    count += close.new_row_count(write.closing)
    if count or not write.turns or write.target is Target.RESUME:
        return scopes.take_rows(conn, write.scope, count)
    if write.target is Target.NEW:
        return scopes.lock_or_create(conn, write.scope)[:2]
    if not _is_only_writer(conn):
        scopes.lock_blindly(conn, write.scope)
    # The number comes with the episode.
    return 0, 0


def _is_only_writer(conn: Connection) -> bool:
    """True if no other transaction can write before this one ends."""
    return conn.product == "sqlite"


def _is_indexed_later(write: Append) -> bool:
    """True if the turns are indexed later, by `index_turns`."""
    return bool(write.turns) and all(turn.lexical is None for turn in write.turns)


def _start(conn: Connection, scope_id: int, first_seq: int, write: Append) -> int:
    session, seal = _check_none_open(conn, scope_id, write), conn.seals.of(scope_id)
    whose: dict[str, Any] = {
        "tenant": write.scope.tenant,
        "scope_id": scope_id,
        "session_id": seal.name(write.session_id),
    }
    if session.known:
        _set_session(conn, scope_id, write)
    else:
        new = {
            "status": SessionStatus.ACTIVE.value,
            "metadata": seal.dump_json(METADATA, whose["session_id"], write.metadata or {}),
            "created_at": write.at,
        }
        conn.execute(_insert_session, whose | new)
    spent, made = _tokens(write.turns)
    last = _last_turn_at(write) if write.turns else write.at
    episode = {
        "id": write.episode_id,
        "started_at": _start_time(session.latest, write),
        "last_message_at": last,
        "last_seen_at": last,
        "order_at": column_values.OPEN_END,
        "opened_at": write.now,
        "touched_at": write.now,
        "message_count": len(write.turns),
        "unfindable_from": 0 if _is_indexed_later(write) else None,
        "first_seq": first_seq,
        "last_seq": first_seq + len(write.turns),
        "input_tokens": spent,
        "output_tokens": made,
        "is_archived": False,
        "is_cold": False,
    }
    conn.execute(_insert_episode, whose | episode)
    return 0


def _start_time(latest: datetime | None, write: Append) -> datetime:
    """The start of an episode: a live one never starts before the last of its session.

    The caller took its time before it waited for other writers. An imported episode keeps its own.
    """
    if write.at != write.now or latest is None or latest <= write.at:
        return write.at
    return latest + column_values.MICROSECOND


def _check_none_open(conn: Connection, scope_id: int, write: Append) -> rows.Row:
    """The session: whether it is known, and when its latest episode started."""
    name = conn.seals.of(scope_id).name(write.session_id)
    [row] = conn.execute(_session_state, {"scope_": scope_id, "session_": name})
    if row.still_open:
        raise EpisodeChanged(write.session_id)
    return row


def _set_session(conn: Connection, scope_id: int, write: Append) -> None:
    seal = conn.seals.of(scope_id)
    name = seal.name(write.session_id)
    values: dict[str, Any] = {
        "scope_": scope_id,
        "session_": name,
        "status_": SessionStatus.ACTIVE.value,
    }
    statement = common.set_session_status
    if write.metadata is not None:
        statement = _set_metadata
        values["metadata_"] = seal.dump_json(METADATA, name, write.metadata)
    conn.execute(statement, values)


def _grow(conn: Connection, scope_id: int, first_seq: int, write: Append) -> tuple[int, int]:
    """The scope's number, and the ordinal of the first new turn."""
    if not write.turns:
        return scope_id, _end_without_turns(conn, write)
    is_for_later = _is_indexed_later(write)
    spent, made = _tokens(write.turns)
    # SQLite rewrites the entry in the index of unindexed episodes even if the column does not
    # change.
    at_once = is_for_later and not _is_only_writer(conn)
    row = conn.execute(
        _grow_unindexed if at_once else _grow_episode,
        {
            **common.scope_params(conn, write.scope),
            "episode_": write.episode_id,
            "messages": len(write.turns),
            "input": spent,
            "output": made,
            "last": _last_turn_at(write),
            "last_": None if is_for_later else first_seq + len(write.turns),
            "now": write.now,
        },
    ).one_or_none()
    if row is None:
        _check_exists(conn, write)
        raise EpisodeChanged(write.session_id)
    first = row.message_count - len(write.turns)
    if row.unfindable_from is None:
        if is_for_later:
            this = {"episode_": write.episode_id, "scope_": row.scope_id}
            conn.execute(_set_unindexed, this | {"first_": first})
    elif not is_for_later:
        raise ValueError("the episode's last turns must be indexed before these")
    if write.metadata is not None:
        _set_session(conn, row.scope_id, write)
    return row.scope_id, first


def _end_without_turns(conn: Connection, write: Append) -> int:
    """End an episode by an append without turns, however many it has by now."""
    if write.closing is None:
        raise ValueError("an append to an existing episode needs turns or a closing")
    episode = episodes.episodes(conn, write.scope, [write.episode_id]).get(write.episode_id)
    if episode is None:
        raise EpisodeNotFound(write.episode_id)
    new = write.closing.summary
    removed = (
        new is not None and new.made_of is not None and new.made_of.turns > episode.message_count
    )
    if removed or not episode.is_open:
        raise EpisodeChanged(write.session_id)
    return episode.message_count


def _resume(conn: Connection, scope_id: int, write: Append) -> None:
    _check_exists(conn, write)
    _check_none_open(conn, scope_id, write)
    this = {"episode_": write.episode_id, "scope_": scope_id}
    if not conn.execute(_reopen, this | {"now_": write.now}).rowcount:
        raise EpisodeChanged(write.session_id)
    _set_session(conn, scope_id, write)
    close.drop_summary_rows(conn, write.scope, scope_id, write.episode_id, now=write.now)


def _check_exists(conn: Connection, write: Append) -> None:
    this = {**common.scope_params(conn, write.scope), "episode_": write.episode_id}
    if conn.execute(_episode_id, this).first() is None:
        raise EpisodeNotFound(write.episode_id)


def _last_turn_at(write: Append) -> datetime:
    return max(turn.at for turn in write.turns)


def _tokens(turns: Any) -> tuple[int, int]:
    made = sum([turn.tokens for turn in turns if turn.message.body["role"] == "assistant"])
    return sum([turn.tokens for turn in turns]) - made, made


def _insert(
    conn: Connection, episode: dict[str, Any], write: Append, first: int, first_seq: int
) -> list[Turn]:
    if not write.turns:
        return []
    seal = conn.seals.of(episode["scope_id"])
    log = rows.new_turns(seal, write.turns, first, episode)
    conn.insert(_insert_turns, rows.NEW_TURN, log)
    if not _is_indexed_later(write):
        index_turns.insert_new(conn, episode, write.turns, first, first_seq, now=write.now)
    return [
        rows.stored_turn(new, write.episode_id, write.session_id, ordinal)
        for ordinal, new in enumerate(write.turns, start=first)
    ]


def touch(
    conn: Connection,
    scope: Scope,
    session_id: str,
    *,
    seen_at: datetime,
    now: datetime,
    metadata: Mapping[str, Json] | None = None,
    placeholders: Sequence[Placeholder] = (),
    settings: str | None = None,
) -> Session:
    locked = scopes.lock_scope(conn, scope)
    agent_configs.check_version(agent_configs.read_version(conn, scope, settings), settings)
    state = episodes.session(conn, scope, session_id)
    if locked is None or state is None:
        raise SessionNotFound(session_id)
    if metadata is not None:
        seal = conn.seals.of(locked.id)
        name = seal.name(session_id)
        this = {"scope_": locked.id, "session_": name, "status_": state.session.status.value}
        said = {"metadata_": seal.dump_json(METADATA, name, metadata)}
        conn.execute(_set_metadata, this | said)
    if placeholders and state.episode is not None:
        episode_key = common.episode_key(scope, locked.id, state.episode.id)
        put_placeholders(conn, episode_key, session_id, placeholders)
    if state.episode is not None and state.episode.is_open:
        conn.execute(
            sa.update(schema.episodes)
            .where(schema.episodes.c.id == state.episode.id)
            .values(last_seen_at=max(seen_at, state.session.last_seen_at), touched_at=now)
        )
    after = episodes.session(conn, scope, session_id)
    assert after is not None
    return after.session
