"""Sealing a database that was written without keys, in steps that can be repeated.

The first step of a user is one transaction: its scopes get keys, and what names or identifies
something there is sealed, because it is looked up in one form alone. Contents follow in batches:
each tells by its own mark whether it is sealed, so that all can be read meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .....domain.errors import KeyDestroyed
from .. import rows
from ..lazy import Connection, sa, schema
from ..scope_seals import SEALED, ScopeSeal, is_sealed_row
from ..seals import (
    BLOCK,
    CHOSEN,
    FACT,
    MEMORIES,
    MESSAGE,
    METADATA,
    PLACEHOLDER,
    PLAIN,
    QUERY,
    REASON,
    SALTS,
    SUMMARY,
    TOOL_CALLS,
    USER,
    Seal,
    load_json,
)
from . import ledger, meta, placeholders, scopes

_BATCH = 400


class Person(NamedTuple):
    """A user that is not sealed."""

    tenant: str
    user: str


def left(conn: Connection) -> int:
    """How many scopes are not sealed, or not wholly."""
    plain = sa.select(sa.func.count()).select_from(schema.scopes)
    count = int(conn.execute(plain.where(schema.scopes.c.key_ref.is_(None))).scalar_one())
    return count + len(_begun(conn))


def _begun(conn: Connection) -> list[int]:
    names = schema.meta.c.name
    found = sa.select(names).where(names.startswith(scopes.SEALING))
    return sorted(int(name.removeprefix(scopes.SEALING)) for name in conn.execute(found).scalars())


def next_person(conn: Connection) -> Person | None:
    """A user with a row that is not sealed."""
    for table in (schema.scopes, schema.holds, schema.keys):
        plain = sa.select(table.c.tenant, table.c.user).where(
            table.c.key_ref.is_(None), table.c.user.is_not(None)
        )
        row = conn.execute(plain.limit(1)).first()
        if row is not None:
            return Person(row.tenant, row.user)
    return None


def begin(conn: Connection, person: Person) -> int:
    """Give a user's scopes keys, and seal names; returns how many scopes."""
    _wait_for_new_users(conn)
    known = schema.scopes
    mine = known.c.tenant == person.tenant, known.c.user == person.user
    found = conn.execute(
        sa.select(known)
        .where(*mine, known.c.key_ref.is_(None))
        .order_by(known.c.id)
        .with_for_update()
    ).all()
    keys = [conn.seals.new_key() for _ in found]
    hashed = conn.seals.hashed_user(person.tenant, person.user)
    for row, (ref, seal) in zip(found, keys, strict=True):
        assert ref is not None
        sealed = seal.data(USER, ref, person.user.encode("utf-8", "surrogatepass"))
        conn.execute(
            sa.update(known)
            .where(known.c.id == row.id)
            .values(
                user=hashed,
                key_ref=ref,
                sealed_user=sealed,
                version=known.c.version + 1,
                epoch=known.c.epoch + 1,
            )
        )
        _seal_names(conn, row.id, seal)
        meta.put(conn, f"{scopes.SEALING}{row.id}", b"")
    _seal_holds(conn, schema.holds.c.user == person.user, person.tenant)
    _seal_api_keys(conn, person, hashed)
    return len(found)


def _wait_for_new_users(conn: Connection) -> None:
    """Wait for those who write a user's plain name, and keep others from it."""
    meta.get(conn, meta.KEYS, change=True)


def _seal_holds(conn: Connection, wanted: sa.ColumnElement[bool], tenant: str) -> None:
    table = schema.holds
    plain = sa.select(table).where(table.c.tenant == tenant, wanted, table.c.key_ref.is_(None))
    for row in conn.execute(plain).all():
        ref, seal = conn.seals.new_key()
        told = seal.text(REASON, row.id, json.dumps([row.user, row.reason]))
        user = None if row.user is None else conn.seals.hashed_user(tenant, row.user)
        values = {"user": user, "reason": told, "key_ref": ref}
        conn.execute(sa.update(table).where(table.c.id == row.id).values(values))


def _seal_holds_of_episodes(conn: Connection) -> None:
    """Seal the reasons of holds that name no user."""
    table = schema.holds
    wanted = sa.and_(table.c.user.is_(None), table.c.key_ref.is_(None))
    tenants = conn.execute(sa.select(table.c.tenant).where(wanted).distinct()).scalars()
    for tenant in list(tenants):
        _seal_holds(conn, wanted, tenant)


