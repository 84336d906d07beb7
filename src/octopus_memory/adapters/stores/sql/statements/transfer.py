"""Export and import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....domain.episode import Scope, Session, SessionStatus
from .....domain.errors import EpisodeChanged
from .....ports.values import NewTurn
from .. import column_values, rows
from ..lazy import Connection, sa, schema, sql_for
from ..seals import METADATA
from . import agent_configs, close, common, facts, index_turns, placeholders, scopes

if TYPE_CHECKING:
    from .....ports.values import ImportedEpisode


_BATCH = 250


def sessions(
    conn: Connection,
    scope: Scope,
    *,
    deleted: bool = False,
    after: str | None = None,
    limit: int,
) -> list[Session]:
    episodes, table = schema.episodes, schema.conversations
    own = [episodes.c.scope_id == table.c.scope_id, episodes.c.session_id == table.c.session_id]
    if not deleted:
        own.append(episodes.c.deleted_at.is_(None))
    last_seen = sa.select(sa.func.max(episodes.c.last_seen_at)).where(*own).scalar_subquery()
    statement = (
        sa.select(table, last_seen.label("last_seen_at"))
        .where(
            table.c.scope_id == common.scope_id(),
            table.c.tenant == sa.bindparam("tenant_"),
            sa.exists().where(*own),
        )
        .order_by(table.c.session_id)
        .limit(limit)
    )
    if after is not None:
        statement = statement.where(table.c.session_id > conn.seals.find(scope).name(after))
    found = conn.execute(statement, common.scope_params(conn, scope))
    return [rows.session(conn, row, scope) for row in found]


def import_episode(conn: Connection, imported: ImportedEpisode) -> bool:
    episode = imported.kept.episode
    scope = episode.scope
    if scopes.lock_scope(conn, scope) is not None and _exists(conn, scope, episode.id):
        return False
    scope_id, next_seq = scopes.take_rows(conn, scope, 0)
    agent_configs.check_version(
        agent_configs.read_version(conn, scope, imported.settings), imported.settings
    )
    _import_session(conn, scope_id, imported)
    span = {"first_seq": next_seq, "last_seq": next_seq}
    conn.execute(sa.insert(schema.episodes).values(_episode_row(conn, scope_id, imported) | span))
    for some in _batches(imported.turns):
        _import_turns(conn, scope_id, imported, *some)
    episode_key = common.episode_key(scope, scope_id, episode.id)
    placeholders.put(conn, episode_key, episode.session_id, imported.placeholders)
    if imported.summary is not None:
        close.put_summary(conn, imported.now, scope, episode.id, imported.summary)
    facts.insert(conn, episode_key, imported.facts)
    return True


def _exists(conn: Connection, scope: Scope, episode_id: UUID) -> bool:
    known = sa.select(schema.episodes.c.id).where(
        common.in_scope(), schema.episodes.c.id == episode_id
    )
    return conn.execute(known, common.scope_params(conn, scope)).first() is not None


def _import_session(conn: Connection, scope_id: int, imported: ImportedEpisode) -> None:
    session, is_open = imported.session, imported.kept.episode.is_open
    seal = conn.seals.of(scope_id)
    name = seal.name(session.id)
    this = sa.and_(
        schema.conversations.c.scope_id == scope_id, schema.conversations.c.session_id == name
    )
    if conn.execute(sa.select(schema.conversations.c.session_id).where(this)).first() is None:
        conn.execute(
            sa.insert(schema.conversations).values(
                scope_id=scope_id,
                session_id=name,
                tenant=session.scope.tenant,
                status=session.status.value,
                metadata=seal.dump_json(METADATA, name, session.metadata),
                created_at=session.created_at,
            )
        )
        return
    if not is_open:
        return
    opened = sa.select(schema.episodes.c.id).where(
        schema.episodes.c.scope_id == scope_id,
        schema.episodes.c.session_id == name,
        schema.episodes.c.ended_at.is_(None),
    )
    if conn.execute(opened).first() is not None:
        raise EpisodeChanged(session.id)
    status = SessionStatus.ACTIVE.value
    conn.execute(sa.update(schema.conversations).where(this).values(status=status))


def _episode_row(conn: Connection, scope_id: int, imported: ImportedEpisode) -> dict[str, Any]:
    kept, episode = imported.kept, imported.kept.episode
    return {
        "id": episode.id,
        "tenant": episode.scope.tenant,
        "scope_id": scope_id,
        "session_id": conn.seals.of(scope_id).name(episode.session_id),
        "started_at": episode.started_at,
        "last_message_at": episode.last_message_at,
        "last_seen_at": kept.last_seen_at,
        "ended_at": episode.ended_at,
        "order_at": episode.ended_at or column_values.OPEN_END,
        "opened_at": imported.now,
        "touched_at": imported.now,
        "end_reason": None if episode.end_reason is None else episode.end_reason.value,
        "message_count": episode.message_count,
        "input_tokens": episode.input_tokens,
        "output_tokens": episode.output_tokens,
        "is_archived": episode.is_archived,
        "archived_at": episode.archived_at,
        "is_cold": episode.is_cold,
        "aged_from": kept.aged_from,
        "replay_from": kept.replay_from,
    }


def _batches(turns: Iterable[NewTurn]) -> Iterator[tuple[int, list[NewTurn]]]:
    """Batches of turns, each with the ordinal of its first."""
    source, first = iter(turns), 0
    while some := list(islice(source, _BATCH)):
        yield first, some
        first += len(some)


def _import_turns(
    conn: Connection, scope_id: int, imported: ImportedEpisode, first: int, turns: list[NewTurn]
) -> None:
    kept = imported.kept.episode
    episode = common.episode_key(kept.scope, scope_id, kept.id)
    log = rows.new_turns(conn.seals.of(scope_id), turns, first, episode)
    conn.insert(_insert_turns(kept.is_archived), rows.NEW_TURN, log)
    if kept.is_archived:
        return
    _, seq = scopes.take_rows(conn, kept.scope, len(turns))
    index_turns.insert_new(conn, episode, turns, first, seq, now=imported.now)
    common.set_last_seq(conn, episode, seq + len(turns) - 1)


@sql_for
def _insert_turns(is_archived: bool) -> sa.Insert:
    return sa.insert(schema.turns_archive if is_archived else schema.turns)
