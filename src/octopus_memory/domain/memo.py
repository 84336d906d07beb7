"""Values that are made once and looked up from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
_LONGEST_WORD = 40


class Memo(dict[K, V]):
    """Makes what it is asked for and does not have; with `most` values it begins anew.

    In a loop over the words of a text a look-up costs a third of what `lru_cache` takes, which
    keeps an order that words do not need: the common ones are back at once.
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
    """What is made of words. Long ones hardly come again (a link, or a whole sentence of a script
    without spaces) and are not kept.
    """

    def __missing__(self, key: str) -> V:
        return self._make(key) if len(key) > _LONGEST_WORD else super().__missing__(key)
