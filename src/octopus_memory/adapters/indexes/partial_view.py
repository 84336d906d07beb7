"""Views of part of a very large scope, and cosines from the vectors in the store.

A remote index that must not load a large scope names the episodes near a question. Their rows are
read from the store and ranked exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search import vectors
from ...ports.index import Probe
from ...ports.recall_rows import RecallRows
from ...ports.store import EpisodeStore
from ...ports.values import EpisodeQuery
from .scope_cache import corrupt_rows_raise
from .scope_columns import ScopeColumns
from .scope_views import ExactView

MAX_UNINDEXED = 5_000
"""Maximum number of unindexed rows with which a partial view is useful."""
MAX_EPISODES = 100
_GAP = 8
"""Up to this many rows between two rows of an episode are read along."""
_END = 2**62
"""A `seq` above that of every row."""


def partial_view(
    store: EpisodeStore,
    scope: Scope,
    model: str,
    probe: Probe,
    *,
    near: Sequence[UUID],
    rows_of: Callable[[Sequence[UUID]], Sequence[int]],
) -> ExactView | None:
    """A view of the episodes in `near` and of unindexed rows; None if that would be too few.

    `rows_of` gives the `seq` of every mirrored row of some episodes. On None, the caller loads the
    whole scope.
    """
    unindexed = store.waiting_rows(scope, limit=MAX_UNINDEXED + 1)
    if len(unindexed) > MAX_UNINDEXED:
        return None
    episodes, wanted = list(near[: max(MAX_EPISODES, probe.episodes)]), probe.episodes
    if len(episodes) < probe.episodes:
        newest, count = store.list_episodes(EpisodeQuery(of=scope, limit=probe.episodes))
        episodes = list(dict.fromkeys([*near, *(episode.id for episode in newest)]))
        wanted = min(wanted, count)
    seqs = _fill_gaps(sorted({*rows_of(episodes), *unindexed}))
    view = view_of_rows(store, scope, model, seqs)
    return view if len(view.episode_ids) >= wanted else None


def view_of_rows(store: RecallRows, scope: Scope, model: str, seqs: Sequence[int]) -> ExactView:
    columns = ScopeColumns(model)
    with corrupt_rows_raise():
        columns.append(store.recall_block(scope, seqs=seqs)[1])
        return ExactView(columns)


def stored_cosines(
    store: RecallRows,
    scope: Scope,
    model: str,
    seqs: Sequence[int],
    vector: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Cosine of each row by its vector in the store; NaN if the row or its vector is gone."""
    _, block = store.recall_block(scope, after=_END, late=seqs, model=model)
    index_of = {seq: i for i, seq in enumerate(seqs)}
    fits = vectors.size(len(vector))
    held = [(index_of[seq], packed) for seq, packed in block.late if len(packed) == fits]
    cosines = np.full(len(seqs), np.nan, np.float32)
    if held:
        found = vectors.unpack([packed for _, packed in held], len(vector))
        cosines[[i for i, _ in held]] = found @ vector
    return cosines


def _fill_gaps(seqs: Sequence[int]) -> list[int]:
    """Add the rows between: turns without a vector are not mirrored."""
    filled = list(seqs[:1])
    for before, after in pairwise(seqs):
        filled += range(before + 1, after) if after - before <= _GAP else ()
        filled.append(after)
    return filled
