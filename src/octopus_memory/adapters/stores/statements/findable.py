"""Turns that recall cannot find yet, and how they become findable. The statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ....domain.episode import Scope
from ....ports.turns import Findable, NewTurn
from ....ports.work import Unfindable, WorkKind
from .. import rows, schema
from . import ending, reads, scopes

_MOST_TURNS = 256
"""Of one episode at a time: they are read whole."""
_episodes, _scopes, _turns = schema.episodes, schema.scopes, schema.turns
_waiting = (
    sa.select(
        _episodes.c.id,
        _episodes.c.unfindable_from,
        _episodes.c.message_count,
        _episodes.c.scope_id,
        _scopes.c.epoch,
        _scopes.c.tenant,
        _scopes.c.agent,
        _scopes.c.user,
    )
    .join(_scopes, _scopes.c.id == _episodes.c.scope_id)
    .where(_episodes.c.unfindable_from.is_not(None))
    .order_by(_episodes.c.scope_id, _episodes.c.id)
    .limit(sa.bindparam("limit_", type_=sa.Integer))
)
_waiting_in_scope = _waiting.where(reads.WHO)
_waiting_in_episode = _waiting_in_scope.where(_episodes.c.id == sa.bindparam("episode_"))
_places = sa.select(_turns.c.ordinal, _turns.c.role, _turns.c.at).where(
    _turns.c.episode_id == sa.bindparam("episode_"),
    _turns.c.scope_id == sa.bindparam("scope_"),
    _turns.c.ordinal >= sa.bindparam("first_"),
    _turns.c.ordinal < sa.bindparam("stop_"),
)
_stop: sa.BindParameter[int] = sa.bindparam("stop_", type_=sa.Integer)
_go_on = (
    sa.update(_episodes)
    .where(ending.THIS_EPISODE, _episodes.c.unfindable_from == sa.bindparam("first_"))
    .values(unfindable_from=sa.case((_episodes.c.message_count > _stop, _stop), else_=None))
)
Places = Mapping[int, tuple[int, datetime]]
"""The role and the time of each turn, by its ordinal."""


def waiting(
    conn: sa.Connection, scope: Scope | None, episode_id: UUID | None, limit: int
) -> list[Unfindable]:
    given: dict[str, Any] = {"limit_": limit}
    if scope is None:
        found = conn.execute(_waiting, given)
    elif episode_id is None:
        found = conn.execute(_waiting_in_scope, given | reads.who(scope))
    else:
        this = given | {"episode_": episode_id}
        found = conn.execute(_waiting_in_episode, this | reads.who(scope))
    return [
        Unfindable(
            scope=scope or Scope(tenant=row.tenant, agent=row.agent, user=row.user),
            scope_id=row.scope_id,
            episode_id=row.id,
            first=row.unfindable_from,
            stop=min(row.message_count, row.unfindable_from + _MOST_TURNS),
            count=row.message_count,
            epoch=row.epoch,
        )
        for row in found
    ]


def make(
    conn: sa.Connection, done: Sequence[tuple[Unfindable, Sequence[Findable]]], *, now: datetime
) -> int:
    # In one order for all: two workers that lock the same scopes would wait for each other.
    ordered = sorted(done, key=lambda each: (each[0].scope.tenant, each[0].scope_id))
    return sum(_make(conn, found, findable, now=now) for found, findable in ordered)


def _make(
    conn: sa.Connection, found: Unfindable, findable: Sequence[Findable], *, now: datetime
) -> bool:
    held = scopes.lock(conn, found.scope)
    # Where something was removed, a turn of the same number may be another by now.
    if held is None or (held.id, held.epoch) != (found.scope_id, found.epoch):
        return False
    this = {"episode_": found.episode_id, "scope_": held.id}
    piece = this | {"first_": found.first, "stop_": found.stop}
    if not conn.execute(_go_on, piece).rowcount:
        return False
    said = {row.ordinal: (row.role, row.at) for row in conn.execute(_places, piece)}
    there = [each for each in findable if each.ordinal in said]
    place = {"tenant": found.scope.tenant, "scope_id": held.id, "episode_id": found.episode_id}
    _, first_seq = scopes.take_rows(conn, found.scope, len(there))
    insert(conn, place, first_seq, said, there, now=now)
    return True


def insert_new(
    conn: sa.Connection,
    episode: dict[str, Any],
    turns: Sequence[NewTurn],
    first: int,
    first_seq: int,
    *,
    now: datetime,
) -> None:
    """The recall rows of turns that are stored with their words, in this transaction."""
    said, findable = {}, []
    for ordinal, new in enumerate(turns, start=first):
        assert new.lexical is not None
        said[ordinal] = rows.ROLES[new.message.role], new.at
        findable.append(Findable(ordinal=ordinal, lexical=new.lexical, embed=new.embed))
    insert(conn, episode, first_seq, said, findable, now=now)


def insert(
    conn: sa.Connection,
    episode: dict[str, Any],
    first_seq: int,
    said: Places,
    findable: Sequence[Findable],
    *,
    now: datetime,
) -> None:
    """The recall rows, and the work that they bring."""
    recall: list[dict[str, Any]] = []
    work: list[dict[str, Any]] = []
    for seq, new in enumerate(findable, start=first_seq):
        role, at = said[new.ordinal]
        place = {"seq": seq, "ordinal": new.ordinal, "role": role, "at": at}
        place["model_id"] = None if new.embed else schema.NO_MODEL
        recall.append(episode | place | rows.lexical_columns(new.lexical))
        if new.embed:
            work.append(rows.work_row(WorkKind.EMBED, episode, new.ordinal, seq, now))
    if recall:
        conn.execute(ending.INSERT_RECALL, recall)
    if work:
        conn.execute(ending.INSERT_WORK, work)
