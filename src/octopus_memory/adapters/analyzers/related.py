"""Related English words, looked up in a precomputed table.

`scripts/build_related_words.py` builds the table with the built-in embedding model, from the words
that are single tokens of the model.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_TABLE = Path(__file__).parent / "related-english.npy"
_NEARNESS = [weight / 255 for weight in range(256)]
"""Similarity by weight in the table; weight 0 is padding at the end of a row."""
_CACHED = 4_096


class RelatedWords:
    """Maps stems to the most similar stems."""

    def __init__(self, table: NDArray[np.void]) -> None:
        """`table` has one row per stem, in their order."""
        self._table = table
        self._stems: NDArray[np.bytes_] = table["stem"]
        self.of = lru_cache(maxsize=_CACHED)(self._of)

    def _of(self, stem: str) -> tuple[tuple[str, float], ...]:
        """Related stems with their similarity, 0 to 1, most similar first; empty if unknown."""
        known = stem.encode("ascii", "replace")
        # `np.searchsorted` would copy all stems for each look-up.
        at = bisect_left(self._stems, known)
        if self._stems[at : at + 1].tolist() != [known]:
            return ()
        row = self._table[at]
        words = map(bytes.decode, self._stems[row["nearest"]].tolist())
        weights = filter(None, row["weights"].tolist())
        return tuple(zip(words, map(_NEARNESS.__getitem__, weights), strict=False))


@cache
def english() -> RelatedWords:
    """The table of the package data, opened on first use."""
    # Memory-mapped: only rows that are looked up are read.
    return RelatedWords(np.asarray(np.load(_TABLE, mmap_mode="r")))