def _seal_api_keys(conn: Connection, person: Person, hashed: str) -> None:
    table = schema.keys
    mine = table.c.tenant == person.tenant, table.c.user == person.user
    for row in conn.execute(sa.select(table.c.id).where(*mine, table.c.key_ref.is_(None))).all():
        ref, seal = conn.seals.new_key()
        sealed = seal.data(USER, row.id, person.user.encode("utf-8", "surrogatepass"))
        values = {"user": hashed, "key_ref": ref, "sealed_user": sealed}
        conn.execute(sa.update(table).where(table.c.id == row.id).values(values))


def _seal_names(conn: Connection, scope_id: int, seal: Seal) -> None:
    told, said = schema.conversations, schema.episodes
    sessions = conn.execute(sa.select(told).where(told.c.scope_id == scope_id)).all()
    for row in sessions:
        name = seal.name(row.session_id)
        salts = None if row.key_salts is None else seal.data(SALTS, name, bytes(row.key_salts))
        metadata = seal.dump_json(METADATA, name, load_json(row.metadata))
        this = told.c.scope_id == scope_id, told.c.session_id == row.session_id
        values = {"session_id": name, "metadata": metadata, "key_salts": salts}
        conn.execute(sa.update(told).where(*this).values(values))
        for table in (said, schema.message_keys, schema.injections):
            there = table.c.scope_id == scope_id, table.c.session_id == row.session_id
            conn.execute(sa.update(table).where(*there).values(session_id=name))
    _seal_entries_elsewhere(conn, scope_id, seal, {row.session_id for row in sessions})
    for row in _rows(conn, schema.message_keys, scope_id):
        _set(conn, schema.message_keys, row, digest=seal.digest(bytes(row.digest)))
    for row in _rows(conn, schema.idempotency, scope_id):
        fingerprint = seal.fingerprint(bytes(row.fingerprint))
        _set(conn, schema.idempotency, row, key=seal.name(row.key), fingerprint=fingerprint)
    for row in _rows(conn, schema.injections, scope_id):
        if row.hash:
            _set(conn, schema.injections, row, hash=seal.data(BLOCK, row.id, bytes(row.hash)))
    for row in _rows(conn, schema.injected, scope_id):
        place = ledger.place_of(row.injection_id, row.episode_id)
        _set(conn, schema.injected, row, memories=seal.text(MEMORIES, place, row.memories))
    for row in _rows(conn, schema.forget_previews, scope_id):
        chosen = seal.dump_json(CHOSEN, row.token, load_json(row.chosen))
        _set(conn, schema.forget_previews, row, chosen=chosen)
    own = sa.select(said.c.id).where(said.c.scope_id == scope_id)
    table = schema.placeholders
    for row in conn.execute(sa.select(table).where(table.c.episode_id.in_(own))).all():
        place = placeholders.place_of(row.episode_id, row.kind, row.number)
        _set(conn, table, row, digest=seal.data(PLACEHOLDER, place, bytes(row.digest)))
    for row in _rows(conn, schema.facts, scope_id):
        digests = {name: getattr(row, name) for name in ("digest", "slot_digest")}
        kept = {name: seal.fingerprint(bytes(each)) for name, each in digests.items() if each}
        if kept:
            _set(conn, schema.facts, row, **kept)


def _seal_entries_elsewhere(conn: Connection, scope_id: int, seal: Seal, known: set[str]) -> None:
    """Seal the names of sessions that only the ledger or a message key knows."""
    for table in (schema.injections, schema.message_keys):
        column = table.c.session_id
        found = conn.execute(sa.select(column).where(table.c.scope_id == scope_id).distinct())
        sealed = {seal.name(name) for name in known}
        for name in set(found.scalars()) - known - sealed:
            there = table.c.scope_id == scope_id, column == name
            conn.execute(sa.update(table).where(*there).values(session_id=seal.name(name)))


def _rows(conn: Connection, table: sa.Table, scope_id: int) -> Sequence[Any]:
    return conn.execute(sa.select(table).where(table.c.scope_id == scope_id)).all()


def _set(conn: Connection, table: sa.Table, row: Any, **values: Any) -> None:
    this = [column == getattr(row, column.name) for column in table.primary_key.columns]
    conn.execute(sa.update(table).where(*this).values(values))


def next_scope(conn: Connection) -> int | None:
    """A scope whose contents are not all sealed."""
    begun = _begun(conn)
    return begun[0] if begun else None


class Position(NamedTuple):
    """Where the contents of a scope are sealed up to."""

    part: int = 0
    after: Any = None


