"""Conditions, parameters and small statements that several features share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from .....domain.episode import Scope
from .. import column_values
from ..lazy import Connection, Statement, sa, schema, sql

T = TypeVar("T")

MOST_IDS = 400
"""Ids in one statement, below every database's limit on parameters."""


def chunks(values: Sequence[T], size: int = MOST_IDS) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]


@cache
def this_scope() -> sa.ColumnElement[bool]:
    """The scope that `scope_params` names."""
    return sa.and_(
        schema.scopes.c.tenant == sa.bindparam("tenant_"),
        schema.scopes.c.agent == sa.bindparam("agent_"),
        schema.scopes.c.user == sa.bindparam("user_"),
    )


def scope_params(conn: Connection, scope: Scope) -> dict[str, Any]:
    """The parameters of `this_scope`."""
    user = conn.seals.user(scope.tenant, scope.user)
    return {"tenant_": scope.tenant, "agent_": scope.agent, "user_": user}


def session_params(conn: Connection, scope: Scope, session_id: str) -> dict[str, Any]:
    """The parameters of `this_scope` and of a session in it."""
    name = conn.seals.find(scope).name(session_id)
    return scope_params(conn, scope) | {"session_": name}


def scope_of(conn: Connection, row: Any, scope_id: int) -> Scope:
    """The scope of a row with the columns that name it."""
    user = conn.seals.user_of(scope_id, row.user)
    return Scope(tenant=row.tenant, agent=row.agent, user=user)


def with_keys(
    conn: Connection,
    found: Sequence[Any],
    statement: Statement[Any] | Any,
    number: str,
    given: dict[str, Any] | None = None,
) -> Sequence[Any]:
    """The rows that a statement found, without those of scopes whose keys are lost.

    Such scopes are left out by asking again, so that they never fill a page of others. `number`
    names the table and the column with the scope's number.
    """
    lost: set[int] = set()
    while conn.seals.are_on and found:
        ids = {_number(row) for row in found}
        gone = ids.difference(conn.seals.readable(ids))
        if not gone:
            break
        lost |= gone
        table, _, column = number.partition(".")
        of: sa.Table = getattr(schema, table)
        made = statement() if isinstance(statement, Statement) else statement
        found = conn.execute(made.where(of.c[column].not_in(sorted(lost))), given).all()
    return found


def _number(row: Any) -> int:
    found: int = row.scope_id if hasattr(row, "scope_id") else row.id
    return found


@cache
def scope_id() -> sa.ScalarSelect[Any]:
    return sa.select(schema.scopes.c.id).where(this_scope()).scalar_subquery()


@cache
def in_scope() -> sa.ColumnElement[bool]:
    """Episodes of `this_scope`, deleted or not."""
    return sa.and_(
        schema.episodes.c.scope_id == scope_id(),
        schema.episodes.c.tenant == sa.bindparam("tenant_"),
    )


@cache
def undeleted_in_scope() -> sa.ColumnElement[bool]:
    return sa.and_(in_scope(), schema.episodes.c.deleted_at.is_(None))


def episode_key(scope: Scope, scope_id: int, episode_id: UUID | None) -> dict[str, Any]:
    """The columns by which every row of an episode names it."""
    return {"tenant": scope.tenant, "scope_id": scope_id, "episode_id": episode_id}


@cache
def this_episode() -> sa.ColumnElement[bool]:
    """The episode that the parameters `episode_` and `scope_` name."""
    return sa.and_(
        schema.episodes.c.id == sa.bindparam("episode_"),
        schema.episodes.c.scope_id == sa.bindparam("scope_"),
    )


@cache
def this_session() -> sa.ColumnElement[bool]:
    return sa.and_(
        schema.conversations.c.scope_id == sa.bindparam("scope_"),
        schema.conversations.c.session_id == sa.bindparam("session_"),
    )


@sql
def set_session_status() -> sa.Update:
    return (
        sa.update(schema.conversations).where(this_session()).values(status=sa.bindparam("status_"))
    )


@sql
def insert_recall() -> sa.Insert:
    return sa.insert(schema.recall)


@sql
def insert_work() -> sa.Insert:
    return sa.insert(schema.work)


@cache
def last_seq() -> sa.BindParameter[Any]:
    return sa.bindparam("last_", type_=sa.BigInteger())


@sql
def _set_last_seq() -> sa.Update:
    return sa.update(schema.episodes).where(this_episode()).values(last_seq=last_seq())


def set_last_seq(conn: Connection, episode: dict[str, Any], seq: int) -> None:
    """Record the highest `seq` of an episode's recall rows, which only grows."""
    this = {"episode_": episode["episode_id"], "scope_": episode["scope_id"]}
    conn.execute(_set_last_seq, this | {"last_": seq})


def delete_of_episode(table: sa.Table, *also: sa.ColumnElement[bool]) -> sa.Delete:
    return sa.delete(table).where(
        table.c.episode_id == sa.bindparam("episode_"),
        table.c.scope_id == sa.bindparam("scope_"),
        *also,
    )


def in_seq_span(table: sa.Table) -> sa.ColumnElement[bool]:
    """Limit `seq` to the span of `this_episode`; without it, all rows of its scope are read."""
    # Not `coalesce` around the subqueries: under row-level security PostgreSQL takes it for a leaky
    # function and checks `seq` last.
    span = schema.episodes.c.first_seq, schema.episodes.c.last_seq
    first, last = (
        sa.select(sa.func.coalesce(sa.func.max(end), sa.literal(unknown, sa.BigInteger())))
        .where(this_episode())
        .scalar_subquery()
        for end, unknown in zip(span, (0, column_values.LAST_SEQ), strict=True)
    )
    return table.c.seq.between(first, last)
