"""Forgetting: previews, and the removal of what was previewed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....domain.episode import Scope
from .....domain.errors import EpisodeChanged, EpisodeNotFound, NotFound
from .....ports.privacy import TurnRemoval
from .. import rows
from ..lazy import Connection, sa, schema
from ..seals import CHOSEN
from . import common, facts, holds, ledger, meta, scopes, scrub, turn_removal

if TYPE_CHECKING:
    from .....domain.audit import AuditDraft
    from .....domain.erasure import Erasure
    from .....domain.forget import Chosen
    from .....ports.privacy import ForgottenEpisode

GONE = "no such preview in this scope: it expired or was confirmed already. Ask for a new one"


def keep_preview(
    conn: Connection,
    scope: Scope,
    token: str,
    chosen: Chosen,
    *,
    expires_at: datetime,
    now: datetime,
) -> None:
    locked = scopes.lock_scope(conn, scope)
    if locked is None:
        return
    table = schema.forget_previews
    old = sa.delete(table).where(table.c.scope_id == locked.id, table.c.expires_at <= now)
    conn.execute(old)
    conn.execute(
        sa.insert(table).values(
            scope_id=locked.id,
            token=token,
            tenant=scope.tenant,
            expires_at=expires_at,
            chosen=conn.seals.of(locked.id).dump_json(CHOSEN, token, chosen.to_dict()),
        )
    )


def preview(conn: Connection, scope: Scope, token: str, *, now: datetime) -> Chosen | None:
    from .....domain.forget import Chosen

    table = schema.forget_previews
    found = conn.execute(
        sa.select(table.c.scope_id, table.c.chosen).where(
            table.c.scope_id == common.scope_id(),
            table.c.tenant == sa.bindparam("tenant_"),
            table.c.token == token,
            table.c.expires_at > now,
        ),
        common.scope_params(conn, scope),
    ).one_or_none()
    if found is None:
        return None
    seal = conn.seals.of(found.scope_id)
    return Chosen.from_dict(seal.load_json(CHOSEN, token, found.chosen))


def prune_previews(conn: Connection, *, before: datetime) -> int:
    table = schema.forget_previews
    return conn.execute(sa.delete(table).where(table.c.expires_at <= before)).rowcount


def forget(
    conn: Connection,
    scope: Scope,
    token: str,
    chosen: Chosen,
    episodes: Sequence[ForgottenEpisode],
    erasure: Erasure,
    entry: AuditDraft,
) -> Erasure:
    from . import erasure as erasures

    locked = scopes.lock_scope(conn, scope)
    if locked is None:
        raise NotFound(GONE)
    previews = schema.forget_previews
    this = sa.and_(previews.c.scope_id == locked.id, previews.c.token == token)
    if not conn.execute(sa.delete(previews).where(this)).rowcount:
        raise NotFound(GONE)
    sources = _sources(conn, locked.id, chosen.facts)
    about = {each.was.episode.id for each in episodes} | {id_ for id_ in sources.values() if id_}
    holds.check(conn, scope.tenant, scope.user, sorted(about, key=str))
    removed = {
        "turns": sum(len(each.removed) for each in episodes),
        "rewritten turns": sum(len(_changed(each)) for each in episodes),
        "summaries": sum(each.was.episode.summary is not None for each in episodes),
        "forget previews": 1,
    }
    for each in episodes:
        _check_unchanged(conn, scope, each)
    removed["facts"] = facts.clear(conn, locked.id, sources, at=erasure.at)
    removed["ledger items"] = ledger.drop_items(conn, locked.id, _shown(episodes, sources))
    removed["ledger queries"] = ledger.drop_queries(conn, locked.id, chosen.queries)
    for each in episodes:
        _forget_episode(conn, each, now=erasure.at)
    scopes.take_rows(conn, scope, 0, epochs=1)
    done = replace(erasure, removed=removed, scope_ids=(locked.id,), chosen=chosen)
    return erasures.record(conn, done, entry)


def _sources(conn: Connection, scope_id: int, ids: Collection[UUID]) -> dict[UUID, UUID | None]:
    """The facts that are still there, with their episodes."""
    table = schema.facts
    found: dict[UUID, UUID | None] = {}
    for some in common.chunks(list(ids)):
        there = sa.select(table.c.id, table.c.episode_id).where(
            table.c.scope_id == scope_id, table.c.id.in_(some), table.c.deleted_at.is_(None)
        )
        found |= {row.id: row.episode_id for row in conn.execute(there)}
    return found


def _check_unchanged(conn: Connection, scope: Scope, each: ForgottenEpisode) -> None:
    """Refuse if any text of the episode is not as the caller read it.

    Else two concurrent calls could restore what the other removed.
    """
    was = each.was
    now = scrub.stored_episode(conn, scope, was.episode.id)
    if now is None:
        raise EpisodeNotFound(was.episode.id)
    same = (now.episode, now.turns, now.is_deleted) == (was.episode, was.turns, was.is_deleted)
    if not same or now.facts != was.facts:
        raise EpisodeChanged(was.episode.session_id)


def _changed(each: ForgottenEpisode) -> list[int]:
    """Ordinals of the turns whose text changes."""
    was = {turn.ordinal: turn.message for turn in each.was.turns}
    return [turn.ordinal for turn in each.turns if turn.message != was[turn.ordinal]]


def _shown(
    episodes: Sequence[ForgottenEpisode], sources: dict[UUID, UUID | None]
) -> dict[UUID, tuple[set[int], set[UUID]]]:
    """By episode, the turns and the facts that the ledger must not name any more."""
    found: dict[UUID, tuple[set[int], set[UUID]]] = {
        each.was.episode.id: (set(_changed(each)), set()) for each in episodes
    }
    for fact_id, episode_id in sources.items():
        owner = ledger.NO_EPISODE if episode_id is None else episode_id
        found.setdefault(owner, (set(), set()))[1].add(fact_id)
    return found


def _forget_episode(conn: Connection, each: ForgottenEpisode, *, now: datetime) -> None:
    was, summary = each.was, each.summary
    if not each.removed:
        scrub.rewrite(conn, was, turns=each.turns, summary=summary, now=now)
        return
    # The removal stores the summary, and checks that the episode is as it was.
    scrub.rewrite(conn, was, turns=each.turns, now=now)
    removal = TurnRemoval(was=was, ids=each.removed, summary=summary)
    turn_removal.remove(conn, [removal], now=now)


def left_of(conn: Connection, erasure: Erasure, chosen: Chosen) -> dict[str, int]:
    """Search for what was forgotten: the turns and their sentences, and the facts."""
    [scope_id] = erasure.scope_ids
    salt = meta.salt(conn)
    left = 0
    for episode_id, wanted in chosen.turns.items():
        for table in (schema.turns, schema.turns_archive):
            found = conn.execute(
                sa.select(*(table.c[column.name] for column in rows.turn_columns())).where(
                    table.c.episode_id == episode_id, table.c.tenant == erasure.tenant
                )
            ).fetchall()
            left += sum(
                _is_left(salt, erasure.tenant, turn.message, wanted[turn.id])
                for turn in rows.turns(conn, found, "")
                if turn.id in wanted
            )
    return {
        "turns": left,
        "facts": len(_sources(conn, scope_id, chosen.facts)),
        "ledger queries": ledger.count_queries(conn, scope_id, chosen.queries),
    }


def _is_left(salt: bytes, tenant: str, message: Any, digests: Sequence[str] | None) -> bool:
    from .....domain.forget import FORGOTTEN, sentences, text_digest, texts_in

    if digests is None:
        return bool(message.text.replace(FORGOTTEN, "").strip())
    return any(
        text_digest(salt, tenant, sentence) in digests
        for text in texts_in(message.body)
        for sentence in sentences(text)
    )
