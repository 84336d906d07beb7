"""Memoization by dictionary, for loops over the words of a text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
_LONGEST_WORD = 40


class Memo(dict[K, V]):
    """Computes missing values with `make`, and is cleared when it holds `most` of them.

    A look-up costs a third of one in `lru_cache`. Words need no LRU order, because the common ones
    come back at once.
    """

    def __init__(self, make: Callable[[K], V], *, most: int) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, key: K) -> V:
        value = self._make(key)
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value


class WordMemo(Memo[str, V]):
    """Memo of values by word. Long words are not kept, because they rarely recur: links, or whole
    sentences of a script without spaces.
    """

    def __missing__(self, key: str) -> V:
        return self._make(key) if len(key) > _LONGEST_WORD else super().__missing__(key)
