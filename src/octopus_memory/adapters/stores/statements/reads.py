"""The statements that read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from ....domain.episode import Episode, Scope, Turn
from ....ports.store import Lexical, OpenEpisode, Placeholder, RecallRow, RecallState, SessionState
from .. import rows, schema, types

T = TypeVar("T")

_MOST_IDS = 400
"""Ids in one statement: under every database's limit on parameters."""

_MOST_PLACES = 16

_scopes, _episodes, _turns = schema.scopes, schema.episodes, schema.turns
_conversations, _recall = schema.conversations, schema.recall

WHO = sa.and_(
    _scopes.c.tenant == sa.bindparam("tenant_"),
    _scopes.c.agent == sa.bindparam("agent_"),
    _scopes.c.user == sa.bindparam("user_"),
)


def who(scope: Scope) -> dict[str, Any]:
    """The parameters of `WHO`."""
    return {"tenant_": scope.tenant, "agent_": scope.agent, "user_": scope.user}


_scope_id = sa.select(_scopes.c.id).where(WHO).scalar_subquery()
IN_SCOPE = sa.and_(_episodes.c.scope_id == _scope_id, _episodes.c.tenant == sa.bindparam("tenant_"))
_in_scope = sa.and_(IN_SCOPE, _episodes.c.deleted_at.is_(None))

_session = (
    sa.select(_conversations, *(c for c in rows.EPISODE_COLUMNS if c.name != "session_id"))
    .outerjoin(
        _episodes,
        sa.and_(
            _episodes.c.scope_id == _conversations.c.scope_id,
            _episodes.c.session_id == _conversations.c.session_id,
            _episodes.c.deleted_at.is_(None),
        ),
    )
    .where(
        _conversations.c.scope_id == _scope_id,
        _conversations.c.tenant == sa.bindparam("tenant_"),
        _conversations.c.session_id == sa.bindparam("session_"),
    )
    # Not by id: the clock that ids are made by can be set back.
    .order_by(
        sa.case((_episodes.c.ended_at.is_(None), 0), else_=1),
        _episodes.c.started_at.desc(),
        _episodes.c.id.desc(),
    )
    .limit(1)
)
_session_episodes = (
    sa.select(*rows.EPISODE_COLUMNS)
    .where(_in_scope, _episodes.c.session_id == sa.bindparam("session_"))
    .order_by(_episodes.c.started_at, _episodes.c.id)
)
_episodes_by_id = sa.select(*rows.EPISODE_COLUMNS).where(
    _in_scope, _episodes.c.id.in_(sa.bindparam("ids", expanding=True))
)
_turns_in_scope = (
    sa.select(*rows.TURN_COLUMNS, _episodes.c.session_id)
    .join(_episodes, _episodes.c.id == _turns.c.episode_id)
    .where(_in_scope)
)
_turns_among = _turns_in_scope.where(
    _turns.c.episode_id.in_(sa.bindparam("episodes", expanding=True)),
    _turns.c.ordinal.in_(sa.bindparam("ordinals", expanding=True)),
)
_turns_between = _turns_in_scope.where(
    _turns.c.episode_id == sa.bindparam("episode_"),
    _turns.c.ordinal >= sa.bindparam("start_"),
    _turns.c.ordinal < sa.bindparam("stop_"),
).order_by(_turns.c.ordinal)
_recall_rows = sa.select(
    _recall.c.seq,
    _recall.c.episode_id,
    _recall.c.ordinal,
    _recall.c.role,
    _recall.c.at,
    _recall.c.flags,
    _recall.c.speaker,
    _recall.c.terms,
    _recall.c.model_id,
    _recall.c.vector,
).where(_recall.c.scope_id == _scope_id, _recall.c.tenant == sa.bindparam("tenant_"))
_recall_after = _recall_rows.where(_recall.c.seq > sa.bindparam("after_")).order_by(_recall.c.seq)
_recall_at = _recall_rows.where(_recall.c.seq.in_(sa.bindparam("seqs", expanding=True))).order_by(
    _recall.c.seq
)
_models = sa.select(schema.models)
_state = sa.select(_scopes.c.id, _scopes.c.version, _scopes.c.epoch, _scopes.c.next_seq).where(WHO)


def session(conn: sa.Connection, scope: Scope, session_id: str) -> SessionState | None:
    row = conn.execute(_session, who(scope) | {"session_": session_id}).one_or_none()
    if row is None or row.id is None:
        # Unknown, or every episode of it is deleted.
        return None
    return SessionState(session=rows.session(row, scope), episode=rows.episode(row, scope))


def episodes(conn: sa.Connection, scope: Scope, ids: Sequence[UUID]) -> dict[UUID, Episode]:
    found: dict[UUID, Episode] = {}
    for some in chunks(ids, _MOST_IDS):
        for row in conn.execute(_episodes_by_id, who(scope) | {"ids": some}):
            found[row.id] = rows.episode(row, scope)
    return found


def session_episodes(conn: sa.Connection, scope: Scope, session_id: str) -> list[Episode]:
    parameters = who(scope) | {"session_": session_id}
    return [rows.episode(row, scope) for row in conn.execute(_session_episodes, parameters)]


