"""Erasures and their receipts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....domain.episode import Scope
from .....domain.errors import EpisodeNotFound, SessionNotFound
from .....domain.message import Json
from .....ports.recall_rows import WorkKind
from .. import rows
from ..lazy import Connection, sa, schema, sql_for, without_snapshot
from ..seals import load_json
from . import audit, common, forget, holds, ledger, message_keys, meta, mirror, remove, scopes

if TYPE_CHECKING:
    from .....domain.audit import AuditDraft
    from .....domain.erasure import Erasure, Subject

_KEYS = "api keys"


@cache
def _tables() -> dict[str, sa.Table]:
    """The tables with rows of a scope; an episode's rows come before the episodes."""
    return {
        "turns": schema.turns,
        "archived turns": schema.turns_archive,
        "recall rows": schema.recall,
        "waiting work": schema.work,
        "idempotency keys": schema.idempotency,
        "message keys": schema.message_keys,
        "placeholders": schema.placeholders,
        "facts": schema.facts,
        "ledger items": schema.injected,
        "ledger entries": schema.injections,
        "forget previews": schema.forget_previews,
        "episodes": schema.episodes,
        "sessions": schema.conversations,
    }


@cache
def _by_episode() -> tuple[sa.Table, ...]:
    return (schema.turns, schema.turns_archive, schema.placeholders)


def erase(conn: Connection, subject: Subject, erasure: Erasure, entry: AuditDraft) -> Erasure:
    if subject.episode_id is not None:
        done = _erase_episode(conn, subject, subject.episode_id, erasure)
    elif subject.session_id is not None:
        done = _erase_session(conn, subject, subject.session_id, erasure)
    else:
        done = _erase_scopes(conn, subject, erasure)
    return record(conn, done, entry)


def begin(conn: Connection, subject: Subject, erasure: Erasure) -> Erasure | None:
    """Record the erasure of a user whose scopes have keys, before it destroys any.

    None if the user has no key: then `erase` does it all.
    """
    user = conn.seals.new_user(subject.tenant, subject.user)
    known = schema.scopes
    wanted = [known.c.tenant == subject.tenant, known.c.user == user]
    if subject.agent is not None:
        wanted.append(known.c.agent == subject.agent)
    found = conn.execute(
        sa.select(known.c.id, known.c.key_ref).where(*wanted).order_by(known.c.id).with_for_update()
    ).all()
    refs = [row.key_ref for row in found]
    if subject.agent is None:
        refs += _refs_of_api_keys(conn, subject.tenant, user)
    if not refs or None in refs:
        return None
    for row in found:
        own = sa.select(schema.episodes.c.id).where(schema.episodes.c.scope_id == row.id)
        holds.check(conn, subject.tenant, subject.user, list(conn.execute(own).scalars()))
    begun = replace(
        erasure,
        key_refs=tuple(refs),
        kept_user=user if subject.agent is None else None,
        was_sealed=_were_sealed(conn, [row.id for row in found]),
        keeps_rows=True,
        scope_ids=tuple(row.id for row in found),
    )
    _insert(conn, begun)
    # So that no process keeps them in memory, even if this one is killed before the rows go.
    conn.execute(
        sa.update(known)
        .where(known.c.id.in_(begun.scope_ids))
        .values(version=known.c.version + 1, epoch=known.c.epoch + 1)
    )
    return begun


def _were_sealed(conn: Connection, ids: Sequence[int]) -> bool:
    """True if no contents of these scopes wait to be sealed."""
    names = [f"{scopes.SEALING}{each}" for each in ids]
    waiting = sa.select(schema.meta.c.name).where(schema.meta.c.name.in_(names)).limit(1)
    return conn.execute(waiting).first() is None


def remove_rows(conn: Connection, begun: Erasure) -> Erasure:
    """Remove the rows of an erasure whose keys were destroyed; again, nothing is left to remove."""
    from .....domain.audit import AuditDraft

    table = schema.erasures
    this = sa.and_(table.c.id == begun.id, table.c.tenant == begun.tenant)
    row = conn.execute(sa.select(table).where(this).with_for_update()).one_or_none()
    stored = begun if row is None else _erasure(row)
    if not stored.keeps_rows:
        return stored
    found = conn.execute(
        sa.select(schema.scopes.c.id, schema.scopes.c.next_seq)
        .where(schema.scopes.c.id.in_(stored.scope_ids), schema.scopes.c.tenant == stored.tenant)
        .order_by(schema.scopes.c.id)
        .with_for_update()
    ).all()
    removed = _remove_scopes(conn, stored, found)
    if stored.kept_user is not None:
        removed[_KEYS] = _drop_api_keys(conn, stored.tenant, stored.kept_user)
    done = replace(stored, removed=removed, keeps_rows=False, number=meta.count_removal(conn))
    conn.execute(sa.update(table).where(this).values(facts=rows.dump_json(_facts(done))))
    entry = AuditDraft(
        at=done.at,
        tenant=done.tenant,
        actor=done.actor,
        action="erase",
        subject=done.subject,
        detail={"erasure": str(done.id), "removed": dict(removed)},
    )
    audit.append(conn, entry)
    return done


