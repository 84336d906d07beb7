"""The statements that read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID

import sqlalchemy as sa

from ....domain.episode import Episode, Scope, Turn
from ....domain.replay import EpisodeReplay, SessionReplay
from ....ports.store import OpenEpisode, Placeholder, SessionState
from .. import rows, schema

T = TypeVar("T")

_MOST_IDS = 400
"""Ids in one statement: under every database's limit on parameters."""

_MOST_PLACES = 16
_BY_START = attrgetter("started_at", "id")
_EPISODE = attrgetter("episode_id")

_scopes, _episodes, _turns = schema.scopes, schema.episodes, schema.turns
_conversations = schema.conversations

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
# For a list of ids: with a plain column, SQLite goes through every episode of the scope instead.
_also_in_scope = sa.and_(
    _episodes.c.scope_id + 0 == _scope_id,
    _episodes.c.tenant == sa.bindparam("tenant_"),
    _episodes.c.deleted_at.is_(None),
)

_session_rows = (
    sa.select(
        *(_conversations.c[name] for name in ("session_id", "status", "metadata", "created_at")),
        *(column for column in rows.EPISODE_COLUMNS if column.name != "session_id"),
    )
    .join(
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
)
# Not by id: the clock that ids are made by can be set back.
_latest_first = _session_rows.order_by(
    sa.case((_episodes.c.ended_at.is_(None), 0), else_=1),
    _episodes.c.started_at.desc(),
    _episodes.c.id.desc(),
)
_session = _latest_first.limit(1)
_latest = _latest_first.limit(sa.bindparam("limit_", type_=sa.Integer))
_session_episodes = (
    sa.select(*rows.EPISODE_COLUMNS)
    .where(_in_scope, _episodes.c.session_id == sa.bindparam("session_"))
    .order_by(_episodes.c.started_at, _episodes.c.id)
)
_episodes_by_id = sa.select(*rows.EPISODE_COLUMNS).where(
    _also_in_scope, _episodes.c.id.in_(sa.bindparam("ids", expanding=True))
)
_turns_in_scope = (
    sa.select(*rows.TURN_COLUMNS, _episodes.c.session_id)
    .join(_episodes, _episodes.c.id == _turns.c.episode_id)
    .where(_also_in_scope)
)
_turns_of = (
    sa.select(*rows.TURN_COLUMNS)
    .where(
        _turns.c.tenant == sa.bindparam("tenant_"),
        _turns.c.episode_id.in_(sa.bindparam("ids", expanding=True)),
    )
    .order_by(_turns.c.episode_id, _turns.c.ordinal)
)
_turns_from = (
    sa.select(*rows.TURN_COLUMNS)
    .where(
        _turns.c.tenant == sa.bindparam("tenant_"),
        _turns.c.episode_id == sa.bindparam("episode_"),
        _turns.c.ordinal >= sa.bindparam("start_"),
    )
    .order_by(_turns.c.ordinal)
)
_turns_between = _turns_in_scope.where(
    _turns.c.episode_id == sa.bindparam("episode_"),
    _turns.c.ordinal >= sa.bindparam("start_"),
    _turns.c.ordinal < sa.bindparam("stop_"),
).order_by(_turns.c.ordinal)


def session(conn: sa.Connection, scope: Scope, session_id: str) -> SessionState | None:
    row = conn.execute(_session, who(scope) | {"session_": session_id}).one_or_none()
    if row is None:
        # Unknown, or every episode of it is deleted.
        return None
    return SessionState(session=rows.session(row, scope), episode=rows.episode(row, scope))


def replay(
    conn: sa.Connection, scope: Scope, session_id: str, last: int | None = None
) -> SessionReplay | None:
    found = sorted(_episodes_of(conn, scope, session_id, last), key=_BY_START)
    if not found:
        return None
    latest = max(found, key=lambda row: (row.ended_at is None, *_BY_START(row)))
    start = 0
    if last is not None:
        found, start = _newest(found, last)
    said = _said(conn, scope, session_id, [row.id for row in found], start)
    return SessionReplay(
        session=rows.session(latest, scope),
        episodes=tuple(
            [
                EpisodeReplay(episode=rows.episode(row, scope), turns=said.get(row.id, ()))
                for row in found
            ]
        ),
    )


def _episodes_of(
    conn: sa.Connection, scope: Scope, session_id: str, last: int | None
) -> list[rows.Row]:
    """All of a session's, or as many of the latest as have its last turns."""
    parameters = who(scope) | {"session_": session_id}
    if last is not None:
        # The first may be open, and so be older than the others, or empty.
        found = list(conn.execute(_latest, parameters | {"limit_": last + 1}))
        if len(found) <= last or all(map(_turns_in, found[1:])):
            return found
    return list(conn.execute(_session_rows, parameters))


def _turns_in(row: rows.Row) -> int:
    return 0 if row.is_archived else row.message_count


def _newest(found: list[rows.Row], last: int) -> tuple[list[rows.Row], int]:
    """The episodes that the last turns are in, and with which ordinal of the first they begin."""
    missing = last
    for place in reversed(range(len(found))):
        missing -= _turns_in(found[place])
        if missing <= 0:
            return found[place:], -missing
    return found, 0


def _said(
    conn: sa.Connection, scope: Scope, session_id: str, ids: Sequence[UUID], start: int
) -> dict[UUID, tuple[Turn, ...]]:
    """What was said in each of these episodes; in the first, from the ordinal `start` on."""
    said: dict[UUID, tuple[Turn, ...]] = {}
    # One episode is looked up sooner than a list of one.
    if start or len(ids) == 1:
        first, *ids = ids
        parameters = {"tenant_": scope.tenant, "episode_": first, "start_": start}
        read = conn.execute(_turns_from, parameters)
        said[first] = tuple(rows.turns(read.all(), session_id))
    for some in chunks(ids, _MOST_IDS):
        read = conn.execute(_turns_of, {"tenant_": scope.tenant, "ids": some})
        for episode_id, of_one in groupby(rows.turns(read.all(), session_id), _EPISODE):
            said[episode_id] = tuple(of_one)
    return said


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
    given = {"since_": since, "until_": until, "session_": leave_out_session}
    given = {name: value for name, value in given.items() if value is not None}
    page, count = _listing(frozenset(given), bool(include_archived), bool(include_open))
    found: list[Episode] = []
    given |= who(scope)
    # Not every dialect has a page of no rows.
    if limit:
        bounds = {"offset_": offset, "limit_": limit}
        found = [rows.episode(row, scope) for row in conn.execute(page, given | bounds)]
    if offset == 0 and len(found) < limit:
        return found, len(found)
    return found, conn.execute(count, given).scalar_one()


@cache
def _listing(
    given: frozenset[str], include_archived: bool, include_open: bool
) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """The statements of a page and of its count, where these parameters are given."""
    known = {
        "since_": _episodes.c.order_at >= sa.bindparam("since_"),
        "until_": _episodes.c.started_at <= sa.bindparam("until_"),
        "session_": _episodes.c.session_id != sa.bindparam("session_"),
    }
    wanted = [_in_scope, *(known[name] for name in sorted(given))]
    if not include_archived:
        wanted.append(_episodes.c.is_archived.is_(False))
    if not include_open:
        wanted.append(_episodes.c.ended_at.is_not(None))
    page = (
        sa.select(*rows.EPISODE_COLUMNS)
        .where(*wanted)
        .order_by(_episodes.c.order_at.desc(), _episodes.c.id.desc())
        .offset(sa.bindparam("offset_", type_=sa.Integer))
        .limit(sa.bindparam("limit_", type_=sa.Integer))
    )
    return page, sa.select(sa.func.count().label("count")).select_from(_episodes).where(*wanted)


def turns(
    conn: sa.Connection, scope: Scope, episode_id: UUID, start: int, stop: int | None
) -> list[Turn]:
    parameters = who(scope) | {
        "episode_": episode_id,
        "start_": start,
        "stop_": 2**31 - 1 if stop is None else stop,
    }
    return rows.turns(conn.execute(_turns_between, parameters).all())


def turns_at(conn: sa.Connection, scope: Scope, places: Sequence[tuple[UUID, int]]) -> list[Turn]:
    found = []
    for some in chunks(sorted(set(places)), _MOST_PLACES):
        given = who(scope)
        for number, (episode_id, ordinal) in enumerate(some):
            given[f"episode_{number}"], given[f"ordinal_{number}"] = episode_id, ordinal
        found += rows.turns(conn.execute(_turns_at(len(some)), given).all())
    return found


@cache
def _turns_at(count: int) -> sa.Select[Any]:
    # Not every dialect can look for pairs in a list.
    places = [
        sa.and_(
            _turns.c.episode_id == sa.bindparam(f"episode_{number}"),
            _turns.c.ordinal == sa.bindparam(f"ordinal_{number}"),
        )
        for number in range(count)
    ]
    return _turns_in_scope.where(sa.or_(*places))


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
