"""Removing an episode for good, with the session and scope that it leaves empty."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from .....domain.episode import Scope
from .....ports.recall_rows import RowPart
from ..lazy import Connection, results_of, sa, schema, sql
from . import close, common, facts, ledger, message_keys, scopes


@sql
def drop_turns() -> sa.Delete:
    return common.delete_of_episode(schema.turns)


@sql
def drop_cold_turns() -> sa.Delete:
    return common.delete_of_episode(schema.turns_archive)


@sql
def _drop_placeholders() -> sa.Delete:
    return common.delete_of_episode(schema.placeholders)


@sql
def _drop_keys() -> sa.Delete:
    return common.delete_of_episode(schema.idempotency)


@sql
def _drop_previews() -> sa.Delete:
    # A preview may have digests of the episode's text.
    return sa.delete(schema.forget_previews).where(
        schema.forget_previews.c.scope_id == sa.bindparam("scope_")
    )


@sql
def _drop_episode() -> sa.Delete:
    return sa.delete(schema.episodes).where(common.this_episode())


@sql
def _drop_empty_session() -> sa.Delete:
    return sa.delete(schema.conversations).where(
        schema.conversations.c.scope_id == sa.bindparam("scope_"),
        schema.conversations.c.session_id == sa.bindparam("session_"),
        ~sa.select(sa.literal(1))
        .where(
            schema.episodes.c.scope_id == sa.bindparam("scope_"),
            schema.episodes.c.session_id == sa.bindparam("session_"),
        )
        .correlate(None)
        .exists(),
    )


@sql
def _drop_empty_scope() -> sa.Delete:
    return sa.delete(schema.scopes).where(
        schema.scopes.c.id == sa.bindparam("scope_"),
        *(
            ~sa.select(sa.literal(1))
            .where(table.c.scope_id == sa.bindparam("scope_"))
            .correlate(None)
            .exists()
            for table in (schema.episodes, schema.facts)
        ),
    )


def episode(
    conn: Connection, scope: Scope, scope_id: int, episode_id: UUID, *, now: datetime
) -> dict[str, int]:
    """Delete every row of one episode; returns the number by table."""
    searched = close.drop_rows(conn, scope, scope_id, episode_id, part=RowPart.ALL, now=now)
    this = {"episode_": episode_id, "scope_": scope_id}
    statements = {
        "idempotency keys": _drop_keys,
        "turns": drop_turns,
        "archived turns": drop_cold_turns,
        "placeholders": _drop_placeholders,
        "facts": facts.drop_of_episode,
        "ledger items": ledger.drop_items_of_episode,
        "ledger items of its turns": ledger.drop_items_of_turns,
        "ledger entries": ledger.drop_entries_of_turns,
        "forget previews": _drop_previews,
        "episodes": _drop_episode,
    }
    done = results_of(conn, *((statement, this) for statement in statements.values()))
    counts = dict(zip(statements, (result.rowcount for result in done), strict=True))
    counts["ledger items"] += counts.pop("ledger items of its turns")
    return {"recall rows": searched, **counts}


def empty_session(conn: Connection, scope_id: int, session_id: str) -> int:
    """Delete a session without episodes, and its message keys; returns how many."""
    session = {"scope_": scope_id, "session_": session_id}
    gone = conn.execute(_drop_empty_session, session).rowcount
    if gone:
        conn.execute(message_keys.drop_of_session, session)
    return gone


def empty_scope(conn: Connection, scope_id: int) -> int:
    """Delete a scope that has neither an episode nor a fact; returns how many."""
    ref = conn.seals.key_of(scope_id)
    gone = conn.execute(_drop_empty_scope, {"scope_": scope_id}).rowcount
    if gone:
        scopes.doom(conn, ref)
        ledger.drop_of_scope(conn, scope_id)
    return gone
