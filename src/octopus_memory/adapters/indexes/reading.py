"""Cosines by the store's own vectors, for rows that an index elsewhere did not answer for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...domain import vectors
from ...domain.episode import Scope
from ...ports.store import EpisodeStore

_MANY = 1_000


def stored_cosines(
    store: EpisodeStore,
    scope: Scope,
    model: str,
    seqs: Sequence[int],
    vector: NDArray[np.float32],
) -> NDArray[np.float32]:
    """NaN for a row that has gone, or that has no vector of this model any more."""
    if len(seqs) > _MANY:
        _, rows = store.recall_rows(scope, after=min(seqs) - 1)
    else:
        rows = store.recall_rows_at(scope, seqs)
    wanted = {seq: place for place, seq in enumerate(seqs)}
    held = [
        (wanted[row.seq], row.vector)
        for row in rows
        if row.seq in wanted and row.model == model and row.vector is not None
    ]
    cosines = np.full(len(seqs), np.nan, np.float32)
    held = [(place, packed) for place, packed in held if len(packed) == len(vector)]
    if held:
        found = vectors.unpack([packed for _, packed in held], len(vector))
        cosines[[place for place, _ in held]] = found @ vector
    return cosines
