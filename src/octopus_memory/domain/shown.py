"""The turns that recall has shown, kept for the questions that follow."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from sys import getsizeof

from .episode import TurnHit

_OF_A_HIT = 600
"""Bytes besides the text."""
_LONGEST = 16_384
"""Texts of more characters are read each time."""
_MOST_BYTES = 256 * 1024


class Shown(dict[tuple[int, int], TurnHit]):
    """Turns of one scope without their scores, by the number of the episode's id and the ordinal.

    A conversation stays with its subject, so its questions find many of the same turns. It is as
    true as the rows that it is kept with, and goes with them. Full, it begins anew.
    """

    def __init__(self) -> None:
        super().__init__()
        self.size = 0
        """About how many bytes it keeps in memory."""
        self._lock = threading.Lock()

    def keep(self, hits: Iterable[TurnHit]) -> None:
        with self._lock:
            for hit in hits:
                if len(hit.text) > _LONGEST:
                    continue
                size = _OF_A_HIT + getsizeof(hit.text)
                if self.size + size > _MOST_BYTES:
                    self.clear()
                    self.size = 0
                self[hit.episode_id.int, hit.ordinal] = hit
                self.size += size