def record(conn: Connection, done: Erasure, entry: AuditDraft) -> Erasure:
    """Store an erasure as unfinished, and its entry in the audit log."""
    if any(done.removed.values()):
        number = meta.count_removal(conn)
    else:
        # Rows that were removed earlier may still be in the files.
        number = meta.number(conn, meta.REMOVALS)
    done = replace(done, number=number)
    _insert(conn, done)
    audit.append(conn, replace(entry, detail={**entry.detail, "removed": dict(done.removed)}))
    return done


def _insert(conn: Connection, done: Erasure) -> None:
    conn.execute(
        sa.insert(schema.erasures).values(
            id=done.id,
            tenant=done.tenant,
            at=done.at,
            subject=done.subject,
            facts=rows.dump_json(_facts(done)),
            is_finished=False,
        )
    )


def _facts(done: Erasure) -> dict[str, Json]:
    return {
        "removed": dict(done.removed),
        "scope_ids": list(done.scope_ids),
        "episode_id": None if done.episode_id is None else str(done.episode_id),
        "episode_ids": [str(episode_id) for episode_id in done.episode_ids],
        "chosen": None if done.chosen is None else done.chosen.ids().to_dict(),
        "actor": done.actor,
        "physical": done.physical,
        "number": done.number,
        "key_refs": list(done.key_refs),
        "kept_user": done.kept_user,
        "was_sealed": done.was_sealed,
        "keeps_rows": done.keeps_rows,
    }


def _erase_scopes(conn: Connection, subject: Subject, erasure: Erasure) -> Erasure:
    user = conn.seals.new_user(subject.tenant, subject.user)
    wanted = [schema.scopes.c.tenant == subject.tenant, schema.scopes.c.user == user]
    if subject.agent is not None:
        wanted.append(schema.scopes.c.agent == subject.agent)
    found = conn.execute(
        sa.select(schema.scopes.c.id, schema.scopes.c.next_seq, schema.scopes.c.key_ref)
        .where(*wanted)
        .order_by(schema.scopes.c.id)
        .with_for_update()
    ).all()
    # Only if `encrypt` has given keys since the erasure began.
    refs = [row.key_ref for row in found]
    for row in found:
        own = sa.select(schema.episodes.c.id).where(schema.episodes.c.scope_id == row.id)
        holds.check(conn, subject.tenant, subject.user, list(conn.execute(own).scalars()))
    removed = _remove_scopes(conn, erasure, found)
    if subject.agent is None:
        refs += _refs_of_api_keys(conn, subject.tenant, user)
        removed[_KEYS] = _drop_api_keys(conn, subject.tenant, user)
    return replace(
        erasure,
        removed=removed,
        scope_ids=tuple(row.id for row in found),
        key_refs=tuple(ref for ref in refs if ref is not None),
        was_sealed=False,
    )


def _remove_scopes(conn: Connection, erasure: Erasure, found: Sequence[rows.Row]) -> dict[str, int]:
    """Delete every row of these scopes, which are locked; returns the number by table."""
    removed = dict.fromkeys((*_tables(), "scopes"), 0)
    for row in found:
        for name, table in _tables().items():
            removed[name] += conn.execute(_of_scope(table, row.id, erasure.tenant)).rowcount
        removed["scopes"] += conn.execute(
            sa.delete(schema.scopes).where(schema.scopes.c.id == row.id)
        ).rowcount
        mirror.queue_removal(
            conn, erasure.tenant, row.id, None, before_seq=row.next_seq, now=erasure.at
        )
    return removed


def _of_scope(table: sa.Table, scope_id: int, tenant: str) -> sa.Delete:
    gone = sa.delete(table).where(table.c.scope_id == scope_id, table.c.tenant == tenant)
    if table not in _by_episode():
        return gone
    # By episode, because these tables have no index by scope.
    own = sa.select(schema.episodes.c.id).where(schema.episodes.c.scope_id == scope_id)
    return gone.where(table.c.episode_id.in_(own))


