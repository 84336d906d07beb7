"""Reading sessions, episodes and turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID

from .....domain.episode import Episode, Scope, Turn
from .....domain.errors import StoreCorrupt
from .....domain.replay import EpisodeReplay, SessionReplay
from .....ports.episodes import TurnRef
from .....ports.values import SessionState
from .. import rows
from ..lazy import Asked, Connection, results_of, sa, schema, sql, sql_for, without_snapshot
from . import common

T = TypeVar("T")

_SIZES = (1, 2, 5, 10, 16)
"""The numbers of turns in one statement. A few sizes serve all; recall asks for five by default."""
_BY_START = attrgetter("started_at", "id")
_EPISODE = attrgetter("episode_id")


# For a list of ids. With a plain comparison a planner may scan every episode of the scope: SQLite
# always, PostgreSQL for a scope that it takes for small.
@cache
def _visible_by_id() -> sa.ColumnElement[bool]:
    return sa.and_(
        sa.case((schema.episodes.c.scope_id == common.scope_id(), 1), else_=0) != 0,
        schema.episodes.c.tenant == sa.bindparam("tenant_"),
        schema.episodes.c.deleted_at.is_(None),
    )


@sql
def _session_rows() -> sa.Select[Any]:
    return (
        sa.select(
            *(
                schema.conversations.c[name]
                for name in ("session_id", "status", "metadata", "created_at")
            ),
            *(column for column in rows.own_episode_columns() if column.name != "session_id"),
            schema.episodes.c.replay_from,
        )
        .join(
            schema.episodes,
            sa.and_(
                schema.episodes.c.scope_id == schema.conversations.c.scope_id,
                schema.episodes.c.session_id == schema.conversations.c.session_id,
                schema.episodes.c.deleted_at.is_(None),
            ),
        )
        .where(
            schema.conversations.c.scope_id == common.scope_id(),
            schema.conversations.c.tenant == sa.bindparam("tenant_"),
            schema.conversations.c.session_id == sa.bindparam("session_"),
        )
    )


# Not by id, because the clock that makes ids can be set back.
@cache
def _latest_first() -> sa.Select[Any]:
    return _session_rows().order_by(
        sa.case((schema.episodes.c.ended_at.is_(None), 0), else_=1),
        schema.episodes.c.started_at.desc(),
        schema.episodes.c.id.desc(),
    )


@sql
def _session() -> sa.Select[Any]:
    return _latest_first().limit(1)


@sql
def _latest() -> sa.Select[Any]:
    return _latest_first().limit(sa.bindparam("limit_", type_=sa.Integer))


@sql_for
def _episode_ids(deleted: bool) -> sa.Select[Any]:
    wanted = common.in_scope() if deleted else common.undeleted_in_scope()
    return (
        sa.select(
            schema.episodes.c.id,
            schema.episodes.c.replay_from,
            schema.episodes.c.message_count,
            schema.episodes.c.ended_at,
            schema.episodes.c.deleted_at,
        )
        .where(wanted, schema.episodes.c.session_id == sa.bindparam("session_"))
        .order_by(schema.episodes.c.started_at, schema.episodes.c.id)
    )


@sql
def _episodes_by_id() -> sa.Select[Any]:
    return sa.select(*rows.episode_columns()).where(
        _visible_by_id(), schema.episodes.c.id.in_(sa.bindparam("ids", expanding=True))
    )


@cache
def _turns_in_scope() -> sa.Select[Any]:
    return (
        sa.select(*rows.turn_columns(), schema.episodes.c.session_id)
        .join(schema.episodes, schema.episodes.c.id == schema.turns.c.episode_id)
        .where(_visible_by_id())
    )


@sql
def _turns_of() -> sa.Select[Any]:
    return (
        sa.select(*rows.turn_columns())
        .where(
            schema.turns.c.tenant == sa.bindparam("tenant_"),
            schema.turns.c.episode_id.in_(sa.bindparam("ids", expanding=True)),
        )
        .order_by(schema.turns.c.episode_id, schema.turns.c.ordinal)
    )


@sql
def _turns_from() -> sa.Select[Any]:
    return (
        sa.select(*rows.turn_columns())
        .where(
            schema.turns.c.tenant == sa.bindparam("tenant_"),
            schema.turns.c.episode_id == sa.bindparam("episode_"),
            schema.turns.c.ordinal >= sa.bindparam("start_"),
        )
        .order_by(schema.turns.c.ordinal)
    )


@sql
def _turns_between() -> sa.Select[Any]:
    return (
        _turns_in_scope()
        .where(
            schema.turns.c.episode_id == sa.bindparam("episode_"),
            schema.turns.c.ordinal >= sa.bindparam("start_"),
            schema.turns.c.ordinal < sa.bindparam("stop_"),
        )
        .order_by(schema.turns.c.ordinal)
    )


@without_snapshot
def session(conn: Connection, scope: Scope, session_id: str) -> SessionState | None:
    row = conn.execute(_session, common.session_params(conn, scope, session_id)).one_or_none()
    if row is None:
        # Unknown, or all its episodes are deleted.
        return None
    return SessionState(
        session=rows.session(conn, row, scope), episode=rows.episode(conn, row, scope)
    )


def replay(
    conn: Connection, scope: Scope, session_id: str, *, last: int | None = None
) -> SessionReplay | None:
    found = sorted(_episodes_of(conn, scope, session_id, last), key=_BY_START)
    if not found:
        return None
    latest = max(found, key=lambda row: (row.ended_at is None, *_BY_START(row)))
    found, start = [row for row in found if not _is_hidden(row)], 0
    if last is not None:
        found, start = _last_episodes(found, last)
    said = _turns_by_episode(conn, scope, session_id, [row.id for row in found], start)
    for row in found:
        if row.replay_from:
            turns = said.get(row.id, ())
            said[row.id] = tuple(turn for turn in turns if turn.ordinal >= row.replay_from)
    for row in found:
        missing = _replayed_count(row, start if row is found[0] else 0) - len(said.get(row.id, ()))
        if missing > 0:
            # A damaged page can hide rows without an error of the database's.
            raise StoreCorrupt(
                f"an episode lacks {missing:,} of its {row.message_count:,} turns: restore the "
                "database from a backup"
            )
    return SessionReplay(
        session=rows.session(conn, latest, scope),
        episodes=tuple(
            [
                EpisodeReplay(episode=rows.episode(conn, row, scope), turns=said.get(row.id, ()))
                for row in found
            ]
        ),
    )


def _episodes_of(
    conn: Connection, scope: Scope, session_id: str, last: int | None
) -> list[rows.Row]:
    """All episodes of a session, or as many of the latest as its last turns need."""
    parameters = common.session_params(conn, scope, session_id)
    if last is not None:
        # The first may be open, and so older than the others, or empty.
        found = list(conn.execute(_latest, parameters | {"limit_": last + 1}))
        if len(found) <= last or all(map(_replayed_count, found[1:])):
            return found
    return list(conn.execute(_session_rows, parameters))


def _replayed_count(row: rows.Row, start: int = 0) -> int:
    """The number of turns of an episode that a replay shows, from the ordinal `start` on."""
    return 0 if row.is_archived else row.message_count - max(row.replay_from or 0, start)


def _is_hidden(row: rows.Row) -> bool:
    """True if a replay shows nothing of an episode, because its session was reset since."""
    hidden = row.replay_from is not None and row.replay_from >= row.message_count
    return hidden and row.ended_at is not None


def _last_episodes(found: list[rows.Row], last: int) -> tuple[list[rows.Row], int]:
    """The episodes of the last turns, and the ordinal at which the first of them begins."""
    missing = last
    for i in reversed(range(len(found))):
        missing -= _replayed_count(found[i])
        if missing <= 0:
            return found[i:], -missing + (found[i].replay_from or 0)
    return found, 0


def _turns_by_episode(
    conn: Connection, scope: Scope, session_id: str, ids: Sequence[UUID], start: int
) -> dict[UUID, tuple[Turn, ...]]:
    """The turns of each of these episodes; of the first, from the ordinal `start` on."""
    said: dict[UUID, tuple[Turn, ...]] = {}
    # Looking up one episode is faster than a list of one.
    if start or len(ids) == 1:
        first, *ids = ids
        parameters = {"tenant_": scope.tenant, "episode_": first, "start_": start}
        read = conn.execute(_turns_from, parameters)
        said[first] = tuple(rows.turns(conn, read.fetchall(), session_id))
    for some in common.chunks(ids):
        read = conn.execute(_turns_of, {"tenant_": scope.tenant, "ids": some})
        for episode_id, of_one in groupby(rows.turns(conn, read.fetchall(), session_id), _EPISODE):
            said[episode_id] = tuple(of_one)
    return said


def episodes(conn: Connection, scope: Scope, ids: Sequence[UUID]) -> dict[UUID, Episode]:
    found = results_of(conn, *_by_ids(conn, scope, ids))
    return {row.id: rows.episode(conn, row, scope) for some in found for row in some}


def _by_ids(conn: Connection, scope: Scope, ids: Sequence[UUID]) -> list[Asked]:
    return [
        (_episodes_by_id, common.scope_params(conn, scope) | {"ids": some})
        for some in common.chunks(ids)
    ]


@without_snapshot
def episode_ids(
    conn: Connection, scope: Scope, session_id: str, *, deleted: bool = False
) -> dict[UUID, int | None]:
    found = conn.execute(_episode_ids(deleted), common.session_params(conn, scope, session_id))
    return {
        row.id: None if row.deleted_at is not None or _is_hidden(row) else row.replay_from or 0
        for row in found
    }


@without_snapshot
def turns(
    conn: Connection, scope: Scope, episode_id: UUID, *, start: int = 0, stop: int | None = None
) -> list[Turn]:
    parameters = common.scope_params(conn, scope) | {
        "episode_": episode_id,
        "start_": start,
        "stop_": 2**31 - 1 if stop is None else stop,
    }
    return rows.turns(conn, conn.execute(_turns_between, parameters).fetchall())


@sql
def _turn_by_id() -> sa.Select[Any]:
    return _turns_in_scope().where(
        common.undeleted_in_scope(), schema.turns.c.id == sa.bindparam("turn_")
    )


def _by_refs(conn: Connection, scope: Scope, refs: Sequence[TurnRef]) -> Iterator[Asked]:
    places = []
    for ref in refs:
        if isinstance(ref, UUID):
            yield _turn_by_id, common.scope_params(conn, scope) | {"turn_": ref}
        else:
            places.append(ref)
    for some in common.chunks(places, _SIZES[-1]):
        count = next(size for size in _SIZES if size >= len(some))
        # Repeat the last reference to fill up the statement.
        asked = [*some, *[some[-1]] * (count - len(some))]
        given = dict(zip(_ref_names(count), chain.from_iterable(asked), strict=True))
        yield _turns_at(count), common.scope_params(conn, scope) | given


@without_snapshot
def episodes_and_turns(
    conn: Connection, scope: Scope, ids: Sequence[UUID], refs: Sequence[TurnRef]
) -> tuple[dict[UUID, Episode], list[Turn]]:
    by_ids = _by_ids(conn, scope, ids)
    found = results_of(conn, *by_ids, *_by_refs(conn, scope, refs))
    known = {
        row.id: rows.episode(conn, row, scope) for some in found[: len(by_ids)] for row in some
    }
    said = found[len(by_ids) :]
    return known, [turn for some in said for turn in rows.turns(conn, some.fetchall())]


@cache
def _ref_names(count: int) -> list[str]:
    return [f"{part}_{number}" for number in range(count) for part in ("episode", "ordinal")]


@sql_for
def _turns_at(count: int) -> sa.Select[Any]:
    # Not every dialect can compare pairs with a list.
    refs = [
        sa.and_(
            schema.turns.c.episode_id == sa.bindparam(f"episode_{number}"),
            schema.turns.c.ordinal == sa.bindparam(f"ordinal_{number}"),
        )
        for number in range(count)
    ]
    return _turns_in_scope().where(sa.or_(*refs))
