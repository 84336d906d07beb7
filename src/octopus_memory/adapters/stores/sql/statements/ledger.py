"""The ledger: the memories that were shown for each turn."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....domain.episode import Scope
from .....domain.errors import InvalidInput, StoreCorrupt
from .. import column_values, rows
from ..lazy import Connection, sa, schema, sql
from ..seals import BLOCK, MEMORIES, QUERY, Seal
from . import common, scopes

if TYPE_CHECKING:
    from .....domain.ledger import EpisodeUses, Injected, Injection

NO_EPISODE = UUID(int=0)
"""The episode of facts that a caller gave."""
_WHERE = ("scope_id", "id", "tenant", "session_id", "at")
_INJECTION = (*_WHERE, "budget_tokens", "block_tokens", "left_out", "hash", "codec", "query")
_INJECTED = ("scope_id", "injection_id", "episode_id", "tenant", "shown", "memories")


@sql
def _known_episodes() -> sa.Select[Any]:
    return sa.select(schema.episodes.c.id).where(
        schema.episodes.c.id.in_(sa.bindparam("ids", expanding=True)),
        sa.case((schema.episodes.c.scope_id == sa.bindparam("scope_"), 1), else_=0) != 0,
    )


@sql
def _known_entries() -> sa.Select[Any]:
    return sa.select(schema.injections.c.id).where(
        schema.injections.c.scope_id == sa.bindparam("scope_"),
        schema.injections.c.id.in_(sa.bindparam("ids", expanding=True)),
    )


@sql
def _insert_entry() -> sa.Insert:
    return sa.insert(schema.injections)


@sql
def _insert_items() -> sa.Insert:
    return sa.insert(schema.injected)


@cache
def _of_turns_in_episode() -> sa.ColumnElement[bool]:
    """The entries that belong to this episode.

    An entry belongs to the first episode of its session that was written to at its time or later;
    after the last write, to the last one.
    """
    entries, this = schema.injections, schema.episodes
    other = schema.episodes.alias()
    touched = sa.select(this.c.touched_at).where(common.this_episode()).scalar_subquery()
    session = sa.select(this.c.session_id).where(common.this_episode()).scalar_subquery()
    others = (
        sa.select(sa.literal(1))
        .select_from(other)
        .where(
            other.c.scope_id == sa.bindparam("scope_"),
            other.c.session_id == entries.c.session_id,
            other.c.id != sa.bindparam("episode_"),
        )
        .correlate(entries)
    )
    earlier = others.where(other.c.touched_at >= entries.c.at, other.c.touched_at < touched)
    later = others.where(other.c.touched_at > touched)
    return sa.and_(
        entries.c.scope_id == sa.bindparam("scope_"),
        entries.c.session_id == session,
        ~earlier.exists(),
        sa.or_(entries.c.at <= touched, ~later.exists()),
    )


@sql
def drop_items_of_episode() -> sa.Delete:
    return common.delete_of_episode(schema.injected)


@sql
def drop_items_of_turns() -> sa.Delete:
    own = sa.select(schema.injections.c.id).where(_of_turns_in_episode())
    return sa.delete(schema.injected).where(
        schema.injected.c.scope_id == sa.bindparam("scope_"),
        schema.injected.c.injection_id.in_(own),
    )


@sql
def drop_entries_of_turns() -> sa.Delete:
    return sa.delete(schema.injections).where(_of_turns_in_episode())


def drop_of_scope(conn: Connection, scope_id: int) -> None:
    """Delete the entries of an erased scope whose sessions never got an episode."""
    for table in (schema.injected, schema.injections):
        conn.execute(sa.delete(table).where(table.c.scope_id == scope_id))


def drop_for_turns(
    conn: Connection, scope_id: int, episode_id: UUID, turn_ids: Sequence[int], gone: set[int]
) -> None:
    """Delete the entries of removed turns of an episode.

    `turn_ids` are the ids of all its turns, in order; `gone` is a part of them.
    """
    items, entries = schema.injected, schema.injections
    own = sa.select(entries.c.id).where(_of_turns_in_episode())
    found = conn.execute(own, {"episode_": episode_id, "scope_": scope_id}).scalars()
    positions = [(each, bisect_right(turn_ids, each.int)) for each in found]
    dropped = [each for each, i in positions if i < len(turn_ids) and turn_ids[i] in gone]
    for some in common.chunks(dropped):
        conn.execute(
            sa.delete(items).where(items.c.scope_id == scope_id, items.c.injection_id.in_(some))
        )
        conn.execute(
            sa.delete(entries).where(entries.c.scope_id == scope_id, entries.c.id.in_(some))
        )


def renumber(conn: Connection, scope_id: int, episode_id: UUID, number: Mapping[int, int]) -> None:
    """Renumber an episode's items after a removal of turns; delete those whose turn is gone."""
    table = schema.injected
    here = sa.and_(table.c.scope_id == scope_id, table.c.episode_id == episode_id)

    def moved(packed: Any) -> list[Injected]:
        return [
            item if item.ordinal is None else replace(item, ordinal=number[item.ordinal])
            for item in _unpacked(packed, episode_id)
            if item.ordinal is None or item.ordinal in number
        ]

    for row in conn.execute(sa.select(table).where(here)).all():
        _rewrite_items(conn, row, *map(moved, _loaded(conn, row)))


