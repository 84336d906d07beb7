"""Which calls go straight to the driver, where a store has a way for them."""

from __future__ import annotations

from .statements import (
    agent_configs,
    append,
    close,
    episodes,
    erasure,
    facts,
    index_turns,
    jobs,
    ledger,
    listing,
    message_keys,
    meta,
    move,
    recall_rows,
    retention,
    vectors,
    work,
)

READS = frozenset(
    {
        agent_configs.config,
        agent_configs.configs,
        jobs.last_run,
        episodes.episodes,
        episodes.episodes_and_turns,
        listing.page,
        listing.page_and_count,
        listing.open_episodes,
        recall_rows.block,
        recall_rows.block_at,
        recall_rows.state,
        erasure.erasures,
        facts.newest,
        index_turns.turns,
        index_turns.unindexed_turns,
        meta.get,
        meta.state,
        move.is_being_filled,
        work.backlog,
        work.has_stale,
        work.worker_ids,
        work.turns,
        episodes.replay,
        episodes.session,
        episodes.replayed,
        message_keys.known,
        episodes.episode_ids,
        episodes.turns,
        episodes.turns_at,
    }
)
"""What recall, every message and each round of the worker ask: they use named statements alone."""
SNAPSHOTS = frozenset(
    {listing.page_and_count, work.backlog, episodes.replay, recall_rows.block, recall_rows.block_at}
)
"""Those of them whose statements must see one moment; for the others no transaction is begun."""
WRITES = frozenset(
    {
        close.close_episode,
        index_turns.index_turns,
        ledger.record,
        work.claim,
        work.finish,
        retention.archive,
        retention.delete,
        retention.purge,
        vectors.put,
        append.append,
    }
)
"""The same of what is written: every message, a session's end, the worker's and retention's
steps."""
