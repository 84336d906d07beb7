"""English words that mean much the same or belong together, from a table made beforehand.

`scripts/build_related_words.py` makes it with the built-in embedding model, of the words that the
model knows whole. Nothing is computed here but a look-up.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

_TABLE = Path(__file__).parent / "related-english.npz"
_NEARNESS = [weight / 255 for weight in range(256)]
"""What a weight in the table stands for; those that are 0 come last and stand for nothing."""
_CACHED = 4_096


class RelatedWords:
    """Stems to the stems nearest to them."""

    def __init__(
        self, stems: list[str], nearest: NDArray[np.uint16], weights: NDArray[np.uint8]
    ) -> None:
        self._stems = stems
        self._places = {stem: place for place, stem in enumerate(stems)}
        self._nearest = nearest
        self._weights = weights
        self.of = lru_cache(maxsize=_CACHED)(self._of)

    @classmethod
    def load(cls) -> Self:
        with np.load(_TABLE, allow_pickle=False) as table:
            stems = table["stems"].tobytes().decode("ascii").split("\n")
            return cls(stems, table["nearest"], table["weights"])

    def _of(self, stem: str) -> tuple[tuple[str, float], ...]:
        """Nearest first, each with how near it comes, 0 to 1; none for a word it does not know."""
        place = self._places.get(stem)
        if place is None:
            return ()
        nearest, weights = self._nearest[place].tolist(), self._weights[place].tolist()
        words = map(self._stems.__getitem__, nearest)
        return tuple(zip(words, map(_NEARNESS.__getitem__, filter(None, weights)), strict=False))


@cache
def english() -> RelatedWords:
    """The table, read at its first use."""
    return RelatedWords.load()