def _rewrite_items(
    conn: Connection, row: rows.Row, shown: list[Injected], cut: list[Injected]
) -> None:
    """Replace an episode's items in an entry; a row without any is deleted."""
    from .....domain.ledger import pack_items

    table = schema.injected
    this = sa.and_(
        table.c.scope_id == row.scope_id,
        table.c.episode_id == row.episode_id,
        table.c.injection_id == row.injection_id,
    )
    if not shown and not cut:
        conn.execute(sa.delete(table).where(this))
        return
    text = json.dumps([pack_items(shown), pack_items(cut)], separators=(",", ":"))
    seal, place = conn.seals.of(row.scope_id), place_of(row.injection_id, row.episode_id)
    if text != seal.open_text(MEMORIES, place, row.memories):
        text = seal.text(MEMORIES, place, text)
        conn.execute(sa.update(table).where(this).values(shown=len(shown), memories=text))


def drop_items(
    conn: Connection, scope_id: int, gone: Mapping[UUID, tuple[Collection[int], Collection[UUID]]]
) -> int:
    """Delete the items of turns and facts, by episode (`NO_EPISODE` for facts that a caller gave).

    Turns are named by their ordinals. Returns how many items.
    """
    table, dropped = schema.injected, 0
    for episode_id, (ordinals, fact_ids) in gone.items():
        here = sa.and_(table.c.scope_id == scope_id, table.c.episode_id == episode_id)
        for row in conn.execute(sa.select(table).where(here)).all():
            before = [_unpacked(packed, episode_id) for packed in _loaded(conn, row)]
            shown, cut = (
                [i for i in items if i.ordinal not in ordinals and i.fact_id not in fact_ids]
                for items in before
            )
            fewer = sum(map(len, before)) - len(shown) - len(cut)
            if fewer:
                _rewrite_items(conn, row, shown, cut)
                dropped += fewer
    return dropped


def _with_query(scope_id: int, ids: Sequence[UUID]) -> sa.ColumnElement[bool]:
    table = schema.injections
    mine = sa.and_(table.c.scope_id == scope_id, table.c.id.in_(ids))
    return sa.and_(mine, table.c.query.is_not(None))


def drop_queries(conn: Connection, scope_id: int, ids: Sequence[UUID]) -> int:
    """Delete the queries of entries; returns how many."""
    gone = [
        sa.update(schema.injections)
        .where(_with_query(scope_id, some))
        .values(codec=None, query=None)
        for some in common.chunks(ids)
    ]
    return sum(conn.execute(each).rowcount for each in gone)


def count_queries(conn: Connection, scope_id: int, ids: Sequence[UUID]) -> int:
    """The number of these entries that have a query."""
    count = sa.select(sa.func.count()).select_from(schema.injections)
    found = [count.where(_with_query(scope_id, some)) for some in common.chunks(ids)]
    return sum(int(conn.execute(each).scalar_one()) for each in found)


def place_of(injection_id: UUID, episode_id: UUID) -> bytes:
    """The row that items are sealed for."""
    return injection_id.bytes + episode_id.bytes


def _loaded(conn: Connection, row: rows.Row) -> tuple[Any, Any]:
    """The packed items of a row: those shown, those cut."""
    seal, place = conn.seals.of(row.scope_id), place_of(row.injection_id, row.episode_id)
    try:
        shown, cut = json.loads(seal.open_text(MEMORIES, place, row.memories))
    except (TypeError, ValueError) as error:
        raise StoreCorrupt(column_values.DAMAGED) from error
    return shown, cut


def _unpacked(packed: Any, episode_id: UUID | None) -> list[Injected]:
    from .....domain.ledger import unpack_items

    try:
        return unpack_items(packed, episode_id)
    except InvalidInput as error:
        raise StoreCorrupt(column_values.DAMAGED) from error


def record(
    conn: Connection,
    tenant: str,  # noqa: ARG001 - the transaction's reach
    entries: Sequence[tuple[Scope, Injection]],
) -> int:
    by_scope: dict[Scope, list[Injection]] = {}
    for scope, entry in entries:
        by_scope.setdefault(scope, []).append(entry)
    stored = 0
    # In one order for all writers, to prevent a deadlock.
    for scope in sorted(by_scope, key=lambda scope: (scope.tenant, scope.agent, scope.user)):
        locked = scopes.lock_scope(conn, scope)
        if locked is not None:
            stored += _record(conn, scope, locked.id, by_scope[scope])
    return stored


