"""Erasure: the statements."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from ...domain.audit import AuditDraft
from ...domain.episode import Scope
from ...domain.erasure import Subject
from ...domain.errors import EpisodeNotFound
from ...domain.message import Json
from ...ports.forgetting import Erasure
from ...ports.store import WorkKind
from . import chain, holding, meta, mirror, reads, rows, schema, scopes, stages

_scopes, _episodes, _erasures = schema.scopes, schema.episodes, schema.erasures
_PLACES: dict[str, sa.Table] = {
    "turns": schema.turns,
    "archived turns": schema.turns_archive,
    "recall rows": schema.recall,
    "waiting work": schema.work,
    "idempotency keys": schema.idempotency,
    "placeholders": schema.placeholders,
    "episodes": schema.episodes,
    "sessions": schema.conversations,
}
"""Where rows of a scope are, besides the scope's own."""


def user_scopes(conn: sa.Connection, tenant: str, user: str | None) -> list[Scope]:
    wanted = [_scopes.c.tenant == tenant]
    if user is not None:
        wanted.append(_scopes.c.user == user)
    found = conn.execute(
        sa.select(_scopes.c.agent, _scopes.c.user).where(*wanted).order_by(_scopes.c.id)
    )
    return [Scope(tenant=tenant, agent=row.agent, user=row.user) for row in found]


def erase(conn: sa.Connection, subject: Subject, erasure: Erasure, entry: AuditDraft) -> Erasure:
    if subject.episode_id is not None:
        done = _erase_episode(conn, subject, subject.episode_id, erasure)
    else:
        done = _erase_scopes(conn, subject, erasure)
    meta.count_removal(conn)
    facts: dict[str, Json] = {
        "removed": dict(done.removed),
        "scope_ids": list(done.scope_ids),
        "episode_id": None if done.episode_id is None else str(done.episode_id),
    }
    conn.execute(
        sa.insert(_erasures).values(
            id=done.id,
            tenant=done.tenant,
            at=done.at,
            subject=done.subject,
            facts=json.dumps(facts),
            is_finished=False,
        )
    )
    chain.append(conn, replace(entry, detail={**entry.detail, "removed": dict(done.removed)}))
    return done


def _erase_scopes(conn: sa.Connection, subject: Subject, erasure: Erasure) -> Erasure:
    wanted = [_scopes.c.tenant == subject.tenant, _scopes.c.user == subject.user]
    if subject.agent is not None:
        wanted.append(_scopes.c.agent == subject.agent)
    found = conn.execute(
        sa.select(_scopes.c.id, _scopes.c.next_seq)
        .where(*wanted)
        .order_by(_scopes.c.id)
        .with_for_update()
    ).all()
    ids = [row.id for row in found]
    episodes = conn.execute(
        sa.select(_episodes.c.id).where(_episodes.c.scope_id.in_(ids))
    ).scalars()
    holding.check(conn, subject.tenant, subject.user, list(episodes))
    removed = dict.fromkeys((*_PLACES, "scopes"), 0)
    for row in found:
        for place, table in _PLACES.items():
            removed[place] += conn.execute(
                sa.delete(table).where(table.c.scope_id == row.id, table.c.tenant == subject.tenant)
            ).rowcount
        removed["scopes"] += conn.execute(sa.delete(_scopes).where(_scopes.c.id == row.id)).rowcount
        mirror.unfollow(conn, subject.tenant, row.id, None, before_seq=row.next_seq, now=erasure.at)
    return replace(erasure, removed=removed, scope_ids=tuple(ids))


def _erase_episode(
    conn: sa.Connection, subject: Subject, episode_id: UUID, erasure: Erasure
) -> Erasure:
    scope = Scope(tenant=subject.tenant, agent=subject.agent or "", user=subject.user)
    held = scopes.lock(conn, scope)
    known = conn.execute(
        sa.select(_episodes.c.session_id).where(reads.IN_SCOPE, _episodes.c.id == episode_id),
        reads.who(scope),
    ).one_or_none()
    if held is None or known is None:
        raise EpisodeNotFound(episode_id)
    holding.check(conn, subject.tenant, subject.user, [episode_id])
    removed = stages.remove_episode(conn, scope, held[0], episode_id, now=erasure.at)
    removed["sessions"] = stages.remove_empty_session(conn, held[0], known.session_id)
    return replace(erasure, removed=removed, scope_ids=(held[0],), episode_id=episode_id)


def left_of(conn: sa.Connection, erasure: Erasure) -> dict[str, int]:
    left = {}
    for place, table in _PLACES.items():
        wanted = [table.c.scope_id.in_(erasure.scope_ids), table.c.tenant == erasure.tenant]
        if erasure.episode_id is not None:
            if "episode_id" not in table.c and table is not _episodes:
                continue
            own = table.c.id if table is _episodes else table.c.episode_id
            wanted.append(own == erasure.episode_id)
        if table is schema.work:
            # What a remote index must still be told is counted by `waiting_removals`.
            wanted.append(table.c.kind != rows.KINDS[WorkKind.UNINDEX])
        left[place] = _count(conn, table, wanted)
    if erasure.episode_id is None:
        left["scopes"] = _count(conn, _scopes, [_scopes.c.id.in_(erasure.scope_ids)])
    return left


def _count(conn: sa.Connection, table: sa.Table, wanted: Sequence[sa.ColumnElement[bool]]) -> int:
    return int(
        conn.execute(sa.select(sa.func.count()).select_from(table).where(*wanted)).scalar_one()
    )


def unfinished(conn: sa.Connection) -> list[Erasure]:
    found = conn.execute(
        sa.select(_erasures)
        .where(_erasures.c.is_finished.is_(False))
        .order_by(_erasures.c.at, _erasures.c.id)
    )
    return [_erasure(row) for row in found]


def receipt(conn: sa.Connection, tenant: str, erasure_id: UUID) -> Mapping[str, Json] | None:
    found = conn.execute(
        sa.select(_erasures.c.receipt).where(
            _erasures.c.id == erasure_id, _erasures.c.tenant == tenant
        )
    ).scalar()
    return None if found is None else rows.load_json(found)


def keep_receipt(
    conn: sa.Connection,
    erasure: Erasure,
    kept: Mapping[str, Json],
    entry: AuditDraft,
    *,
    finished: bool,
) -> None:
    conn.execute(
        sa.update(_erasures)
        .where(_erasures.c.id == erasure.id, _erasures.c.tenant == erasure.tenant)
        .values(receipt=rows.dump_json(kept), is_finished=finished)
    )
    chain.append(conn, entry)


def _erasure(row: sa.Row[Any]) -> Erasure:
    facts: Any = rows.load_json(row.facts)
    return Erasure(
        id=row.id,
        tenant=row.tenant,
        at=row.at,
        subject=row.subject,
        removed=facts["removed"],
        scope_ids=tuple(facts["scope_ids"]),
        episode_id=None if facts["episode_id"] is None else UUID(facts["episode_id"]),
    )