def _refs_of_api_keys(conn: Connection, tenant: str, user: str) -> list[str | None]:
    keys = schema.keys
    mine = sa.select(keys.c.key_ref).where(keys.c.tenant == tenant, keys.c.user == user)
    return list(conn.execute(mine).scalars())


def _drop_api_keys(conn: Connection, tenant: str, user: str) -> int:
    """Delete the API keys of a user, whom `user` names as their rows do."""
    keys = schema.keys
    mine = sa.delete(keys).where(keys.c.tenant == tenant, keys.c.user == user)
    return conn.execute(mine).rowcount


def _erase_episode(
    conn: Connection, subject: Subject, episode_id: UUID, erasure: Erasure
) -> Erasure:
    scope = Scope(tenant=subject.tenant, agent=subject.agent or "", user=subject.user)
    locked = scopes.lock_scope(conn, scope)
    known = conn.execute(
        sa.select(schema.episodes.c.session_id).where(
            common.in_scope(), schema.episodes.c.id == episode_id
        ),
        common.scope_params(conn, scope),
    ).one_or_none()
    if locked is None or known is None:
        raise EpisodeNotFound(episode_id)
    scope_id = locked.id
    holds.check(conn, subject.tenant, subject.user, [episode_id])
    removed = {"waiting work": _count(conn, schema.work, _own_work(scope_id, episode_id))}
    removed |= remove.episode(conn, scope, scope_id, episode_id, now=erasure.at)
    removed["sessions"] = remove.empty_session(conn, scope_id, known.session_id)
    ref = conn.seals.key_of(scope_id)
    removed["scopes"] = _remove_empty_scope(conn, scope_id)
    refs = (ref,) if ref is not None and removed["scopes"] else ()
    return replace(
        erasure, removed=removed, scope_ids=(scope_id,), episode_id=episode_id, key_refs=refs
    )


def _erase_session(
    conn: Connection, subject: Subject, session_id: str, erasure: Erasure
) -> Erasure:
    scope = Scope(tenant=subject.tenant, agent=subject.agent or "", user=subject.user)
    locked = scopes.lock_scope(conn, scope)
    found = conn.execute(
        sa.select(schema.episodes.c.id).where(
            common.in_scope(), schema.episodes.c.session_id == sa.bindparam("session_")
        ),
        common.session_params(conn, scope, session_id),
    )
    ids: list[UUID] = list(found.scalars())
    if locked is None or not ids:
        raise SessionNotFound(session_id)
    holds.check(conn, subject.tenant, subject.user, ids)
    removed: dict[str, int] = {}
    for episode_id in ids:
        gone = {"waiting work": _count(conn, schema.work, _own_work(locked.id, episode_id))}
        gone |= remove.episode(conn, scope, locked.id, episode_id, now=erasure.at)
        removed = {name: removed.get(name, 0) + count for name, count in gone.items()}
    name = conn.seals.of(locked.id).name(session_id)
    this = {"scope_": locked.id, "session_": name}
    removed["message keys"] = conn.execute(message_keys.drop_of_session, this).rowcount
    removed["sessions"] = remove.empty_session(conn, locked.id, name)
    ref = conn.seals.key_of(locked.id)
    removed["scopes"] = _remove_empty_scope(conn, locked.id)
    refs = (ref,) if ref is not None and removed["scopes"] else ()
    return replace(
        erasure,
        removed=removed,
        scope_ids=(locked.id,),
        episode_ids=tuple(ids),
        key_refs=refs,
    )


def _own_work(scope_id: int, episode_id: UUID) -> list[sa.ColumnElement[bool]]:
    return [
        schema.work.c.scope_id == scope_id,
        schema.work.c.episode_id == episode_id,
        schema.work.c.kind != rows.KINDS[WorkKind.UNINDEX],
    ]


def _remove_empty_scope(conn: Connection, scope_id: int) -> int:
    """Delete a scope that has neither a session nor a fact."""
    for table in (schema.conversations, schema.facts):
        left = sa.select(table.c.scope_id).where(table.c.scope_id == scope_id).limit(1)
        if conn.execute(left).first() is not None:
            return 0
    ledger.drop_of_scope(conn, scope_id)
    return conn.execute(sa.delete(schema.scopes).where(schema.scopes.c.id == scope_id)).rowcount