def _record(conn: Connection, scope: Scope, scope_id: int, entries: Sequence[Injection]) -> int:
    wanted = {entry.id for entry in entries}
    known = _found(conn, _known_entries, scope_id, wanted)
    named = {episode_id for entry in entries for episode_id in entry.episode_ids}
    there = _found(conn, _known_episodes, scope_id, named)
    new = [entry.within(there) for entry in entries if entry.id not in known]
    if not new:
        return 0
    seal = conn.seals.of(scope_id)
    entry_rows = [_entry_row(seal, scope, scope_id, each) for each in new]
    conn.insert(_insert_entry, _INJECTION, entry_rows)
    items = [row for each in new for row in _item_rows(seal, scope, scope_id, each)]
    if items:
        conn.insert(_insert_items, _INJECTED, items)
    return len(new)


def _found(conn: Connection, statement: Any, scope_id: int, ids: Iterable[UUID]) -> set[UUID]:
    found: set[UUID] = set()
    for some in common.chunks(sorted(ids, key=lambda each: each.int)):
        result = conn.execute(statement, {"ids": list(some), "scope_": scope_id})
        found.update(row.id for row in result)
    return found


def _entry_row(seal: Seal, scope: Scope, scope_id: int, entry: Injection) -> tuple[Any, ...]:
    mark, query = None, None
    if entry.query is not None:
        mark, query = seal.encode(QUERY, entry.id, entry.query)
    block_hash = bytes.fromhex(entry.block_hash)
    return (
        scope_id,
        entry.id,
        scope.tenant,
        seal.name(entry.session_id),
        entry.at,
        entry.budget_tokens,
        entry.block_tokens,
        entry.left_out,
        seal.data(BLOCK, entry.id, block_hash) if block_hash else b"",
        mark,
        query,
    )


def _item_rows(
    seal: Seal, scope: Scope, scope_id: int, entry: Injection
) -> Iterable[tuple[Any, ...]]:
    from .....domain.ledger import by_episode, pack_items

    shown, cut = by_episode(entry.shown), by_episode(entry.cut)
    for episode_id in dict.fromkeys((*shown, *cut)):
        seen, left = shown.get(episode_id, []), cut.get(episode_id, [])
        packed = json.dumps([pack_items(seen), pack_items(left)], separators=(",", ":"))
        key = NO_EPISODE if episode_id is None else episode_id
        text = seal.text(MEMORIES, place_of(entry.id, key), packed)
        yield scope_id, entry.id, key, scope.tenant, len(seen), text


def injections(
    conn: Connection,
    scope: Scope,
    *,
    session_id: str | None = None,
    after: UUID | None = None,
    limit: int,
) -> list[Injection]:
    table = schema.injections
    wanted = [
        table.c.scope_id == common.scope_id(),
        table.c.tenant == sa.bindparam("tenant_"),
    ]
    if session_id is not None:
        wanted.append(table.c.session_id == conn.seals.find(scope).name(session_id))
    if after is not None:
        wanted.append(table.c.id > after)
    statement = sa.select(table).where(*wanted).order_by(table.c.id).limit(limit)
    found = conn.execute(statement, common.scope_params(conn, scope)).all()
    if not found:
        return []
    shown, cut = _items(conn, found[0].scope_id, [row.id for row in found])
    entries = [_entry(conn, row, shown.get(row.id, ()), cut.get(row.id, ())) for row in found]
    return entries if session_id is None else _with_turns(conn, scope, session_id, entries)


def _items(
    conn: Connection, scope_id: int, ids: Sequence[UUID]
) -> tuple[dict[UUID, list[Injected]], dict[UUID, list[Injected]]]:
    """Items shown and items cut, by entry; leaves out deleted episodes."""
    table, episodes = schema.injected, schema.episodes
    shown: dict[UUID, list[Injected]] = {}
    cut: dict[UUID, list[Injected]] = {}
    for some in common.chunks(ids):
        statement = (
            sa.select(table.c.scope_id, table.c.injection_id, table.c.episode_id, table.c.memories)
            .select_from(table.outerjoin(episodes, episodes.c.id == table.c.episode_id))
            .where(
                table.c.scope_id == scope_id,
                table.c.injection_id.in_(some),
                sa.or_(
                    table.c.episode_id == NO_EPISODE,
                    sa.and_(episodes.c.id.is_not(None), episodes.c.deleted_at.is_(None)),
                ),
            )
        )
        for row in conn.execute(statement):
            owner = None if row.episode_id == NO_EPISODE else row.episode_id
            seen, left = _loaded(conn, row)
            shown.setdefault(row.injection_id, []).extend(_unpacked(seen, owner))
            cut.setdefault(row.injection_id, []).extend(_unpacked(left, owner))
    return shown, cut


