"""Cosines by the store's own vectors, for rows that an index elsewhere did not answer for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Scope
from ...domain.search import vectors
from ...ports.store import EpisodeStore

_NO_MORE = 2**62
"""A `seq` that no row is above."""


def stored_cosines(
    store: EpisodeStore,
    scope: Scope,
    model: str,
    seqs: Sequence[int],
    vector: NDArray[np.float32],
) -> NDArray[np.float32]:
    """NaN for a row that has gone, or that has no vector of this model any more."""
    _, block = store.recall_block(scope, after=_NO_MORE, late=seqs, model=model)
    wanted = {seq: place for place, seq in enumerate(seqs)}
    fits = vectors.size(len(vector))
    held = [(wanted[seq], packed) for seq, packed in block.late if len(packed) == fits]
    cosines = np.full(len(seqs), np.nan, np.float32)
    if held:
        found = vectors.unpack([packed for _, packed in held], len(vector))
        cosines[[place for place, _ in held]] = found @ vector
    return cosines
