"""Removing single turns, and all that was made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .....domain.episode import Scope, Turn
from .....domain.errors import EpisodeChanged, EpisodeNotFound
from .....domain.message import Role
from .....ports.recall_rows import WorkKind
from .. import rows
from ..lazy import Connection, sa, schema, sql
from . import audit, close, common, facts, holds, ledger, meta, mirror, scopes, scrub

if TYPE_CHECKING:
    from .....domain.audit import AuditDraft
    from .....ports.privacy import TurnRemoval


@sql
def _this() -> sa.Select[Any]:
    return sa.select(
        *rows.episode_columns(),
        schema.episodes.c.unfindable_from,
        schema.episodes.c.replay_from,
    ).where(common.undeleted_in_scope(), schema.episodes.c.id == sa.bindparam("episode_"))


def remove(
    conn: Connection,
    removals: Sequence[TurnRemoval],
    *,
    now: datetime,
    entry: AuditDraft | None = None,
) -> None:
    if not removals:
        return
    scope = removals[0].was.episode.scope
    if scopes.lock_scope(conn, scope) is None:
        raise EpisodeNotFound(removals[0].was.episode.id)
    for removal in removals:
        _remove(conn, scope, removal, now=now)
    meta.count_removal(conn)
    if entry is not None:
        audit.append(conn, entry)


def _remove(conn: Connection, scope: Scope, removal: TurnRemoval, *, now: datetime) -> None:
    was, episode_id = removal.was, removal.was.episode.id
    this = common.scope_params(conn, scope) | {"episode_": episode_id}
    row = conn.execute(_this, this).one_or_none()
    if row is None:
        raise EpisodeNotFound(episode_id)
    _check_unchanged(conn, row, removal)
    holds.check(conn, scope.tenant, scope.user, [episode_id])
    episode_key = common.episode_key(scope, row.scope_id, episode_id)
    left = [turn for turn in was.turns if turn.id not in removal.ids]
    number = {turn.ordinal: new for new, turn in enumerate(left)}
    _remove_facts(conn, row.scope_id, removal, left)
    _remove_turns(conn, row, number, len(was.turns))
    _renumber_keys(conn, row.scope_id, episode_id, number)
    _correct_ledger(conn, row.scope_id, removal, number)
    _count(conn, row, removal, left)
    _move_rows(conn, scope, episode_key, number, now=now)
    if was.episode.is_open:
        return
    if removal.summary is not None:
        close.put_summary(conn, now, scope, episode_id, replace(removal.summary, made_of=None))
    else:
        _drop_summary(conn, scope, row, now=now)


def _check_unchanged(conn: Connection, row: rows.Row, removal: TurnRemoval) -> None:
    """Refuse if the episode or its text is not as the caller read it."""
    was, table = removal.was, scrub.turns_table(row)
    there = conn.execute(
        sa.select(table.c.ordinal, table.c.id)
        .where(table.c.episode_id == row.id, table.c.scope_id == row.scope_id)
        .order_by(table.c.ordinal)
    )
    same = rows.episode(conn, row, was.episode.scope) == was.episode
    if not same or [tuple(each) for each in there] != [(t.ordinal, t.id) for t in was.turns]:
        raise EpisodeChanged(rows.session_id(conn, row))
    this = {"episode_": row.id, "scope_": row.scope_id}
    close.check_not_rewritten(conn, this, was.episode.session_id, removal.summary)


def _remove_turns(conn: Connection, row: rows.Row, number: Mapping[int, int], count: int) -> None:
    table = scrub.turns_table(row)
    here = sa.and_(table.c.episode_id == row.id, table.c.scope_id == row.scope_id)
    gone = [ordinal for ordinal in range(count) if ordinal not in number]
    for some in common.chunks(gone):
        conn.execute(sa.delete(table).where(here, table.c.ordinal.in_(some)))
    # One by one and upwards, because no two turns may ever have the same ordinal.
    moved = [{"old_": old, "new_": new} for old, new in number.items() if old != new]
    if moved:
        conn.execute(
            sa.update(table)
            .where(here, table.c.ordinal == sa.bindparam("old_"))
            .values(ordinal=sa.bindparam("new_")),
            moved,
        )


def _remove_facts(
    conn: Connection, scope_id: int, removal: TurnRemoval, left: Sequence[Turn]
) -> None:
    """Delete the facts of removed turns, and renumber the others."""
    table = schema.facts
    here = sa.and_(table.c.scope_id == scope_id, table.c.episode_id == removal.was.episode.id)
    number = {turn.id: new for new, turn in enumerate(left)}
    found = conn.execute(sa.select(table.c.id, table.c.turn_id, table.c.ordinal).where(here)).all()
    gone = {turn.ordinal for turn in removal.was.turns if turn.id in removal.ids}
    for fact in found:
        this = sa.and_(here, table.c.id == fact.id)
        if fact.turn_id in removal.ids or (fact.turn_id is None and fact.ordinal in gone):
            conn.execute(sa.delete(table).where(this))
        elif fact.turn_id in number and number[fact.turn_id] != fact.ordinal:
            conn.execute(sa.update(table).where(this).values(ordinal=number[fact.turn_id]))


def _renumber_keys(
    conn: Connection, scope_id: int, episode_id: UUID, number: Mapping[int, int]
) -> None:
    """Limit each idempotency key to those of its turns that are left."""
    keys = schema.idempotency
    here = sa.and_(keys.c.scope_id == scope_id, keys.c.episode_id == episode_id)
    found = conn.execute(sa.select(keys.c.key, keys.c.first, keys.c.count).where(here)).all()
    for key, first, count in found:
        left = [number[old] for old in range(first, first + count) if old in number]
        before = sum(old < first for old in number)
        conn.execute(
            sa.update(keys).where(here, keys.c.key == key).values(first=before, count=len(left))
        )


def _correct_ledger(
    conn: Connection, scope_id: int, removal: TurnRemoval, number: Mapping[int, int]
) -> None:
    """Delete the ledger entries of removed turns, and their items."""
    episode_id, turns = removal.was.episode.id, removal.was.turns
    turn_ids = sorted(turn.id.int for turn in turns)
    gone = {turn.id.int for turn in turns if turn.id in removal.ids}
    ledger.drop_for_turns(conn, scope_id, episode_id, turn_ids, gone)
    ledger.renumber(conn, scope_id, episode_id, number)


def _count(conn: Connection, row: rows.Row, removal: TurnRemoval, left: Sequence[Turn]) -> None:
    gone = [turn for turn in removal.was.turns if turn.id in removal.ids]
    made = sum(turn.tokens for turn in gone if turn.role is Role.ASSISTANT)
    spent = sum(turn.tokens for turn in gone) - made
    values: dict[str, Any] = {
        "message_count": len(left),
        # A caller may have given a smaller total when it closed the episode.
        "input_tokens": max(0, row.input_tokens - spent),
        "output_tokens": max(0, row.output_tokens - made),
    }
    if left:
        values["last_message_at"] = max(turn.at for turn in left)
    if row.unfindable_from is not None:
        first = sum(turn.ordinal < row.unfindable_from for turn in left)
        values["unfindable_from"] = first if first < len(left) else None
    if row.replay_from is not None:
        values["replay_from"] = sum(turn.ordinal < row.replay_from for turn in left)
    conn.execute(
        sa.update(schema.episodes).where(common.this_episode()).values(**values),
        {"episode_": row.id, "scope_": row.scope_id},
    )


def _move_rows(
    conn: Connection,
    scope: Scope,
    episode_key: dict[str, Any],
    number: Mapping[int, int],
    *,
    now: datetime,
) -> None:
    """Delete the recall rows of removed turns, and renumber the others.

    A renumbered row gets a new `seq`, because caches identify rows by it. The row before the first
    removed one gets one too, so that a summary that is being made of the old turns is refused
    (`close.check_not_rewritten`). A removal deletes all rows of an episode below a `seq` from the
    mirror, so with a mirror every row moves.
    """
    recall = schema.recall
    this = {"episode_": episode_key["episode_id"], "scope_": episode_key["scope_id"]}
    here = [
        recall.c.scope_id == episode_key["scope_id"],
        recall.c.episode_id == episode_key["episode_id"],
        recall.c.ordinal >= 0,
        common.in_seq_span(recall),
    ]
    found = conn.execute(sa.select(recall).where(*here).order_by(recall.c.ordinal), this)
    seal = conn.seals.of(episode_key["scope_id"])
    known = [seal.open_recall_row(dict(each)) for each in found.mappings()]
    mirrored = mirror.name(conn) is not None
    first = next((old for old, new in enumerate(number) if old != new), len(number))
    moved = [
        each
        for each in known
        if each["ordinal"] in number and (mirrored or each["ordinal"] >= first - 1)
    ]
    gone = [each for each in known if each["ordinal"] not in number]
    waiting = scrub.remove_rows(
        conn, episode_key["scope_id"], [each["seq"] for each in gone + moved]
    )
    _, first_seq = scopes.take_rows(conn, scope, len(moved), epochs=1)
    new_rows = [
        each | {"seq": seq, "ordinal": number[each["ordinal"]]}
        for seq, each in enumerate(moved, start=first_seq)
    ]
    work = [
        rows.work_row(WorkKind.EMBED, episode_key, new["ordinal"], new["seq"], now)
        for each, new in zip(moved, new_rows, strict=True)
        if each["seq"] in waiting
    ]
    if new_rows:
        conn.execute(common.insert_recall, [seal.recall_row(each) for each in new_rows])
        common.set_last_seq(conn, episode_key, first_seq + len(new_rows) - 1)
    if work:
        conn.execute(common.insert_work, work)
    if mirrored:
        scrub.update_mirror(
            conn,
            scope,
            episode_key["scope_id"],
            episode_key["episode_id"],
            new_rows,
            first_seq,
            now=now,
        )
    else:
        scrub.set_references(conn, episode_key["scope_id"], episode_key["episode_id"], new_rows)


def _drop_summary(conn: Connection, scope: Scope, row: rows.Row, *, now: datetime) -> None:
    close.drop_summary_rows(conn, scope, row.scope_id, row.id, now=now)
    this = {"episode_": row.id, "scope_": row.scope_id}
    conn.execute(
        sa.update(schema.episodes)
        .where(common.this_episode())
        .values(summarized_by=None, **rows.NO_SUMMARY),
        this,
    )
    conn.execute(facts.drop_of_episode, this)