def _entry(
    conn: Connection, row: rows.Row, shown: Iterable[Injected], cut: Iterable[Injected]
) -> Injection:
    from .....domain.ledger import Injection

    query: Any = None
    seal = conn.seals.of(row.scope_id)
    if row.query is not None:
        query = seal.decode(QUERY, row.id, row.codec, row.query)
        if not isinstance(query, str):
            raise StoreCorrupt(column_values.DAMAGED)
    return Injection(
        id=row.id,
        session_id=seal.open_name(row.session_id),
        at=row.at,
        shown=tuple(sorted(shown, key=_by_kind)),
        cut=tuple(sorted(cut, key=_by_kind)),
        left_out=row.left_out,
        budget_tokens=row.budget_tokens,
        block_tokens=row.block_tokens,
        block_hash=seal.open_data(BLOCK, row.id, bytes(row.hash)).hex() if row.hash else "",
        query=query,
    )


def _by_kind(item: Injected) -> tuple[str, int, int]:
    return item.kind.value, item.rank, item.ordinal or 0


def _with_turns(
    conn: Connection, scope: Scope, session_id: str, entries: Sequence[Injection]
) -> list[Injection]:
    """Entries, each with the first turn of its session that was stored after it."""
    turns, episodes = schema.turns, schema.episodes
    found = conn.execute(
        sa.select(turns.c.id, turns.c.episode_id, turns.c.ordinal)
        .select_from(turns.join(episodes, episodes.c.id == turns.c.episode_id))
        .where(
            common.undeleted_in_scope(),
            episodes.c.session_id == conn.seals.find(scope).name(session_id),
            turns.c.tenant == sa.bindparam("tenant_"),
        ),
        common.scope_params(conn, scope),
    )
    said = sorted(found, key=lambda row: row.id.int)
    ids = [row.id.int for row in said]

    def placed(entry: Injection) -> Injection:
        i = bisect_right(ids, entry.id.int)
        if i == len(said):
            return entry
        turn = said[i]
        return replace(entry, episode_id=turn.episode_id, ordinal=turn.ordinal)

    return [placed(entry) for entry in entries]


def episode_uses(conn: Connection, scope: Scope, episode_id: UUID, *, limit: int) -> EpisodeUses:
    from .....domain.ledger import EpisodeUse, EpisodeUses

    items, entries, episodes = schema.injected, schema.injections, schema.episodes
    own = [
        items.c.scope_id == common.scope_id(),
        items.c.episode_id == episode_id,
        items.c.tenant == sa.bindparam("tenant_"),
    ]
    is_kept = sa.select(episodes.c.id).where(
        common.undeleted_in_scope(), episodes.c.id == episode_id
    )
    who = common.scope_params(conn, scope)
    if conn.execute(is_kept, who).first() is None:
        return EpisodeUses(episode_id=episode_id)
    is_shown = sa.case((items.c.shown > 0, 1), else_=0)
    times, all_times = conn.execute(
        sa.select(sa.func.coalesce(sa.func.sum(is_shown), 0), sa.func.count())
        .select_from(items)
        .where(*own),
        who,
    ).one()
    newest = conn.execute(
        sa.select(
            entries.c.scope_id, entries.c.id, entries.c.session_id, entries.c.at, items.c.shown
        )
        .select_from(
            items.join(
                entries,
                sa.and_(
                    entries.c.scope_id == items.c.scope_id, entries.c.id == items.c.injection_id
                ),
            )
        )
        .where(*own, items.c.shown > 0)
        .order_by(items.c.injection_id.desc())
        .limit(limit),
        who,
    )
    recent = tuple(
        EpisodeUse(
            injection_id=row.id, session_id=rows.session_id(conn, row), at=row.at, items=row.shown
        )
        for row in newest
    )
    return EpisodeUses(
        episode_id=episode_id,
        times=int(times),
        cut=int(all_times) - int(times),
        last=recent[0].at if recent else None,
        recent=recent,
    )


def rewrite_queries(conn: Connection, scope_id: int, queries: Mapping[UUID, str]) -> None:
    table = schema.injections
    for entry_id, query in queries.items():
        mark, payload = conn.seals.of(scope_id).encode(QUERY, entry_id, query)
        conn.execute(
            sa.update(table)
            .where(table.c.scope_id == scope_id, table.c.id == entry_id, table.c.query.is_not(None))
            .values(codec=mark, query=payload)
        )
