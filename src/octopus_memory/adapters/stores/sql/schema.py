"""The tables, once for every dialect. `migrations/` leads older databases here."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from . import views
from .types import Name, UtcTime, Uuid

metadata = sa.MetaData()

# An autoincremented key is never used twice, so that an erased scope's number cannot come to
# mean another's in a cache that has not heard of the erasure.
_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Tenant = Name(100)
_Name = Name()


# Given as `postgresql_where` and the like, it would load every product's dialect with each start.
_WHERE = "where"


def create(conn: sa.Connection) -> None:
    """Make every table and view; none may be there already."""
    limit_indexes(conn.dialect.name)
    metadata.create_all(conn, checkfirst=False)
    views.create(conn)


def limit_indexes(dialect: str) -> None:
    """Tell the partial indexes which rows they have, as the dialect wants to hear it."""
    for table in metadata.tables.values():
        for index in table.indexes:
            if _WHERE in index.info:
                index.dialect_kwargs[f"{dialect}_where"] = index.info[_WHERE]


def _table(name: str, *columns: Any, clustered: bool = False) -> sa.Table:
    return sa.Table(f"octopus_{name}", metadata, *columns, sqlite_with_rowid=not clustered)


meta = _table(
    "meta",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)

models = _table(
    "models",
    sa.Column("id", _KEY, primary_key=True, autoincrement=True),
    sa.Column("name", _Name, nullable=False, unique=True),
)

agents = _table(
    "agents",
    sa.Column("tenant", _Tenant, primary_key=True),
    sa.Column("agent", _Name, primary_key=True),
    sa.Column("config", sa.Text, nullable=False),
)

scopes = sa.Table(
    "octopus_scopes",
    metadata,
    sa.Column("id", _KEY, primary_key=True, autoincrement=True),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("agent", _Name, nullable=False),
    sa.Column("user", _Name, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("next_seq", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("tenant", "user", "agent", name="octopus_scopes_who"),
    sqlite_autoincrement=True,
)

conversations = _table(
    "conversations",
    sa.Column("scope_id", sa.BigInteger, primary_key=True),
    sa.Column("session_id", _Name, primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    clustered=True,
)

episodes = _table(
    "episodes",
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("scope_id", sa.BigInteger, nullable=False),
    sa.Column("session_id", _Name, nullable=False),
    sa.Column("started_at", UtcTime, nullable=False),
    sa.Column("last_message_at", UtcTime, nullable=False),
    sa.Column("last_seen_at", UtcTime, nullable=False),
    sa.Column("ended_at", UtcTime),
    sa.Column("order_at", UtcTime, nullable=False),
    # By the clock, where the times above are by the conversation's own.
    sa.Column("opened_at", UtcTime, nullable=False),
    sa.Column("touched_at", UtcTime, nullable=False),
    sa.Column("end_reason", sa.String(16)),
    sa.Column("message_count", sa.Integer, nullable=False),
    sa.Column("input_tokens", sa.BigInteger, nullable=False),
    sa.Column("output_tokens", sa.BigInteger, nullable=False),
    sa.Column("summary_codec", sa.SmallInteger),
    sa.Column("summary", sa.LargeBinary),
    sa.Column("summarized_by", _Name),
    sa.Column("is_archived", sa.Boolean, nullable=False),
    sa.Column("archived_at", UtcTime),
    sa.Column("is_cold", sa.Boolean, nullable=False, server_default=sa.false()),
    # What retention counts from: the end, or when the episode was restored.
    sa.Column("aged_from", UtcTime),
    sa.Column("deleted_at", UtcTime),
    # The first turn that has no recall row yet: none has from there on. None for no such turn.
    sa.Column("unfindable_from", sa.Integer),
    # Its recall rows are among these: they are clustered by scope, and no index leads to an
    # episode's own. None where an older Octopus began the episode.
    sa.Column("first_seq", sa.BigInteger),
    sa.Column("last_seq", sa.BigInteger),
    # The first turn that a replay of the session shows. None for the first of all.
    sa.Column("replay_from", sa.Integer),
    sa.Index("octopus_episodes_newest", "scope_id", "order_at", "id"),
    sa.Index("octopus_episodes_session", "scope_id", "session_id", "id"),
)
sa.Index(
    "octopus_episodes_open",
    episodes.c.id,
    info={_WHERE: episodes.c.ended_at.is_(None)},
)

sa.Index(
    "octopus_episodes_unfindable",
    episodes.c.scope_id,
    episodes.c.id,
    info={_WHERE: episodes.c.unfindable_from.is_not(None)},
)
sa.Index("octopus_episodes_age", episodes.c.is_archived, episodes.c.aged_from, episodes.c.id)
sa.Index(
    "octopus_episodes_deleted",
    episodes.c.deleted_at,
    episodes.c.id,
    info={_WHERE: episodes.c.deleted_at.is_not(None)},
)

# The turns of an episode are read together and in order, so the place is the key; a turn's own id
# is looked up by its place and needs no index of its own.


def _turn_columns() -> list[Any]:
    return [
        sa.Column("episode_id", Uuid, nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("id", Uuid, nullable=False),
        sa.Column("tenant", _Tenant, nullable=False),
        sa.Column("scope_id", sa.BigInteger, nullable=False),
        sa.Column("role", sa.SmallInteger, nullable=False),
        sa.Column("at", UtcTime, nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("agent", _Name),
        sa.Column("has_pii", sa.Boolean, nullable=False),
        sa.Column("embedding_ref", _Name),
        sa.Column("codec", sa.SmallInteger, nullable=False),
        sa.Column("message", sa.LargeBinary, nullable=False),
        sa.Column("tool_codec", sa.SmallInteger),
        sa.Column("tool_calls", sa.LargeBinary),
        # False for a turn that is replayed and never recalled.
        sa.Column("is_indexed", sa.Boolean, nullable=False, server_default=sa.true()),
    ]


turns = _table(
    "turns",
    sa.Column("row", _KEY, primary_key=True, autoincrement=True),
    *_turn_columns(),
    sa.UniqueConstraint("episode_id", "ordinal", name="octopus_turns_place"),
)

turns_archive = _table(
    "turns_archive",
    sa.Column("row", _KEY, primary_key=True, autoincrement=True),
    *_turn_columns(),
    sa.UniqueConstraint("episode_id", "ordinal", name="octopus_turns_archive_place"),
)

# Clustered by scope: everything that recall needs of one scope is one range scan.
recall = _table(
    "recall",
    sa.Column("scope_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("episode_id", Uuid, nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("role", sa.SmallInteger, nullable=False),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("flags", sa.SmallInteger, nullable=False),
    sa.Column("speaker", sa.LargeBinary, nullable=False),
    sa.Column("terms", sa.LargeBinary, nullable=False),
    # None while a vector is awaited, NO_MODEL where none is wanted.
    sa.Column("model_id", sa.BigInteger),
    sa.Column("vector", sa.LargeBinary),
    clustered=True,
)

idempotency = _table(
    "idempotency",
    sa.Column("scope_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("key", _Name, primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("fingerprint", sa.LargeBinary, nullable=False),
    sa.Column("episode_id", Uuid, nullable=False),
    sa.Column("first", sa.Integer, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("used_at", UtcTime, nullable=False),
    sa.Index("octopus_idempotency_age", "used_at"),
    clustered=True,
)

# A keyed hash of each id that a caller gave a message: kept when the message is removed.
message_keys = _table(
    "message_keys",
    sa.Column("scope_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("session_id", _Name, primary_key=True),
    sa.Column("digest", sa.LargeBinary(16), primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    clustered=True,
)

# What is still to be done. A lease is a `ready_at` in the future with an owner.
work = sa.Table(
    "octopus_work",
    metadata,
    sa.Column("id", _KEY, primary_key=True, autoincrement=True),
    sa.Column("kind", sa.SmallInteger, nullable=False),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("scope_id", sa.BigInteger, nullable=False),
    sa.Column("episode_id", Uuid, nullable=False),
    sa.Column("ordinal", sa.Integer, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("ready_at", UtcTime, nullable=False),
    sa.Column("owner", _Name),
    sa.Index("octopus_work_ready", "kind", "ready_at", "id"),
    sa.Index("octopus_work_subject", "scope_id", "seq"),
    sqlite_autoincrement=True,
)

placeholders = _table(
    "placeholders",
    sa.Column("episode_id", Uuid, primary_key=True),
    sa.Column("kind", sa.String(32), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("scope_id", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
    clustered=True,
)

# Clustered by scope: the facts of one scope are one range scan.
facts = _table(
    "facts",
    sa.Column("scope_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    # The source; None for a fact that the caller gave.
    sa.Column("episode_id", Uuid),
    sa.Column("turn_id", Uuid),
    sa.Column("ordinal", sa.Integer),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("origin", sa.String(16), nullable=False),
    sa.Column("since", UtcTime, nullable=False),
    sa.Column("ends", sa.Boolean, nullable=False),
    sa.Column("is_pinned", sa.Boolean, nullable=False),
    # Slot and text; None once the caller has deleted the fact.
    sa.Column("codec", sa.SmallInteger),
    sa.Column("content", sa.LargeBinary),
    # Of a deleted fact, keyed by the database and the scope: what it said, and its slot.
    sa.Column("deleted_at", UtcTime),
    sa.Column("digest", sa.LargeBinary),
    sa.Column("slot_digest", sa.LargeBinary),
    sa.Index("octopus_facts_episode", "scope_id", "episode_id"),
    clustered=True,
)

# Entries of the ledger, clustered by scope; the ids are in the order of time.
injections = _table(
    "injections",
    sa.Column("scope_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("session_id", _Name, nullable=False),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("budget_tokens", sa.Integer, nullable=False),
    sa.Column("block_tokens", sa.Integer, nullable=False),
    sa.Column("left_out", sa.Integer, nullable=False),
    # SHA-256 of the block; empty where there was none.
    sa.Column("hash", sa.LargeBinary, nullable=False),
    # The query, where the agent's ledger keeps it.
    sa.Column("codec", sa.SmallInteger),
    sa.Column("query", sa.LargeBinary),
    sa.Index("octopus_injections_session", "scope_id", "session_id", "id"),
    clustered=True,
)

# The items of an entry, a row for each episode, so that they go when it goes.
injected = _table(
    "injected",
    sa.Column("scope_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("injection_id", Uuid, primary_key=True),
    # Zero for facts that the caller gave.
    sa.Column("episode_id", Uuid, primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("shown", sa.Integer, nullable=False),
    sa.Column("memories", sa.Text, nullable=False),
    sa.Index("octopus_injected_episode", "scope_id", "episode_id", "injection_id"),
    clustered=True,
)

holds = _table(
    "holds",
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("user", _Name),
    sa.Column("episode_id", Uuid),
    sa.Column("reason", Name(2_000), nullable=False),
    sa.Column("placed_at", UtcTime, nullable=False),
    sa.Column("placed_by", _Name, nullable=False),
    sa.Index("octopus_holds_tenant", "tenant", "user"),
    sa.Index("octopus_holds_episode", "tenant", "episode_id"),
)

audit = _table(
    "audit",
    sa.Column("tenant", _Tenant, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("actor", _Name, nullable=False),
    sa.Column("action", sa.String(64), nullable=False),
    sa.Column("subject", sa.String(64)),
    sa.Column("outcome", sa.String(64), nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("previous", sa.LargeBinary, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    clustered=True,
)

erasures = _table(
    "erasures",
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("subject", sa.String(64), nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.Column("receipt", sa.Text),
    sa.Column("is_finished", sa.Boolean, nullable=False),
    sa.Index("octopus_erasures_unfinished", "is_finished", "at"),
)

jobs = _table(
    "jobs",
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("owner", _Name),
    sa.Column("leads_until", UtcTime),
    sa.Column("last_run", UtcTime),
)

keys = _table(
    "keys",
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("name", Name(100), nullable=False),
    sa.Column("agents", sa.Text),
    sa.Column("user", _Name),
    sa.Column("hash", sa.LargeBinary, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime),
    sa.Column("revoked_at", UtcTime),
    sa.Column("last_used_at", UtcTime),
)
