"""Indexing: turns that have no recall row yet, and how they get one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from .....domain.episode import Scope, Turn
from .....ports.recall_rows import UnindexedTurns, WorkKind
from .....ports.values import IndexEntry, NewTurn
from .. import column_values, rows
from ..lazy import Connection, results_of, sa, schema, sql, without_snapshot
from . import common, facts

_MOST_TURNS = 256
"""Turns of one episode that are read at a time."""


@sql
def _unindexed() -> sa.Select[Any]:
    return (
        sa.select(
            schema.episodes.c.id,
            schema.episodes.c.unfindable_from,
            schema.episodes.c.message_count,
            schema.episodes.c.scope_id,
            schema.scopes.c.epoch,
            schema.scopes.c.tenant,
            schema.scopes.c.agent,
            schema.scopes.c.user,
        )
        .join(schema.scopes, schema.scopes.c.id == schema.episodes.c.scope_id)
        .where(schema.episodes.c.unfindable_from.is_not(None))
        .order_by(schema.episodes.c.scope_id, schema.episodes.c.id)
        .limit(sa.bindparam("limit_", type_=sa.Integer))
    )


@sql
def _unindexed_in_scope() -> sa.Select[Any]:
    return _unindexed().where(common.this_scope())


@sql
def _unindexed_in_episode() -> sa.Select[Any]:
    return _unindexed_in_scope().where(schema.episodes.c.id == sa.bindparam("episode_"))


@cache
def _ids() -> sa.BindParameter[Any]:
    return sa.bindparam("ids", expanding=True)


@cache
def _unindexed_range() -> sa.ColumnElement[bool]:
    return sa.and_(
        schema.turns.c.episode_id == schema.episodes.c.id,
        schema.turns.c.scope_id == schema.episodes.c.scope_id,
        schema.turns.c.ordinal >= schema.episodes.c.unfindable_from,
        schema.turns.c.ordinal < schema.episodes.c.unfindable_from + _MOST_TURNS,
    )


@sql
def _unindexed_contents() -> sa.Select[Any]:
    return (
        sa.select(*rows.turn_columns(), schema.episodes.c.session_id)
        .join(schema.episodes, _unindexed_range())
        .where(schema.episodes.c.id.in_(_ids()), schema.episodes.c.deleted_at.is_(None))
    )


# An outer join, so that an episode whose turns are lost ends its wait as well.
@sql
def _refs() -> sa.Select[Any]:
    return (
        sa.select(
            schema.episodes.c.id,
            schema.episodes.c.scope_id,
            schema.episodes.c.unfindable_from,
            schema.turns.c.ordinal,
            schema.turns.c.role,
            schema.turns.c.at,
        )
        .select_from(schema.episodes.outerjoin(schema.turns, _unindexed_range()))
        .where(schema.episodes.c.id.in_(_ids()))
    )


@cache
def _stop() -> sa.BindParameter[int]:
    return sa.bindparam("stop_", type_=sa.Integer)


@sql
def _advance() -> sa.Update:
    return (
        sa.update(schema.episodes)
        .where(common.this_episode(), schema.episodes.c.unfindable_from == sa.bindparam("first_"))
        .values(
            unfindable_from=sa.case(
                (schema.episodes.c.message_count > _stop(), _stop()), else_=None
            ),
            last_seq=sa.bindparam("last_"),
        )
    )


@sql
def _lock_scopes() -> sa.Select[Any]:
    return (
        sa.select(
            *(
                schema.scopes.c[name]
                for name in ("id", "epoch", "tenant", "agent", "user", "next_seq")
            )
        )
        .where(schema.scopes.c.id.in_(_ids()))
        .order_by(schema.scopes.c.id)
        .with_for_update()
    )


@sql
def _take_rows() -> sa.Update:
    return (
        sa.update(schema.scopes)
        .where(schema.scopes.c.id == sa.bindparam("scope_"))
        .values(version=schema.scopes.c.version + 1, next_seq=sa.bindparam("next_"))
    )


TurnsByOrdinal = Mapping[int, tuple[int, datetime]]
"""The role and time of each turn, by ordinal."""


class _Waiting(NamedTuple):
    """An episode's unindexed turns, as this transaction sees them."""

    at: tuple[int, int | None]
    """The scope's number, and the ordinal of the first."""
    turns: dict[int, tuple[int, datetime]]


@without_snapshot
def unindexed_turns(
    conn: Connection, scope: Scope | None = None, *, episode_id: UUID | None = None, limit: int
) -> list[UnindexedTurns]:
    given: dict[str, Any] = {"limit_": limit}
    found: Iterable[rows.Row]
    if scope is None:
        found = common.with_keys(
            conn, conn.execute(_unindexed, given).all(), _unindexed, "scopes.id", given
        )
    elif episode_id is None:
        found = conn.execute(_unindexed_in_scope, given | common.scope_params(conn, scope))
    else:
        this = given | {"episode_": episode_id}
        found = conn.execute(_unindexed_in_episode, this | common.scope_params(conn, scope))
    return [
        UnindexedTurns(
            scope=scope or common.scope_of(conn, row, row.scope_id),
            scope_id=row.scope_id,
            episode_id=row.id,
            first=row.unfindable_from,
            stop=min(row.message_count, row.unfindable_from + _MOST_TURNS),
            count=row.message_count,
            epoch=row.epoch,
        )
        for row in found
    ]


