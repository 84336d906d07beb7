"""Which calls go straight to the driver, where a store has a way for them."""

from __future__ import annotations

from . import work_list
from .keeping import last_run
from .statements import (
    agents,
    ending,
    erasing,
    facts,
    findable,
    listing,
    meta,
    mirror,
    queue,
    reads,
    recalling,
    stages,
    writes,
)

READS = frozenset(
    {
        agents.config,
        agents.configs,
        last_run,
        reads.episodes,
        reads.episodes_and_turns,
        listing.page,
        listing.page_and_count,
        listing.open_episodes,
        recalling.block,
        recalling.block_at,
        recalling.state,
        erasing.unfinished,
        facts.newest,
        findable.turns,
        findable.waiting,
        meta.get,
        meta.number,
        mirror.name,
        queue.backlog,
        queue.has_stale,
        queue.owners,
        queue.turns,
        reads.replay,
        reads.session,
        reads.session_episodes,
        reads.turns,
        reads.turns_at,
    }
)
"""What recall, every message and each round of the worker ask: they use named statements alone."""
SNAPSHOTS = frozenset(
    {listing.page_and_count, queue.backlog, reads.replay, recalling.block, recalling.block_at}
)
"""Those of them whose statements must see one moment; for the others no transaction is begun."""
WRITES = frozenset(
    {
        ending.close_episode,
        findable.make,
        queue.claim,
        queue.finish,
        stages.archive,
        stages.delete,
        stages.purge,
        work_list.put_vectors,
        writes.append,
    }
)
"""The same of what is written: every message, a session's end, the worker's and retention's
steps."""
