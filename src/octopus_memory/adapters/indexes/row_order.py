"""The order that a scope's rows stand in, kept while more rows come."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .array_buffer import Growing

_LATEST = np.iinfo(np.int64).max
_FEW = 512
"""Rows that are sorted anew in less time than the new ones are put in."""


class Ordering:
    """Episodes go by their start, then by first sight; the rows of each by their place in it."""

    def __init__(self) -> None:
        self.order: NDArray[np.intp] | None = None
        """None for rows that came in order."""
        self.place_of: NDArray[np.int32] | None = None
        """Where each row stands; None for rows that came in order."""
        self._count = 0
        self._last_start = -_LATEST
        self._starts: Growing[np.int64] = Growing(np.int64)
        """When each episode starts."""
        self._ends: Growing[np.int64] = Growing(np.int64)
        """The row that stands last in each episode."""

    def take_in(
        self, episode: NDArray[np.int32], place: NDArray[np.int32], time: NDArray[np.int64]
    ) -> None:
        """All rows, of which those of the last call are known."""
        before, self._count = self._count, len(episode)
        if before == self._count:
            return
        fresh, known = episode[before:], len(self._starts)
        old = fresh < known
        seen = int(fresh.max()) + 1 - known
        if seen > 0:
            self._starts.extend(np.full(seen, _LATEST))
            self._ends.lengthen(seen)
        starts = self._starts.values
        at_the_end = (
            before > _FEW
            and bool((time[before:] >= starts[fresh])[old].all())
            and bool((place[before:] > place[self._ends.values[fresh]])[old].all())
        )
        np.minimum.at(starts, fresh, time[before:])
        if at_the_end and bool((starts[known:] >= self._last_start).all()):
            order = np.lexsort((place[before:], fresh, starts[fresh]))
            self._put_in(before, fresh, old, order)
        else:
            order = np.lexsort((place, episode, starts[episode]))
            self._ends.values[episode[order]] = order
            self._keep(order)
        self._last_start = int(starts.max())

    def _put_in(
        self,
        before: int,
        fresh: NDArray[np.int32],
        old: NDArray[np.bool_],
        order: NDArray[np.intp],
    ) -> None:
        """New rows of an episode after its last one, new episodes after all."""
        ends = self._ends.values
        last = ends[fresh] if self.place_of is None else self.place_of[ends[fresh]]
        after = np.where(old, last + 1, before)[order]
        ends[fresh[order]] = before + order
        in_order = bool((after == before).all()) and bool((np.diff(order) > 0).all())
        if self.order is None and in_order:
            return
        known = np.arange(before) if self.order is None else self.order
        self._keep(np.insert(known, after, before + order))

    def _keep(self, order: NDArray[np.intp]) -> None:
        as_they_came = np.arange(len(order), dtype=np.int32)
        if bool((order == as_they_came).all()):
            self.order = self.place_of = None
            return
        self.order = order
        self.place_of = np.empty(len(order), np.int32)
        self.place_of[order] = as_they_came
