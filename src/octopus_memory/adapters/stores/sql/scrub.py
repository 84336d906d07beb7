"""Scrubbing in a SQL store: an episode's text is replaced, with all that was made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ....domain.episode import Scope
from ....domain.errors import EpisodeChanged, EpisodeNotFound
from ....domain.facts import Fact
from ....domain.message import Json
from ....ports.scrub import Scrubbing
from ....ports.store import NewSummary, Placeholder
from . import rows
from .lazy import Connection, sa, schema, sql
from .statements import close, episodes, facts, holds, meta, scopes, scrub
from .statements import placeholders as numbers
from .transactions import Transactions

if TYPE_CHECKING:
    from ....ports.carried import Rewritten, StoredEpisode


@cache
def _session_ids() -> sa.Select[Any]:
    return (
        sa.select(schema.conversations.c.session_id)
        .where(
            schema.conversations.c.scope_id == episodes.scope_id(),
            schema.conversations.c.tenant == sa.bindparam("tenant_"),
        )
        .order_by(schema.conversations.c.session_id)
    )


@sql
def _episode_ids() -> sa.Select[Any]:
    return (
        sa.select(schema.episodes.c.id)
        .where(episodes.in_scope(), schema.episodes.c.session_id == sa.bindparam("session_"))
        .order_by(schema.episodes.c.started_at, schema.episodes.c.id)
    )


@sql
def _this() -> sa.Select[Any]:
    return (
        sa.select(
            *rows.episode_columns(),
            schema.episodes.c.scope_id,
            schema.episodes.c.deleted_at,
            schema.episodes.c.unfindable_from,
            schema.conversations.c.metadata,
        )
        .join(
            schema.conversations,
            sa.and_(
                schema.conversations.c.scope_id == schema.episodes.c.scope_id,
                schema.conversations.c.session_id == schema.episodes.c.session_id,
            ),
        )
        .where(episodes.in_scope(), schema.episodes.c.id == sa.bindparam("episode_"))
    )


class SqlScrubbing(Transactions, Scrubbing):
    def stored_sessions(self, scope: Scope, *, after: str | None = None, limit: int) -> list[str]:
        return self._read(scope.tenant, _stored_sessions, scope, after=after, limit=limit)

    def stored_episodes(self, scope: Scope, session_id: str) -> list[UUID]:
        return self._read(scope.tenant, _stored_episodes, scope, session_id)

    def stored_episode(self, scope: Scope, episode_id: UUID) -> StoredEpisode | None:
        return self._read(scope.tenant, _stored_episode, scope, episode_id)

    def rewrite(
        self,
        was: StoredEpisode,
        *,
        turns: Sequence[Rewritten] = (),
        summary: NewSummary | None = None,
        facts: Sequence[Fact] = (),
        metadata: Mapping[str, Json] | None = None,
        placeholders: Sequence[Placeholder] = (),
        now: datetime,
    ) -> None:
        if turns or summary is not None or facts or metadata is not None or placeholders:
            self._write(
                was.episode.scope.tenant,
                _rewrite,
                was,
                turns=turns,
                summary=summary,
                new_facts=facts,
                metadata=metadata,
                placeholders=placeholders,
                now=now,
            )


def _stored_sessions(conn: Connection, scope: Scope, *, after: str | None, limit: int) -> list[str]:
    wanted = _session_ids().limit(limit)
    if after is not None:
        wanted = wanted.where(schema.conversations.c.session_id > after)
    return list(conn.execute(wanted, episodes.who(scope)).scalars())


def _stored_episodes(conn: Connection, scope: Scope, session_id: str) -> list[UUID]:
    parameters = episodes.who(scope) | {"session_": session_id}
    return list(conn.execute(_episode_ids, parameters).scalars())


def _stored_episode(conn: Connection, scope: Scope, episode_id: UUID) -> StoredEpisode | None:
    row = _read_this(conn, scope, episode_id)
    if row is None:
        return None
    table = scrub.turns_of(row)
    turns = conn.execute(
        sa.select(*(table.c[column.name] for column in rows.turn_columns()))
        .where(table.c.episode_id == episode_id, table.c.tenant == scope.tenant)
        .order_by(table.c.ordinal)
    )
    from ....ports.carried import StoredEpisode

    return StoredEpisode(
        episode=rows.episode(row, scope),
        turns=tuple(rows.turns(turns, row.session_id)),
        metadata=rows.load_json(row.metadata),
        facts=tuple(facts.of_episode(conn, row.scope_id, episode_id)),
        placeholders=tuple(numbers.of_episode(conn, scope, episode_id, deleted=True)),
        is_deleted=row.deleted_at is not None,
    )


def _read_this(conn: Connection, scope: Scope, episode_id: UUID) -> rows.Row | None:
    return conn.execute(_this, episodes.who(scope) | {"episode_": episode_id}).one_or_none()


def _rewrite(
    conn: Connection,
    was: StoredEpisode,
    *,
    turns: Sequence[Rewritten],
    summary: NewSummary | None,
    new_facts: Sequence[Fact],
    metadata: Mapping[str, Json] | None,
    placeholders: Sequence[Placeholder],
    now: datetime,
) -> None:
    scope, episode_id = was.episode.scope, was.episode.id
    held = scopes.lock(conn, scope)
    row = None if held is None else _read_this(conn, scope, episode_id)
    if held is None or row is None:
        raise EpisodeNotFound(episode_id)
    scope_id = held[0]
    _check_unchanged(row, was, metadata)
    _check_facts(conn, row, was)
    _check_holds(conn, was, metadata)
    if turns:
        _check_findable(row)
        scrub.turns(conn, scope_id, row, turns)
        scrub.recall_rows(conn, scope, scope_id, episode_id, turns, now=now)
    if summary is not None:
        _rewrite_summary(conn, was, scope_id, summary, now=now)
    if new_facts:
        facts.rewrite(conn, scope_id, episode_id, new_facts)
    if metadata is not None:
        _rewrite_metadata(conn, scope_id, row.session_id, metadata)
    place = {"tenant": scope.tenant, "scope_id": scope_id, "episode_id": episode_id}
    numbers.put(conn, place, row.session_id, placeholders)
    # Whoever read the text before, to make it findable again, must not come after this.
    scopes.take_rows(conn, scope, 0, epochs=1)
    meta.count_removal(conn)


def _check_unchanged(
    row: rows.Row, was: StoredEpisode, metadata: Mapping[str, Json] | None
) -> None:
    same = rows.episode(row, was.episode.scope) == was.episode
    if not same or (row.deleted_at is not None) != was.is_deleted:
        raise EpisodeChanged(row.session_id)
    if metadata is not None and rows.load_json(row.metadata) != was.metadata:
        raise EpisodeChanged(row.session_id)


def _check_facts(conn: Connection, row: rows.Row, was: StoredEpisode) -> None:
    """Refuse where other facts were found meanwhile: they were found in the old text."""
    now = {fact.id for fact in facts.of_episode(conn, row.scope_id, row.id)}
    if not now <= {fact.id for fact in was.facts}:
        raise EpisodeChanged(row.session_id)


def _check_findable(row: rows.Row) -> None:
    """Who makes turns findable right now read their old text: the check that they fail needs this.

    So does the check that a summary is made of the text that is there.
    """
    if row.unfindable_from is not None:
        raise EpisodeChanged(row.session_id)


def _check_holds(conn: Connection, was: StoredEpisode, metadata: Mapping[str, Json] | None) -> None:
    episode = was.episode
    about = [episode.id]
    if metadata is not None:
        about = _stored_episodes(conn, episode.scope, episode.session_id)
    holds.check(conn, episode.scope.tenant, episode.scope.user, about)


def _rewrite_summary(
    conn: Connection, was: StoredEpisode, scope_id: int, summary: NewSummary, *, now: datetime
) -> None:
    if not was.is_deleted:
        close.put_summary(conn, was.episode.scope, was.episode.id, summary, now=now)
        return
    conn.execute(
        sa.update(schema.episodes)
        .where(close.this_episode())
        .values(summarized_by=summary.by, **rows.pack_summary(summary.summary)),
        {"episode_": was.episode.id, "scope_": scope_id},
    )


def _rewrite_metadata(
    conn: Connection, scope_id: int, session_id: str, metadata: Mapping[str, Json]
) -> None:
    conn.execute(
        sa.update(schema.conversations)
        .where(
            schema.conversations.c.scope_id == scope_id,
            schema.conversations.c.session_id == session_id,
        )
        .values(metadata=rows.dump_json(metadata))
    )
