"""The tables, for every dialect. `migrations/` brings older databases here."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from . import views
from .types import Name, UtcTime, Uuid

metadata = sa.MetaData()

# A key is never reused, so that an erased scope's number cannot name another scope in a stale
# cache.
_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Tenant = Name(100)
_Name = Name()


# Set late: a `postgresql_where` in the table would import every dialect at each start.
_WHERE = "where"
_HAS_PARTIAL_INDEXES = frozenset(("mssql", "postgresql", "sqlite"))


def create(conn: sa.Connection) -> None:
    """Create every table and view in an empty database."""
    limit_indexes(conn.dialect.name)
    metadata.create_all(conn, checkfirst=False)
    views.create(conn)


def limit_indexes(dialect: str) -> None:
    """Set the dialect's condition of each partial index; elsewhere the index holds every row."""
    if dialect not in _HAS_PARTIAL_INDEXES:
        return
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
    # With a key: its random id, and the user's name sealed with it. `user` is then a keyed hash.
    sa.Column("key_ref", sa.String(36)),
    sa.Column("sealed_user", sa.LargeBinary),
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
    # Salts of imported message keys, 32 bytes each; None if there are none.
    sa.Column("key_salts", sa.LargeBinary),
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
    # By the store's clock; the times above are by the conversation's.
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
    # The time that retention counts from: the episode's end, or its restoration.
    sa.Column("aged_from", UtcTime),
    sa.Column("deleted_at", UtcTime),
    # The first turn without a recall row; none after it has one. None if all have one.
    sa.Column("unfindable_from", sa.Integer),
    # The span of the episode's recall rows, which are clustered by scope and have no index by
    # episode. None if an older Octopus began the episode.
    sa.Column("first_seq", sa.BigInteger),
    sa.Column("last_seq", sa.BigInteger),
    # The first turn that a replay of the session shows; None for all turns.
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

# Keyed by ordinal, because turns are read together and in order. A turn's own id needs no index.


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

# Clustered by scope, so that one range scan reads a scope's rows.
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
    # None while the row waits for a vector, NO_MODEL if it gets none.
    sa.Column("model_id", sa.BigInteger),
    sa.Column("vector", sa.LargeBinary),
    # The times that the text tells of, as `domain.search.told` packs them.
    sa.Column("told", sa.BigInteger, nullable=False, server_default="0"),
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

# A keyed hash of each id that a caller gave a message; stays when the message is removed.
message_keys = _table(
    "message_keys",
    sa.Column("scope_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("session_id", _Name, primary_key=True),
    sa.Column("digest", sa.LargeBinary(16), primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    clustered=True,
)

# The work queue. A lease is a `ready_at` in the future with an owner.
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

# Clustered by scope, so that one range scan reads a scope's facts.
facts = _table(
    "facts",
    sa.Column("scope_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", Uuid, primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    # The source; None for a fact that a caller gave.
    sa.Column("episode_id", Uuid),
    sa.Column("turn_id", Uuid),
    sa.Column("ordinal", sa.Integer),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("origin", sa.String(16), nullable=False),
    sa.Column("since", UtcTime, nullable=False),
    sa.Column("ends", sa.Boolean, nullable=False),
    sa.Column("is_pinned", sa.Boolean, nullable=False),
    # Slot and text; None after the fact is deleted.
    sa.Column("codec", sa.SmallInteger),
    sa.Column("content", sa.LargeBinary),
    # Digests of a deleted fact's text and slot, keyed by the database and the scope.
    sa.Column("deleted_at", UtcTime),
    sa.Column("digest", sa.LargeBinary),
    sa.Column("slot_digest", sa.LargeBinary),
    sa.Index("octopus_facts_episode", "scope_id", "episode_id"),
    clustered=True,
)

# Entries of the ledger, clustered by scope; ids are in order of time.
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
    # SHA-256 of the block; empty if there was none.
    sa.Column("hash", sa.LargeBinary, nullable=False),
    # The query, if the agent's ledger keeps it.
    sa.Column("codec", sa.SmallInteger),
    sa.Column("query", sa.LargeBinary),
    sa.Index("octopus_injections_session", "scope_id", "session_id", "id"),
    clustered=True,
)

# The items of an entry, one row for each episode, so that an erasure removes them with it.
injected = _table(
    "injected",
    sa.Column("scope_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("injection_id", Uuid, primary_key=True),
    # Zero for facts that a caller gave.
    sa.Column("episode_id", Uuid, primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("shown", sa.Integer, nullable=False),
    sa.Column("memories", sa.Text, nullable=False),
    sa.Index("octopus_injected_episode", "scope_id", "episode_id", "injection_id"),
    clustered=True,
)

# Items of previews that `forget` may be confirmed for: ids and digests, without text.
forget_previews = _table(
    "forget_previews",
    sa.Column("scope_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("token", sa.String(32), primary_key=True),
    sa.Column("tenant", _Tenant, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Column("chosen", sa.Text, nullable=False),
    sa.Index("octopus_forget_previews_age", "expires_at"),
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
    # The key that seals the reason, and the user's name with it.
    sa.Column("key_ref", sa.String(36)),
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
    sa.Column("key_ref", sa.String(36)),
    sa.Column("sealed_user", sa.LargeBinary),
)
