"""A part of a very large scope: the episodes that a question comes near to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from uuid import UUID

from ...domain.episode import Scope
from ...ports.index import Probe
from ...ports.store import EpisodeStore
from .scope_cache import damage_told
from .scope_columns import Columns
from .scope_views import ExactView

MOST_WAITING = 5_000
"""With more rows waiting than this the index is no help yet."""
MOST_EPISODES = 100
_GAP = 8
"""Rows of an episode stand close together: so many between two of them are taken along."""


def nearby(
    store: EpisodeStore,
    scope: Scope,
    model: str,
    probe: Probe,
    *,
    near: Sequence[UUID],
    rows_of: Callable[[Sequence[UUID]], Sequence[int]],
) -> ExactView | None:
    """The view of these episodes and of what waits; None where only the whole scope will do."""
    waiting = store.unindexed(scope, limit=MOST_WAITING + 1)
    if len(waiting) > MOST_WAITING:
        return None
    episodes, wanted = list(near[: max(MOST_EPISODES, probe.episodes)]), probe.episodes
    if len(episodes) < probe.episodes:
        newest, count = store.list_episodes(scope, offset=0, limit=probe.episodes)
        episodes = list(dict.fromkeys([*near, *(episode.id for episode in newest)]))
        wanted = min(wanted, count)
    seqs = _with_gaps(sorted({*rows_of(episodes), *waiting}))
    view = view_of(store, scope, model, seqs)
    return view if len(view.episode_ids) >= wanted else None


def view_of(store: EpisodeStore, scope: Scope, model: str, seqs: Sequence[int]) -> ExactView:
    """Of these rows alone."""
    columns = Columns(model)
    with damage_told():
        columns.take_in(store.recall_block_at(scope, seqs))
        return ExactView(columns)


def _with_gaps(seqs: Sequence[int]) -> list[int]:
    """Turns without a vector are in no index, and stand between those with one."""
    filled = list(seqs[:1])
    for before, after in pairwise(seqs):
        filled += range(before + 1, after) if after - before <= _GAP else ()
        filled.append(after)
    return filled
