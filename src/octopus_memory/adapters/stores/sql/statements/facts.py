"""Standing facts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....domain.episode import Scope
from .....domain.errors import FactNotFound
from .....domain.facts import MOST_FACTS_OF_EPISODE, MOST_FACTS_READ, Fact, FactOrigin
from .. import column_values, fact_rows, rows
from ..lazy import Connection, sa, schema, sql, without_snapshot
from . import agent_configs, audit, common, holds, meta, scopes

if TYPE_CHECKING:
    from .....domain.audit import AuditDraft


@cache
def _in_scope() -> sa.ColumnElement[bool]:
    return sa.and_(
        schema.facts.c.scope_id == common.scope_id(),
        schema.facts.c.tenant == sa.bindparam("tenant_"),
    )


@cache
def _visible() -> sa.Select[Any]:
    """The facts of a scope whose episode is not deleted."""
    facts, episodes = schema.facts, schema.episodes
    return (
        sa.select(facts)
        .select_from(facts.outerjoin(episodes, episodes.c.id == facts.c.episode_id))
        .where(
            _in_scope(),
            sa.or_(
                facts.c.episode_id.is_(None),
                sa.and_(episodes.c.id.is_not(None), episodes.c.deleted_at.is_(None)),
            ),
        )
    )


@cache
def _until() -> sa.Select[Any]:
    until = sa.bindparam("until_", type_=schema.facts.c.since.type)
    return _visible().where(schema.facts.c.since <= until)


@sql
def _newest() -> sa.Select[Any]:
    newest = schema.facts.c.since.desc(), schema.facts.c.id.desc()
    return _until().order_by(*newest).limit(MOST_FACTS_READ)


@sql
def _pinned() -> sa.Select[Any]:
    return _until().where(schema.facts.c.is_pinned.is_(True))


@sql
def _fact() -> sa.Select[Any]:
    return _visible().where(
        schema.facts.c.id == sa.bindparam("id_"), schema.facts.c.deleted_at.is_(None)
    )


@sql
def _of_episode() -> sa.Select[Any]:
    return sa.select(schema.facts).where(
        schema.facts.c.scope_id == sa.bindparam("scope_"),
        schema.facts.c.episode_id == sa.bindparam("episode_"),
    )


@sql
def _insert() -> sa.Insert:
    return sa.insert(schema.facts)


@sql
def _drop() -> sa.Delete:
    return sa.delete(schema.facts).where(
        schema.facts.c.scope_id == sa.bindparam("scope_"),
        schema.facts.c.id.in_(sa.bindparam("ids", expanding=True)),
    )


@sql
def drop_of_episode() -> sa.Delete:
    return sa.delete(schema.facts).where(
        schema.facts.c.scope_id == sa.bindparam("scope_"),
        schema.facts.c.episode_id == sa.bindparam("episode_"),
    )


@without_snapshot
def newest(conn: Connection, scope: Scope, until: datetime | None) -> list[Fact]:
    asked = common.scope_params(conn, scope) | {"until_": until or column_values.OPEN_END}
    found = list(conn.execute(_newest, asked))
    if len(found) == MOST_FACTS_READ:
        known = {row.id for row in found}
        found += [row for row in conn.execute(_pinned, asked) if row.id not in known]
    return fact_rows.read(conn, found)


def of_episode(conn: Connection, scope: Scope, scope_id: int, episode_id: UUID) -> list[Fact]:
    """An episode's facts, even if the episode is deleted."""
    found = list(conn.execute(_of_episode, {"scope_": scope_id, "episode_": episode_id}))
    return _by_time(conn, scope, found)


def undeleted_ids(conn: Connection, scope_id: int, episode_id: UUID) -> set[UUID]:
    found = conn.execute(_of_episode, {"scope_": scope_id, "episode_": episode_id})
    return {row.id for row in found if row.deleted_at is None}


def given(conn: Connection, scope: Scope, until: datetime | None) -> list[Fact]:
    own = _until().where(schema.facts.c.episode_id.is_(None))
    asked = common.scope_params(conn, scope) | {"until_": until or column_values.OPEN_END}
    return _by_time(conn, scope, list(conn.execute(own, asked)))


def _by_time(conn: Connection, scope: Scope, found: list[rows.Row]) -> list[Fact]:
    slots = None
    if any(row.deleted_at is not None for row in found):
        # A deleted fact has the slot of any other fact with its slot digest.
        others = list(conn.execute(_visible(), common.scope_params(conn, scope)))
        slots = fact_rows.slots_of(conn, others)
        found = [row for row in found if row.deleted_at is None or row.slot_digest in slots]
    facts = fact_rows.read(conn, found, slots)
    return sorted(facts, key=lambda fact: (fact.since, fact.id.int))


