"""A part of a very large scope: the episodes that a question comes near to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from uuid import UUID

from ...domain.episode import Scope
from ...domain.errors import StoreCorrupt
from ...ports.index import Probe
from ...ports.store import EpisodeStore
from .cache import DAMAGED
from .columns import Columns
from .views import ExactView

_MOST_WAITING = 5_000
"""With more rows waiting than this the index is no help yet."""
_MOST_EPISODES = 100
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
    waiting = store.unindexed(scope, limit=_MOST_WAITING + 1)
    if len(waiting) > _MOST_WAITING:
        return None
    episodes, wanted = list(near[: max(_MOST_EPISODES, probe.episodes)]), probe.episodes
    if len(episodes) < probe.episodes:
        newest, count = store.list_episodes(scope, offset=0, limit=probe.episodes)
        episodes = list(dict.fromkeys([*near, *(episode.id for episode in newest)]))
        wanted = min(wanted, count)
    seqs = _with_gaps(sorted({*rows_of(episodes), *waiting}))
    rows = store.recall_rows_at(scope, seqs)
    try:
        view = ExactView(Columns(model=model).with_rows(0, rows))
    except (IndexError, OverflowError, ValueError) as error:
        raise StoreCorrupt(DAMAGED) from error
    return view if len(view.episode_ids) >= wanted else None


def _with_gaps(seqs: Sequence[int]) -> list[int]:
    """Turns without a vector are in no index, and stand between those with one."""
    filled = list(seqs[:1])
    for before, after in pairwise(seqs):
        filled += range(before + 1, after) if after - before <= _GAP else ()
        filled.append(after)
    return filled
