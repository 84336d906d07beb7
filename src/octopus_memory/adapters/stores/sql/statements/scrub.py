"""Scrubbing: replacing the text of a stored episode, with all that was made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....domain.episode import Scope, Turn
from .....domain.errors import EpisodeChanged, EpisodeNotFound
from .....domain.facts import Fact
from .....domain.message import Json
from .....ports.recall_rows import RowPart, WorkKind
from .....ports.values import NewSummary, Placeholder
from .. import column_values, rows
from ..lazy import Connection, sa, schema, sql, sql_for
from ..seals import METADATA
from . import close, common, episodes, holds, ledger, meta, mirror, scopes
from . import facts as fact_statements
from . import work as work_statements
from .placeholders import of_episode as placeholders_of
from .placeholders import put as put_placeholders

if TYPE_CHECKING:
    from .....ports.values import RewrittenTurn, StoredEpisode

_MOST_BYTES = 4 * 1024 * 1024
"""Compressed bytes of turns in one page, so that a few large turns do not fill the memory."""
_FETCH = 16


@sql
def _this() -> sa.Select[Any]:
    return (
        sa.select(
            *rows.own_episode_columns(),
            schema.episodes.c.deleted_at,
            schema.episodes.c.unfindable_from,
            schema.episodes.c.aged_from,
            schema.episodes.c.replay_from,
            schema.conversations.c.metadata,
        )
        .join(
            schema.conversations,
            sa.and_(
                schema.conversations.c.scope_id == schema.episodes.c.scope_id,
                schema.conversations.c.session_id == schema.episodes.c.session_id,
            ),
        )
        .where(common.in_scope(), schema.episodes.c.id == sa.bindparam("episode_"))
    )


def stored_episode(
    conn: Connection, scope: Scope, episode_id: UUID, *, start: int = 0, limit: int | None = None
) -> StoredEpisode | None:
    row = _read_this(conn, scope, episode_id)
    if row is None:
        return None
    from .....domain.transfer.export_format import EpisodeRecord
    from .....ports.values import StoredEpisode

    stored = StoredEpisode(
        record=EpisodeRecord(
            episode=rows.episode(conn, row, scope),
            last_seen_at=row.last_seen_at,
            aged_from=row.aged_from,
            replay_from=row.replay_from,
        ),
        turns=tuple(_stored_turns(conn, scope, row, start, limit)),
        metadata=_metadata(conn, row),
        is_deleted=row.deleted_at is not None,
    )
    if start:
        return stored
    return replace(
        stored,
        facts=tuple(fact_statements.of_episode(conn, scope, row.scope_id, episode_id)),
        placeholders=tuple(placeholders_of(conn, scope, episode_id, deleted=True)),
    )


def _metadata(conn: Connection, row: rows.Row) -> dict[str, Json]:
    return conn.seals.of(row.scope_id).load_json(METADATA, row.session_id, row.metadata)


def _stored_turns(
    conn: Connection, scope: Scope, row: rows.Row, start: int, limit: int | None
) -> list[Turn]:
    is_cold, this = bool(row.is_cold), {"episode_": row.id, "tenant_": scope.tenant}
    if limit is None:
        every = conn.execute(_turns_from(is_cold), this | {"start_": start})
        return rows.turns(conn, every.fetchall(), rows.session_id(conn, row))
    taken: list[Turn] = []
    size = 0
    while size < _MOST_BYTES and len(taken) < limit:
        # After the first turns, as many as fit if the others are as large.
        room = (_MOST_BYTES - size) * len(taken) // max(size, 1) if taken else _FETCH
        wanted = min(limit - len(taken), max(room, 1))
        some = this | {"start_": start, "limit_": wanted}
        found = conn.execute(_some_turns_from(is_cold), some).all()
        for turn in found:
            if size < _MOST_BYTES:
                taken += rows.turns(conn, [turn], rows.session_id(conn, row))
                size += len(turn.message) + len(turn.tool_calls or b"")
        if len(found) < wanted:
            break
        start = found[-1].ordinal + 1
    return taken


@sql_for
def _turns_from(is_cold: bool) -> sa.Select[Any]:
    table = schema.turns_archive if is_cold else schema.turns
    return (
        sa.select(*(table.c[column.name] for column in rows.turn_columns()))
        .where(
            table.c.episode_id == sa.bindparam("episode_"),
            table.c.tenant == sa.bindparam("tenant_"),
            table.c.ordinal >= sa.bindparam("start_"),
        )
        .order_by(table.c.ordinal)
    )


@sql_for
def _some_turns_from(is_cold: bool) -> sa.Select[Any]:
    return _turns_from(is_cold)().limit(sa.bindparam("limit_", type_=sa.Integer))


def _read_this(conn: Connection, scope: Scope, episode_id: UUID) -> rows.Row | None:
    return conn.execute(
        _this, common.scope_params(conn, scope) | {"episode_": episode_id}
    ).one_or_none()


def rewrite(
    conn: Connection,
    was: StoredEpisode,
    *,
    turns: Sequence[RewrittenTurn] = (),
    summary: NewSummary | None = None,
    facts: Sequence[Fact] = (),
    metadata: Mapping[str, Json] | None = None,
    placeholders: Sequence[Placeholder] = (),
    now: datetime,
) -> None:
    if not (turns or summary or facts or metadata is not None or placeholders):
        return
    scope, episode_id = was.episode.scope, was.episode.id
    locked = scopes.lock_scope(conn, scope)
    row = None if locked is None else _read_this(conn, scope, episode_id)
    if locked is None or row is None:
        raise EpisodeNotFound(episode_id)
    scope_id = locked.id
    _check_unchanged(conn, row, was, metadata)
    _check_facts(conn, row, was)
    _check_holds(conn, was, metadata)
    if turns:
        _check_indexed(conn, row)
        _rewrite_turns(conn, scope_id, row, turns)
        _rewrite_recall_rows(conn, scope, scope_id, episode_id, turns, now=now)
    if summary is not None:
        _rewrite_summary(conn, was, scope_id, summary, now=now)
    if facts:
        fact_statements.rewrite(conn, scope_id, episode_id, facts)
    if metadata is not None:
        _rewrite_metadata(conn, scope_id, row.session_id, metadata)
    episode_key = common.episode_key(scope, scope_id, episode_id)
    put_placeholders(conn, episode_key, rows.session_id(conn, row), placeholders)
    # A new epoch makes a concurrent indexing of the old text fail.
    scopes.take_rows(conn, scope, 0, epochs=1)
    meta.count_removal(conn)


def rewrite_scope(
    conn: Connection,
    scope: Scope,
    *,
    facts: Sequence[Fact] = (),
    queries: Mapping[UUID, str] | None = None,
) -> None:
    locked = scopes.lock_scope(conn, scope) if facts or queries else None
    if locked is None:
        return
    if facts:
        holds.check(conn, scope.tenant, scope.user, [])
        fact_statements.rewrite(conn, locked.id, None, facts)
        scopes.take_rows(conn, scope, 0)
    if queries:
        ledger.rewrite_queries(conn, locked.id, queries)
    meta.count_removal(conn)


def _check_unchanged(
    conn: Connection, row: rows.Row, was: StoredEpisode, metadata: Mapping[str, Json] | None
) -> None:
    same = rows.episode(conn, row, was.episode.scope) == was.episode
    if not same or (row.deleted_at is not None) != was.is_deleted:
        raise EpisodeChanged(rows.session_id(conn, row))
    if metadata is not None and _metadata(conn, row) != was.metadata:
        raise EpisodeChanged(rows.session_id(conn, row))


def _check_facts(conn: Connection, row: rows.Row, was: StoredEpisode) -> None:
    """Refuse if new facts were found meanwhile, because they were found in the old text."""
    now = fact_statements.undeleted_ids(conn, row.scope_id, row.id)
    if not now <= {fact.id for fact in was.facts}:
        raise EpisodeChanged(rows.session_id(conn, row))


def _check_indexed(conn: Connection, row: rows.Row) -> None:
    """Refuse to rewrite an episode with unindexed turns.

    A concurrent indexing would index the old text. The check that a summary was made of the text
    that is stored needs the recall rows as well.
    """
    if row.unfindable_from is not None:
        raise EpisodeChanged(rows.session_id(conn, row))


def _check_holds(conn: Connection, was: StoredEpisode, metadata: Mapping[str, Json] | None) -> None:
    episode = was.episode
    about = [episode.id]
    if metadata is not None:
        about = [*episodes.episode_ids(conn, episode.scope, episode.session_id, deleted=True)]
    holds.check(conn, episode.scope.tenant, episode.scope.user, about)


def _rewrite_summary(
    conn: Connection, was: StoredEpisode, scope_id: int, summary: NewSummary, *, now: datetime
) -> None:
    if not was.is_deleted:
        close.put_summary(conn, now, was.episode.scope, was.episode.id, summary)
        return
    conn.execute(
        sa.update(schema.episodes)
        .where(common.this_episode())
        .values(
            summarized_by=summary.by,
            **rows.pack_summary(conn.seals.of(scope_id), was.episode.id, summary.summary),
        ),
        {"episode_": was.episode.id, "scope_": scope_id},
    )


def _rewrite_metadata(
    conn: Connection, scope_id: int, name: str, metadata: Mapping[str, Json]
) -> None:
    """Replace the metadata of a session, which `name` names as its row does."""
    conn.execute(
        sa.update(schema.conversations)
        .where(
            schema.conversations.c.scope_id == scope_id,
            schema.conversations.c.session_id == name,
        )
        .values(metadata=conn.seals.of(scope_id).dump_json(METADATA, name, metadata))
    )


def turns_table(row: rows.Row) -> sa.Table:
    """The table with the turns of an episode."""
    return schema.turns_archive if row.is_cold else schema.turns


def _rewrite_turns(
    conn: Connection, scope_id: int, row: rows.Row, new_turns: Sequence[RewrittenTurn]
) -> None:
    table = turns_table(row)
    here = sa.and_(table.c.episode_id == row.id, table.c.scope_id == scope_id)
    kept = {
        row.ordinal: row.id
        for row in conn.execute(sa.select(table.c.ordinal, table.c.id).where(here))
    }
    if not kept.keys() >= {new.ordinal for new in new_turns}:
        raise EpisodeChanged(rows.session_id(conn, row))
    seal = conn.seals.of(scope_id)
    values = [
        {
            "tokens": new.tokens,
            "has_pii": new.has_pii,
            "is_indexed": new.indexed,
            "embedding_ref": None,
        }
        | rows.pack_message(seal, kept[new.ordinal], new.message)
        for new in new_turns
    ]
    conn.execute(
        sa.update(table)
        .where(here, table.c.ordinal == sa.bindparam("ordinal_"))
        .values({name: sa.bindparam(f"{name}_") for name in values[0]}),
        [
            {"ordinal_": new.ordinal} | {f"{name}_": value for name, value in each.items()}
            for new, each in zip(new_turns, values, strict=True)
        ],
    )


def _rewrite_recall_rows(
    conn: Connection,
    scope: Scope,
    scope_id: int,
    episode_id: UUID,
    new_turns: Sequence[RewrittenTurn],
    *,
    now: datetime,
) -> None:
    """Give rewritten turns recall rows with a new `seq`, which a vector of the old text misses.

    A removal deletes all rows of an episode below a `seq` from the mirror. So with a mirror every
    row of the episode gets a new `seq`, and is sent again.
    """
    changed = {new.ordinal: new for new in new_turns}
    here = sa.and_(
        schema.recall.c.scope_id == scope_id,
        schema.recall.c.episode_id == episode_id,
        schema.recall.c.ordinal >= 0,
        common.in_seq_span(schema.recall),
    )
    this = {"episode_": episode_id, "scope_": scope_id}
    found = conn.execute(
        sa.select(schema.recall).where(here).order_by(schema.recall.c.ordinal), this
    ).mappings()
    mirrored = mirror.name(conn) is not None
    seal = conn.seals.of(scope_id)
    moved = [
        seal.open_recall_row(dict(row)) for row in found if mirrored or row["ordinal"] in changed
    ]
    if not moved:
        return
    waiting = remove_rows(conn, scope_id, [row["seq"] for row in moved])
    _, first = scopes.take_rows(conn, scope, len(moved), epochs=1)
    episode = common.episode_key(scope, scope_id, episode_id)
    recall, work = [], []
    for seq, row in enumerate(moved, start=first):
        new = changed.get(row["ordinal"])
        if new is not None and not new.indexed:
            continue
        recall.append(row | {"seq": seq} | _changed_columns(new))
        if row["seq"] in waiting if new is None else new.embed:
            work.append(rows.work_row(WorkKind.EMBED, episode, row["ordinal"], seq, now))
    if recall:
        conn.execute(common.insert_recall, [seal.recall_row(row) for row in recall])
    common.set_last_seq(conn, episode, first + len(moved) - 1)
    if work:
        conn.execute(common.insert_work, work)
    if mirrored:
        update_mirror(conn, scope, scope_id, episode_id, recall, first, now=now)


def _changed_columns(new: RewrittenTurn | None) -> dict[str, Any]:
    if new is None:
        return {}
    model = None if new.embed else column_values.NO_MODEL
    return {"model_id": model, "vector": None} | rows.lexical_columns(new.lexical)


def remove_rows(conn: Connection, scope_id: int, seqs: list[int]) -> set[int]:
    """Delete recall rows and their work; returns the `seq` of those that waited for a vector."""
    waiting: set[int] = set()
    for some in common.chunks(seqs):
        # A removal's `seq` is a bound, not a row.
        mine = sa.and_(
            schema.work.c.scope_id == scope_id,
            schema.work.c.seq.in_(some),
            schema.work.c.kind != rows.KINDS[WorkKind.UNINDEX],
        )
        embed = sa.select(schema.work.c.seq).where(
            mine, schema.work.c.kind == rows.KINDS[WorkKind.EMBED]
        )
        waiting.update(conn.execute(embed).scalars())
        conn.execute(sa.delete(schema.work).where(mine))
        conn.execute(
            sa.delete(schema.recall).where(
                schema.recall.c.scope_id == scope_id, schema.recall.c.seq.in_(some)
            )
        )
    return waiting


def update_mirror(
    conn: Connection,
    scope: Scope,
    scope_id: int,
    episode_id: UUID,
    recall: list[dict[str, Any]],
    first: int,
    *,
    now: datetime,
) -> None:
    mirror.queue_removal(
        conn,
        scope.tenant,
        scope_id,
        episode_id,
        part=RowPart.TURNS,
        before_seq=first,
        now=now,
    )
    kept = [row for row in recall if row["vector"] is not None]
    if not kept:
        return
    above = [
        schema.recall.c.scope_id == scope_id,
        schema.recall.c.seq >= first,
        schema.recall.c.model_id > column_values.NO_MODEL,
    ]
    conn.execute(work_statements.queueing(WorkKind.INDEX, *above), {"now_": now})
    set_references(conn, scope_id, episode_id, kept)


def set_references(
    conn: Connection, scope_id: int, episode_id: UUID, recall: list[dict[str, Any]]
) -> None:
    """Set the vector reference of each turn to the `seq` that its recall row has now."""
    kept = [row for row in recall if row["vector"] is not None]
    if not kept:
        return
    models = {row.id: row.name for row in conn.execute(sa.select(schema.models))}
    table = schema.turns
    conn.execute(
        sa.update(table)
        .where(
            table.c.episode_id == episode_id,
            table.c.scope_id == scope_id,
            table.c.ordinal == sa.bindparam("ordinal_"),
        )
        .values(embedding_ref=sa.bindparam("ref_")),
        [
            {"ordinal_": row["ordinal"], "ref_": f"{models[row['model_id']]}/{row['seq']}"}
            for row in kept
        ],
    )