def add(
    conn: Connection,
    scope: Scope,
    facts: Sequence[Fact],
    *,
    settings: str | None = None,
    entry: AuditDraft | None = None,
) -> int:
    if not facts:
        return 0
    scope_id, _ = scopes.take_rows(conn, scope, 0)
    version = agent_configs.read_version(conn, scope, settings)
    known: set[UUID] = set()
    for some in common.chunks([fact.id for fact in facts]):
        there = sa.select(schema.facts.c.id).where(
            schema.facts.c.scope_id == scope_id, schema.facts.c.id.in_(some)
        )
        known.update(conn.execute(there).scalars())
    agent_configs.check_version(version, settings)
    new = [fact for fact in facts if fact.id not in known]
    insert(conn, common.episode_key(scope, scope_id, None), new)
    if entry is not None and new:
        audit.append(conn, entry)
    return len(new)


def pin(
    conn: Connection, scope: Scope, fact_id: UUID, *, pinned: bool, entry: AuditDraft | None = None
) -> Fact:
    row = _lock_fact(conn, scope, fact_id)
    _update(conn, row.scope_id, fact_id, is_pinned=pinned)
    if entry is not None:
        audit.append(conn, entry)
    return fact_rows.read(conn, [_find(conn, scope, fact_id)])[0]


def delete(
    conn: Connection, scope: Scope, fact_id: UUID, *, at: datetime, entry: AuditDraft | None = None
) -> None:
    row = _lock_fact(conn, scope, fact_id)
    source = [] if row.episode_id is None else [row.episode_id]
    holds.check(conn, scope.tenant, scope.user, source)
    _clear(conn, row, at=at)
    meta.count_removal(conn)
    if entry is not None:
        audit.append(conn, entry)


def clear(conn: Connection, scope_id: int, ids: Collection[UUID], *, at: datetime) -> int:
    """Clear facts as `delete` does, in any stage of their episode; returns how many."""
    table, cleared = schema.facts, 0
    for some in common.chunks(list(ids)):
        there = sa.select(table).where(
            table.c.scope_id == scope_id, table.c.id.in_(some), table.c.deleted_at.is_(None)
        )
        for row in conn.execute(there).all():
            _clear(conn, row, at=at)
            cleared += 1
    return cleared


def _clear(conn: Connection, row: rows.Row, *, at: datetime) -> None:
    slot, text = fact_rows.content(conn, row)
    digests = fact_rows.Digests(conn, row.tenant, row.scope_id)
    _update(
        conn,
        row.scope_id,
        row.id,
        codec=None,
        content=None,
        is_pinned=False,
        deleted_at=at,
        digest=digests.of(row.kind, slot, text),
        slot_digest=digests.of(row.kind, slot),
    )


def _lock_fact(conn: Connection, scope: Scope, fact_id: UUID) -> rows.Row:
    """The fact that is to be changed; locks its scope and bumps its version."""
    row = None if scopes.lock_scope(conn, scope) is None else _find(conn, scope, fact_id)
    if row is None:
        raise FactNotFound(fact_id)
    scopes.take_rows(conn, scope, 0)
    return row


def _find(conn: Connection, scope: Scope, fact_id: UUID) -> rows.Row:
    return conn.execute(_fact, common.scope_params(conn, scope) | {"id_": fact_id}).one_or_none()


def _update(conn: Connection, scope_id: int, fact_id: UUID, **values: Any) -> None:
    facts = schema.facts
    conn.execute(
        sa.update(facts).where(facts.c.scope_id == scope_id, facts.c.id == fact_id).values(**values)
    )


def detach(conn: Connection, scope_id: int, episode_id: UUID, ids: Collection[UUID] = ()) -> None:
    """Take the source from an episode's pinned facts and from these, so that they outlive it."""
    table = schema.facts
    kept: sa.ColumnElement[bool] = table.c.is_pinned.is_(True)
    if ids:
        kept = sa.or_(kept, table.c.id.in_(list(ids)))
    conn.execute(
        sa.update(table)
        .where(
            table.c.scope_id == scope_id,
            table.c.episode_id == episode_id,
            table.c.deleted_at.is_(None),
            kept,
        )
        .values(episode_id=None, turn_id=None, ordinal=None)
    )