@without_snapshot
def turns(conn: Connection, found: Sequence[UnindexedTurns]) -> list[Turn]:
    read: list[Turn] = []
    for some in common.chunks([each.episode_id for each in found]):
        read += rows.turns(conn, conn.execute(_unindexed_contents, {"ids": some}).fetchall())
    return read


def index_turns(
    conn: Connection, done: Sequence[tuple[UnindexedTurns, Sequence[IndexEntry]]], *, now: datetime
) -> int:
    # In one order for all workers, because two that lock the same scopes could deadlock.
    ordered = sorted(done, key=lambda each: each[0].scope_id)
    return sum(_index(conn, some, now=now) for some in common.chunks(ordered))


def _index(
    conn: Connection, done: Sequence[tuple[UnindexedTurns, Sequence[IndexEntry]]], *, now: datetime
) -> int:
    ids = sorted({found.scope_id for found, _ in done})
    locked, refs = results_of(
        conn,
        (_lock_scopes, {"ids": ids}),
        (_refs, {"ids": [found.episode_id for found, _ in done]}),
    )
    # Skip a scope where rows were removed, because its ordinals may name other turns by now.
    as_read = {row[:-1]: row.next_seq for row in locked}
    said = _turns_by_episode(refs)
    next_seq: dict[int, int] = {}
    gone_on: list[dict[str, Any]] = []
    new = _NewRows([], [])
    for found, entries in done:
        scope_id, scope = found.scope_id, found.scope
        user = conn.seals.user(scope.tenant, scope.user)
        seq = as_read.get((scope_id, found.epoch, scope.tenant, scope.agent, user))
        waits = said.pop(found.episode_id, None)
        if seq is None or waits is None or waits.at != (scope_id, found.first):
            continue
        there = [each for each in entries if each.ordinal in waits.turns]
        seq = next_seq.get(scope_id, seq)
        next_seq[scope_id] = seq + len(there)
        episode = common.episode_key(scope, scope_id, found.episode_id)
        new.add(episode, seq, waits.turns, there, now=now)
        stated = [fact for each in there for fact in each.facts]
        if stated:
            facts.add_found(conn, episode, stated, first=found.first)
        this = {"episode_": found.episode_id, "scope_": scope_id}
        until = {"stop_": found.stop, "last_": next_seq[scope_id] - 1}
        gone_on.append(this | until | {"first_": found.first})
    if gone_on:
        conn.execute(_advance, gone_on)
        conn.execute(_take_rows, [{"scope_": key, "next_": seq} for key, seq in next_seq.items()])
        new.insert(conn)
    return len(gone_on)


def _turns_by_episode(refs: Iterable[rows.Row]) -> dict[UUID, _Waiting]:
    found: dict[UUID, _Waiting] = {}
    for row in refs:
        waits = found.get(row.id)
        if waits is None:
            waits = found[row.id] = _Waiting((row.scope_id, row.unfindable_from), {})
        waits.turns[row.ordinal] = row.role, row.at
    return found


def insert_new(
    conn: Connection,
    episode: dict[str, Any],
    turns: Sequence[NewTurn],
    first: int,
    first_seq: int,
    *,
    now: datetime,
) -> None:
    """Insert the recall rows of turns that are stored with their `lexical`."""
    said, entries = {}, []
    for ordinal, new in enumerate(turns, start=first):
        if not new.indexed:
            continue
        assert new.lexical is not None
        said[ordinal] = rows.ROLES[new.message.role], new.at
        entries.append(IndexEntry(ordinal=ordinal, lexical=new.lexical, embed=new.embed))
    insert(conn, episode, first_seq, said, entries, now=now)


def insert(
    conn: Connection,
    episode: dict[str, Any],
    first_seq: int,
    said: TurnsByOrdinal,
    entries: Sequence[IndexEntry],
    *,
    now: datetime,
) -> None:
    """Insert recall rows and the work that they need. The caller records the last `seq`."""
    new = _NewRows([], [])
    new.add(episode, first_seq, said, entries, now=now)
    new.insert(conn)


class _NewRows(NamedTuple):
    """Recall rows to insert, and the work that they need."""

    recall: list[dict[str, Any]]
    work: list[dict[str, Any]]

    def add(
        self,
        episode: dict[str, Any],
        first_seq: int,
        said: TurnsByOrdinal,
        entries: Sequence[IndexEntry],
        *,
        now: datetime,
    ) -> None:
        for seq, new in enumerate(entries, start=first_seq):
            role, at = said[new.ordinal]
            row = {"seq": seq, "ordinal": new.ordinal, "role": role, "at": at}
            row["model_id"] = None if new.embed else column_values.NO_MODEL
            self.recall.append(episode | row | rows.lexical_columns(new.lexical))
            if new.embed:
                self.work.append(rows.work_row(WorkKind.EMBED, episode, new.ordinal, seq, now))

    def insert(self, conn: Connection) -> None:
        if self.recall:
            conn.seals.fetch({row["scope_id"] for row in self.recall})
            sealed = [conn.seals.of(row["scope_id"]).recall_row(row) for row in self.recall]
            conn.execute(common.insert_recall, sealed)
        if self.work:
            conn.execute(common.insert_work, self.work)