def list_episodes(
    conn: sa.Connection,
    scope: Scope,
    *,
    offset: int,
    limit: int,
    since: datetime | None,
    until: datetime | None,
    include_archived: bool,
    include_open: bool,
    leave_out_session: str | None,
) -> tuple[list[Episode], int]:
    wanted: list[sa.ColumnElement[bool]] = [_in_scope]
    if since is not None:
        wanted.append(_episodes.c.order_at >= since)
    if until is not None:
        wanted.append(_episodes.c.started_at <= until)
    if not include_archived:
        wanted.append(_episodes.c.is_archived.is_(False))
    if not include_open:
        wanted.append(_episodes.c.ended_at.is_not(None))
    if leave_out_session is not None:
        wanted.append(_episodes.c.session_id != leave_out_session)
    page = (
        sa.select(*rows.EPISODE_COLUMNS)
        .where(*wanted)
        .order_by(_episodes.c.order_at.desc(), _episodes.c.id.desc())
        .offset(offset)
        .limit(limit)
    )
    # Not every dialect has a page of no rows.
    found = [rows.episode(row, scope) for row in conn.execute(page, who(scope))] if limit else []
    if offset == 0 and len(found) < limit:
        return found, len(found)
    count = sa.select(sa.func.count()).select_from(_episodes).where(*wanted)
    return found, conn.execute(count, who(scope)).scalar_one()


def turns(
    conn: sa.Connection, scope: Scope, episode_id: UUID, start: int, stop: int | None
) -> list[Turn]:
    parameters = who(scope) | {
        "episode_": episode_id,
        "start_": start,
        "stop_": 2**31 - 1 if stop is None else stop,
    }
    return [rows.turn(row, row.session_id) for row in conn.execute(_turns_between, parameters)]


def turns_at(conn: sa.Connection, scope: Scope, places: Sequence[tuple[UUID, int]]) -> list[Turn]:
    found = []
    # Not every dialect can look for pairs: of a few episodes and ordinals, take those that match.
    for some in chunks(sorted(set(places)), _MOST_PLACES):
        wanted = set(some)
        episodes, ordinals = (list(set(values)) for values in zip(*some, strict=True))
        parameters = who(scope) | {"episodes": episodes, "ordinals": ordinals}
        found += [
            rows.turn(row, row.session_id)
            for row in conn.execute(_turns_among, parameters)
            if (row.episode_id, row.ordinal) in wanted
        ]
    return found


def recall_state(conn: sa.Connection, scope: Scope) -> RecallState | None:
    row = conn.execute(_state, who(scope)).one_or_none()
    if row is None:
        return None
    return RecallState(
        scope_id=row.id, version=row.version, epoch=row.epoch, newest=row.next_seq - 1
    )


def recall_rows(
    conn: sa.Connection, scope: Scope, after: int
) -> tuple[RecallState, list[RecallRow]]:
    state = recall_state(conn, scope) or RecallState(scope_id=0, version=0, epoch=0)
    read = conn.execute(_recall_after, who(scope) | {"after_": after})
    return state, _recall_values(conn, read)


def recall_rows_at(conn: sa.Connection, scope: Scope, seqs: Sequence[int]) -> list[RecallRow]:
    found: list[RecallRow] = []
    for some in chunks(sorted(set(seqs)), _MOST_IDS):
        read = conn.execute(_recall_at, who(scope) | {"seqs": some})
        found += _recall_values(conn, read)
    return found


def _recall_values(conn: sa.Connection, read: Any) -> list[RecallRow]:
    raw = list(read)
    models = {row.id: row.name for row in conn.execute(_models)}
    models[schema.NO_MODEL] = ""
    return [
        RecallRow(
            seq=row.seq,
            episode_id=row.episode_id,
            ordinal=row.ordinal,
            role=row.role,
            at=types.micros(row.at),
            lexical=Lexical(terms=row.terms, speaker=row.speaker, flags=row.flags),
            model=models.get(row.model_id),
            vector=row.vector,
        )
        for row in raw
    ]


def open_episodes(
    conn: sa.Connection,
    *,
    touched_before: datetime,
    opened_before: datetime,
    after: UUID | None,
    limit: int,
) -> list[OpenEpisode]:
    statement = (
        sa.select(
            *rows.EPISODE_COLUMNS,
            _episodes.c.opened_at,
            _episodes.c.touched_at,
            _scopes.c.tenant,
            _scopes.c.agent,
            _scopes.c.user,
        )
        .join(_scopes, _scopes.c.id == _episodes.c.scope_id)
        .where(
            _episodes.c.ended_at.is_(None),
            _episodes.c.deleted_at.is_(None),
            sa.or_(_episodes.c.touched_at < touched_before, _episodes.c.opened_at < opened_before),
        )
        .order_by(_episodes.c.id)
        .limit(limit)
    )
    if after is not None:
        statement = statement.where(_episodes.c.id > after)
    return [
        OpenEpisode(
            episode=rows.episode(row, Scope(tenant=row.tenant, agent=row.agent, user=row.user)),
            opened_at=row.opened_at,
            touched_at=row.touched_at,
        )
        for row in conn.execute(statement)
    ]


def placeholders(conn: sa.Connection, scope: Scope, episode_id: UUID) -> list[Placeholder]:
    table = schema.placeholders
    found = conn.execute(
        sa.select(table.c.kind, table.c.digest, table.c.number)
        .join(_episodes, _episodes.c.id == table.c.episode_id)
        .where(_in_scope, table.c.episode_id == episode_id),
        who(scope),
    )
    return [Placeholder(kind=row.kind, digest=row.digest, number=row.number) for row in found]


def chunks(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