def left_of(conn: Connection, erasure: Erasure) -> dict[str, int]:
    if erasure.chosen is not None:
        return forget.left_of(conn, erasure, erasure.chosen)
    left = {}
    only = erasure.episode_ids if erasure.episode_id is None else (erasure.episode_id,)
    for name, table in _tables().items():
        wanted = [table.c.tenant == erasure.tenant]
        if table is schema.work:
            # Removals for the mirror are counted by `waiting_removals`.
            wanted.append(schema.work.c.kind != rows.KINDS[WorkKind.UNINDEX])
        if not only:
            left[name] = _count_in(conn, table, table.c.scope_id, erasure.scope_ids, wanted)
        elif "episode_id" in table.c or table is schema.episodes:
            # An episode and a session are of one scope.
            wanted.append(table.c.scope_id.in_(erasure.scope_ids))
            own = table.c.id if table is schema.episodes else table.c.episode_id
            left[name] = _count_in(conn, table, own, only, wanted)
    if not only:
        left["scopes"] = _count_in(conn, schema.scopes, schema.scopes.c.id, erasure.scope_ids, [])
    return left


def _count_in(
    conn: Connection,
    table: sa.Table,
    column: sa.ColumnElement[Any],
    ids: Sequence[Any],
    wanted: list[sa.ColumnElement[bool]],
) -> int:
    """Count the rows with any of the ids, some ids at a time."""
    some = common.chunks(ids)
    return sum(_count(conn, table, [column.in_(part), *wanted]) for part in some)


def _count(conn: Connection, table: sa.Table, wanted: Sequence[sa.ColumnElement[bool]]) -> int:
    return int(
        conn.execute(sa.select(sa.func.count()).select_from(table).where(*wanted)).scalar_one()
    )


@sql_for
def _erasures(given: tuple[str, ...], unfinished: bool) -> sa.Select[Any]:
    table = schema.erasures
    known = {
        "tenant_": table.c.tenant == sa.bindparam("tenant_"),
        "id_": table.c.id == sa.bindparam("id_"),
        "before_": table.c.id < sa.bindparam("before_"),
    }
    wanted = [known[name] for name in given if name in known]
    if unfinished:
        wanted.append(table.c.is_finished.is_(False))
    statement = sa.select(table).where(*wanted).order_by(table.c.id.desc())
    if "limit_" in given:
        statement = statement.limit(sa.bindparam("limit_", type_=sa.Integer))
    return statement


@without_snapshot
def erasures(
    conn: Connection,
    tenant: str | None = None,
    *,
    erasure_id: UUID | None = None,
    unfinished: bool = False,
    before: UUID | None = None,
    limit: int | None = None,
) -> list[Erasure]:
    bounds = {"tenant_": tenant, "id_": erasure_id, "before_": before, "limit_": limit}
    given: dict[str, Any] = {name: value for name, value in bounds.items() if value is not None}
    statement = _erasures(tuple(given), unfinished)
    return [_erasure(row) for row in conn.execute(statement, given)]


def keep_receipt(
    conn: Connection,
    erasure: Erasure,
    receipt: Mapping[str, Json],
    entry: AuditDraft,
    *,
    finished: bool,
) -> bool:
    done = conn.execute(
        sa.update(schema.erasures)
        .where(
            schema.erasures.c.id == erasure.id,
            schema.erasures.c.tenant == erasure.tenant,
            schema.erasures.c.is_finished.is_(False),
        )
        .values(receipt=rows.dump_json(receipt), is_finished=finished)
    )
    if not done.rowcount:
        return False
    audit.append(conn, entry)
    return True


def _erasure(row: sa.Row[Any]) -> Erasure:
    from .....domain.erasure import Erasure
    from .....domain.forget import Chosen

    facts: Any = load_json(row.facts)
    chosen = facts.get("chosen")
    return Erasure(
        id=row.id,
        tenant=row.tenant,
        at=row.at,
        subject=row.subject,
        removed=facts["removed"],
        scope_ids=tuple(facts["scope_ids"]),
        episode_id=None if facts["episode_id"] is None else UUID(facts["episode_id"]),
        episode_ids=tuple(UUID(each) for each in facts.get("episode_ids", ())),
        chosen=Chosen.from_dict(chosen) if chosen else None,
        actor=facts["actor"],
        physical=facts["physical"],
        number=facts["number"],
        key_refs=tuple(facts.get("key_refs", ())),
        kept_user=facts.get("kept_user"),
        was_sealed=facts.get("was_sealed", True),
        keeps_rows=facts.get("keeps_rows", False),
        receipt=None if row.receipt is None else load_json(row.receipt),
    )