def seal_some(conn: Connection, scope_id: int, position: Position) -> tuple[Position | None, int]:
    """Seal a batch of a scope's contents: the position after it, None at the end; and its rows."""
    scopes.lock(conn, [scope_id])
    try:
        seal = conn.seals.of(scope_id)
    except KeyDestroyed:
        # It is being erased.
        seal = PLAIN
    if not isinstance(seal, ScopeSeal) or position.part == len(_PARTS):
        # At the end, or the scope was erased meanwhile.
        conn.execute(
            sa.delete(schema.meta).where(schema.meta.c.name == f"{scopes.SEALING}{scope_id}")
        )
        return None, 0
    after, count = _PARTS[position.part](conn, scope_id, seal, position.after)
    if after is None:
        return Position(position.part + 1), count
    return Position(position.part, after), count


def _seal_recall(conn: Connection, scope_id: int, seal: ScopeSeal, after: Any) -> tuple[Any, int]:
    table = schema.recall
    page = sa.select(table).where(table.c.scope_id == scope_id, table.c.seq > (after or 0))
    found = [dict(row) for row in conn.execute(page.order_by(table.c.seq).limit(_BATCH)).mappings()]
    plain = [row for row in found if not is_sealed_row(row["terms"])]
    for row in plain:
        new = seal.recall_row(row)
        values = {name: new[name] for name in ("flags", "told", "speaker", "terms", "vector")}
        this = table.c.scope_id == scope_id, table.c.seq == row["seq"]
        conn.execute(sa.update(table).where(*this).values(values))
    return (found[-1]["seq"] if len(found) == _BATCH else None), len(plain)


def _seal_episodes(conn: Connection, scope_id: int, seal: ScopeSeal, after: Any) -> tuple[Any, int]:
    """Seal the next episode: its turns and its summary."""
    said = schema.episodes
    page = sa.select(said.c.id, said.c.summary_codec, said.c.summary).where(
        said.c.scope_id == scope_id
    )
    if after is not None:
        page = page.where(said.c.id > after)
    row = conn.execute(page.order_by(said.c.id).limit(1)).one_or_none()
    if row is None:
        return None, 0
    sealed = 0
    if row.summary_codec is not None and row.summary_codec < SEALED:
        mark, summary = seal.seal(SUMMARY, row.id, row.summary_codec, bytes(row.summary))
        this = said.c.id == row.id, said.c.scope_id == scope_id
        conn.execute(sa.update(said).where(*this).values(summary_codec=mark, summary=summary))
    for table in (schema.turns, schema.turns_archive):
        columns = [table.c[name] for name in ("row", "id", *rows.PACKED)]
        there = table.c.episode_id == row.id, table.c.scope_id == scope_id
        for turn in conn.execute(sa.select(*columns).where(*there)).all():
            values = dict(_sealed_turn(seal, turn))
            if values:
                own = sa.update(table).where(table.c.row == turn.row, *there)
                conn.execute(own.values(values))
                sealed += 1
    return row.id, sealed


def _sealed_turn(seal: ScopeSeal, turn: Any) -> Iterator[tuple[str, Any]]:
    pairs = (("codec", "message", MESSAGE), ("tool_codec", "tool_calls", TOOL_CALLS))
    for mark_name, name, column in pairs:
        mark, payload = getattr(turn, mark_name), getattr(turn, name)
        if mark is not None and mark < SEALED:
            mark, payload = seal.seal(column, turn.id, mark, bytes(payload))
            yield mark_name, mark
            yield name, payload


def _seal_facts(conn: Connection, scope_id: int, seal: ScopeSeal, _: Any) -> tuple[Any, int]:
    return None, _seal_marked(conn, schema.facts, "content", FACT, scope_id, seal)


def _seal_queries(conn: Connection, scope_id: int, seal: ScopeSeal, _: Any) -> tuple[Any, int]:
    return None, _seal_marked(conn, schema.injections, "query", QUERY, scope_id, seal)


def _seal_marked(
    conn: Connection, table: sa.Table, name: str, column: bytes, scope_id: int, seal: ScopeSeal
) -> int:
    there = table.c.scope_id == scope_id, table.c.codec < SEALED
    found = conn.execute(sa.select(table).where(*there)).all()
    for row in found:
        mark, payload = seal.seal(column, row.id, row.codec, bytes(getattr(row, name)))
        _set(conn, table, row, codec=mark, **{name: payload})
    return len(found)


_PARTS = (_seal_recall, _seal_episodes, _seal_facts, _seal_queries)


def end(conn: Connection) -> bool:
    """Record that everything is sealed, and seal the database's secret; False if it is not."""
    _wait_for_new_users(conn)
    _seal_holds_of_episodes(conn)
    if next_person(conn) is not None or next_scope(conn) is not None:
        return False
    kept = meta.get(conn, meta.SALT, change=True) or b""
    meta.put(conn, meta.SALT, conn.seals.sealed_salt(conn.seals.salt(kept)))
    meta.put(conn, meta.SEALED, b"1")
    return True
