"""Lists of tenants and users with their counts: the statements."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .....domain.episode import Scope
from .....ports.admin import MOST_READ
from ..lazy import Connection, sa, schema, without_snapshot
from . import common

if TYPE_CHECKING:
    from .....domain.episode import ScopeOverview, ScopeSearch, TenantOverview

_LAST_CHARACTER = chr(0x10FFFF)
_READ_AT_ONCE = 25_000


@without_snapshot
def tenants(conn: Connection, *, after: str | None = None, limit: int) -> list[TenantOverview]:
    from .....domain.episode import TenantOverview

    name = schema.scopes.c.tenant
    statement = sa.select(name, sa.func.count().label("scopes")).group_by(name)
    if after is not None:
        statement = statement.where(name > after)
    found = conn.execute(statement.order_by(name).limit(limit))
    return [TenantOverview(tenant=row.tenant, scopes=row.scopes) for row in found]


@without_snapshot
def agents(conn: Connection, tenant: str) -> list[str]:
    name = schema.scopes.c.agent
    statement = sa.select(name).where(schema.scopes.c.tenant == tenant).distinct().order_by(name)
    return list(conn.execute(statement).scalars())


def people(
    conn: Connection,
    tenant: str,
    *,
    starts: str = "",
    contains: str = "",
    agents: Collection[str] | None = None,
    user: str | None = None,
    after: Scope | None = None,
    limit: int,
    most_read: int = MOST_READ,
) -> ScopeSearch:
    if conn.seals.are_on and (starts or contains):
        # Names are stored as keyed hashes: only a whole one can be looked for.
        user, starts, contains = user or starts or contains, "", ""
    kept = None if user is None else conn.seals.user(tenant, user)
    if after is not None:
        after = replace(after, user=conn.seals.user(tenant, after.user))
    wanted = _wanted(tenant, agents, kept)
    if starts:
        name = schema.scopes.c.user
        # A range, because not every product has LIKE for the type of a name.
        wanted += [name >= starts, name < starts + _LAST_CHARACTER]
    if not contains:
        rows = _named(conn, wanted, after, limit)
        return _page(conn, tenant, rows, rows[-1] if len(rows) == limit else None)
    # Compared here, because SQLite and the collation "C" of PostgreSQL fold the case of ASCII
    # letters alone, and SQL Server stores names as bytes. The unique index has both names.
    text = contains.casefold()
    candidates = _candidates(conn.product, text)
    found: list[sa.Row[Any]] = []
    end: sa.Row[Any] | None = None
    left = most_read
    while left > 0:
        size = min(_READ_AT_ONCE, left)
        end = _position(conn, wanted, after, size)
        inside = [*wanted, *candidates] if end is None else [*wanted, *candidates, _up_to(end)]
        for row in _named(conn, inside, after, size):
            if text in row.user.casefold() or text in row.agent.casefold():
                found.append(row)
                if len(found) == limit:
                    return _page(conn, tenant, found, row)
        if end is None:
            break
        left -= size
        after = Scope(tenant=tenant, agent=end.agent, user=end.user)
    return _page(conn, tenant, found, end)


def _candidates(product: str, text: str) -> list[sa.ColumnElement[bool]]:
    """Make a condition that every match fulfills, so that few other names are sent.

    It compares the ASCII parts of the text. Names with other characters are always candidates,
    because these may fold to ASCII letters.
    """
    if product not in ("sqlite", "postgresql"):
        return []
    parts = re.findall("[ -~]+", text)

    def may_match(name: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        if product == "sqlite":
            characters, size = sa.func.length(name), sa.func.length(sa.cast(name, sa.LargeBinary))
        else:
            characters, size = sa.func.char_length(name), sa.func.octet_length(name)
        lower = sa.func.lower(name, type_=sa.String)
        contained = sa.and_(sa.true(), *(lower.contains(part, autoescape=True) for part in parts))
        return sa.or_(contained, size != characters)

    return [sa.or_(may_match(schema.scopes.c.user), may_match(schema.scopes.c.agent))]


def _position(
    conn: Connection, wanted: list[sa.ColumnElement[bool]], after: Scope | None, number: int
) -> sa.Row[Any] | None:
    """Return the scope that is `number` scopes further on; None if there are fewer."""
    found: sa.Row[Any] | None
    found = conn.execute(_in_order(wanted, after).offset(number - 1).limit(1)).one_or_none()
    return found


def _up_to(end: sa.Row[Any]) -> sa.ColumnElement[bool]:
    table = schema.scopes
    same = sa.and_(table.c.user == end.user, table.c.agent <= end.agent)
    return sa.and_(table.c.user <= end.user, sa.or_(table.c.user < end.user, same))


def _page(
    conn: Connection, tenant: str, found: Sequence[sa.Row[Any]], last: sa.Row[Any] | None
) -> ScopeSearch:
    from .....domain.episode import ScopeSearch

    reached = None
    if last is not None:
        user = conn.seals.user_of(last.id, last.user)
        reached = Scope(tenant=tenant, agent=last.agent, user=user)
    return ScopeSearch(found=_overviews(conn, tenant, found), reached=reached)


def _wanted(
    tenant: str, agents: Collection[str] | None, user: str | None
) -> list[sa.ColumnElement[bool]]:
    table = schema.scopes
    wanted = [table.c.tenant == tenant]
    if agents is not None:
        wanted.append(table.c.agent.in_(sorted(agents)))
    if user is not None:
        wanted.append(table.c.user == user)
    return wanted


def _named(
    conn: Connection, wanted: list[sa.ColumnElement[bool]], after: Scope | None, limit: int
) -> Sequence[sa.Row[Any]]:
    page = _in_order(wanted, after).limit(limit)
    return common.with_keys(conn, conn.execute(page).all(), page, "scopes.id")


def _in_order(wanted: list[sa.ColumnElement[bool]], after: Scope | None) -> sa.Select[Any]:
    table = schema.scopes
    if after is not None:
        same = sa.and_(table.c.user == after.user, table.c.agent > after.agent)
        above = sa.or_(table.c.user > after.user, same)
        # Implied by the next condition, and the only one that seeks in the unique index.
        wanted = [*wanted, table.c.user >= after.user, above]
    return (
        sa.select(table.c.id, table.c.agent, table.c.user)
        .where(*wanted)
        .order_by(table.c.user, table.c.agent)
    )


def _overviews(
    conn: Connection, tenant: str, found: Sequence[sa.Row[Any]]
) -> tuple[ScopeOverview, ...]:
    counts: dict[int, dict[str, Any]] = {}
    for some in common.chunks([row.id for row in found]):
        counts |= _counts(conn, tenant, some)
    from .....domain.episode import ScopeOverview

    return tuple(
        ScopeOverview(
            scope=Scope(tenant=tenant, agent=row.agent, user=conn.seals.user_of(row.id, row.user)),
            **counts.get(row.id, {}),
        )
        for row in found
    )


def _counts(conn: Connection, tenant: str, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    episodes, facts = schema.episodes, schema.facts

    def number(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
        return sa.func.sum(sa.case((condition, 1), else_=0))

    found: dict[int, dict[str, Any]] = {}
    for row in conn.execute(
        sa.select(
            episodes.c.scope_id,
            sa.func.count().label("episodes"),
            number(episodes.c.ended_at.is_(None)).label("open_"),
            number(episodes.c.is_archived.is_(True)).label("archived"),
            sa.func.sum(episodes.c.message_count).label("messages"),
            sa.func.sum(episodes.c.input_tokens + episodes.c.output_tokens).label("tokens"),
            sa.func.max(episodes.c.last_message_at).label("last"),
        )
        .where(
            episodes.c.scope_id.in_(ids),
            episodes.c.tenant == tenant,
            episodes.c.deleted_at.is_(None),
        )
        .group_by(episodes.c.scope_id)
    ):
        found[row.scope_id] = {
            "episodes": int(row.episodes),
            "open_episodes": int(row.open_),
            "archived_episodes": int(row.archived),
            "messages": int(row.messages),
            "tokens": int(row.tokens),
            "last_message_at": row.last,
        }
    for row in conn.execute(
        sa.select(facts.c.scope_id, sa.func.count().label("facts"))
        .where(facts.c.scope_id.in_(ids), facts.c.tenant == tenant, facts.c.deleted_at.is_(None))
        .group_by(facts.c.scope_id)
    ):
        found.setdefault(row.scope_id, {})["facts"] = int(row.facts)
    return found
