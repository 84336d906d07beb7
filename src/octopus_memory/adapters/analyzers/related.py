"""English words that mean much the same or belong together, from a table made beforehand.

`scripts/build_related_words.py` makes it with the built-in embedding model, of the words that the
model knows whole. Nothing is computed here but a look-up.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_TABLE = Path(__file__).parent / "related-english.npy"
_NEARNESS = [weight / 255 for weight in range(256)]
"""What a weight in the table stands for; those that are 0 come last and stand for nothing."""
_CACHED = 4_096


class RelatedWords:
    """Stems to the stems nearest to them."""

    def __init__(self, table: NDArray[np.void]) -> None:
        """`table` has a row for each stem, in their order."""
        self._table = table
        self._stems: NDArray[np.bytes_] = table["stem"]
        self.of = lru_cache(maxsize=_CACHED)(self._of)

    def _of(self, stem: str) -> tuple[tuple[str, float], ...]:
        """Nearest first, each with how near it comes, 0 to 1; none for a word it does not know."""
        known = stem.encode("ascii", "replace")
        # numpy's own search would take a copy of all stems, for each.
        place = bisect_left(self._stems, known)
        if self._stems[place : place + 1].tolist() != [known]:
            return ()
        row = self._table[place]
        words = map(bytes.decode, self._stems[row["nearest"]].tolist())
        weights = filter(None, row["weights"].tolist())
        return tuple(zip(words, map(_NEARNESS.__getitem__, weights), strict=False))


@cache
def english() -> RelatedWords:
    """The table, read at its first use."""
    # Only what is looked up is read from the file.
    return RelatedWords(np.asarray(np.load(_TABLE, mmap_mode="r")))