def drop_detached(conn: Connection, scope_id: int) -> int:
    """Delete the facts of earlier episodes from a scope that has no episode any more."""
    table, episodes = schema.facts, schema.episodes
    dropped = conn.execute(
        sa.delete(table).where(
            table.c.scope_id == scope_id,
            table.c.episode_id.is_(None),
            table.c.origin != FactOrigin.CALLER.value,
            table.c.is_pinned.is_(False),
            ~sa.exists().where(episodes.c.scope_id == scope_id),
        )
    )
    return int(dropped.rowcount)


def rewrite(
    conn: Connection, scope_id: int, episode_id: UUID | None, facts: Sequence[Fact]
) -> None:
    """Replace slot and text of the facts of one episode, or of those that a caller gave."""
    table = schema.facts
    source = table.c.episode_id
    for fact in facts:
        conn.execute(
            sa.update(table)
            .where(
                table.c.scope_id == scope_id,
                table.c.id == fact.id,
                source.is_(None) if episode_id is None else source == episode_id,
                table.c.deleted_at.is_(None),
            )
            .values(**fact_rows.pack(conn.seals.of(scope_id), fact))
        )


def replace_found(
    conn: Connection, episode_key: dict[str, Any], facts: Sequence[Fact], *, is_new: bool = False
) -> None:
    """Replace an episode's facts with those that a summarizer found.

    A fact with the same words keeps its row, so that its id stays. An `is_new` episode has no facts
    yet.
    """
    if is_new:
        insert(conn, episode_key, facts)
        return
    this = {"scope_": episode_key["scope_id"], "episode_": episode_key["episode_id"]}
    known = list(conn.execute(_of_episode, this))
    deleted = [row for row in known if row.deleted_at is not None]
    digests = fact_rows.Digests(conn, episode_key["tenant"], episode_key["scope_id"])
    there = {
        row.id: (row.kind, *fact_rows.content(conn, row)) for row in known if row.deleted_at is None
    }
    pinned = {row.id for row in known if row.is_pinned}
    found = {(fact.kind.value, fact.slot, fact.text): fact for fact in facts}
    gone = [key for key, said in there.items() if key not in pinned and said not in found]
    for some in common.chunks(gone):
        conn.execute(_drop, {"scope_": episode_key["scope_id"], "ids": some})
    kept = set(there.values())
    insert(
        conn,
        episode_key,
        [
            fact
            for said, fact in found.items()
            if said not in kept and not any(_restates(fact, row, digests) for row in deleted)
        ],
    )


def add_found(
    conn: Connection, episode_key: dict[str, Any], facts: Sequence[Fact], *, first: int
) -> None:
    """Add facts of an episode's turns from `first` on, unless it has facts of these turns."""
    this = {"scope_": episode_key["scope_id"], "episode_": episode_key["episode_id"]}
    known = list(conn.execute(_of_episode, this))
    if any(row.ordinal is not None and row.ordinal >= first for row in known):
        return
    room = MOST_FACTS_OF_EPISODE - len(known)
    said = {
        (row.kind, slot): text
        for row in sorted(known, key=lambda row: row.ordinal or 0)
        if row.deleted_at is None
        for slot, text in [fact_rows.content(conn, row)]
    }
    deleted = [row for row in known if row.deleted_at is not None]
    digests = fact_rows.Digests(conn, episode_key["tenant"], episode_key["scope_id"])
    insert(
        conn,
        episode_key,
        [
            fact
            for fact in facts[: max(room, 0)]
            # Said again, it is no news.
            if said.get((fact.kind, fact.slot)) != fact.text
            and not any(_restates(fact, row, digests) for row in deleted)
        ],
    )


def _restates(fact: Fact, deleted: rows.Row, digests: fact_rows.Digests) -> bool:
    """True if a found fact restates a deleted one, in its words or in others of its slot.

    A summarizer may word one turn differently each time. A fact from a later turn is new, and fills
    the slot.
    """
    if deleted.digest == digests.of(fact.kind, fact.slot, fact.text):
        return True
    if deleted.slot_digest != digests.of(fact.kind, fact.slot):
        return False
    return fact.ordinal is None or deleted.ordinal is None or fact.ordinal <= deleted.ordinal


def insert(conn: Connection, episode_key: dict[str, Any], facts: Sequence[Fact]) -> None:
    """Store facts of an episode, or of a scope if a caller gave them."""
    if not facts:
        return
    digests = fact_rows.Digests(conn, episode_key["tenant"], episode_key["scope_id"])
    seal = conn.seals.of(episode_key["scope_id"])
    conn.insert(
        _insert,
        fact_rows.NEW_FACT,
        [fact_rows.new_row(seal, episode_key, fact, digests) for fact in facts],
    )
