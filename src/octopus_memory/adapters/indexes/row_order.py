"""The sort order of a scope's rows, maintained incrementally while rows are appended."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .array_buffer import GrowingArray

_LATEST = np.iinfo(np.int64).max
_FEW = 512
"""Below this many rows, sorting all is faster than inserting the new ones."""


class RowOrder:
    """Sorts episodes by start time, then by first appearance, and each episode's rows by position.

    `order` and `position_of` are None while the rows were appended in that order already.
    """

    def __init__(self) -> None:
        self.order: NDArray[np.intp] | None = None
        """Row numbers, sorted."""
        self.position_of: NDArray[np.int32] | None = None
        """Position of each row in `order`."""
        self._count = 0
        self._last_start = -_LATEST
        self._starts: GrowingArray[np.int64] = GrowingArray(np.int64)
        """Start time of each episode."""
        self._ends: GrowingArray[np.int64] = GrowingArray(np.int64)
        """Last row of each episode."""

    def update(
        self, episode: NDArray[np.int32], position: NDArray[np.int32], time: NDArray[np.int64]
    ) -> None:
        """Sort in the rows added since the last call. The arguments are columns of all rows."""
        before, self._count = self._count, len(episode)
        if before == self._count:
            return
        fresh, known = episode[before:], len(self._starts)
        old = fresh < known
        seen = int(fresh.max()) + 1 - known
        if seen > 0:
            self._starts.extend(np.full(seen, _LATEST))
            self._ends.extend_zeros(seen)
        starts = self._starts.values
        at_the_end = (
            before > _FEW
            and bool((time[before:] >= starts[fresh])[old].all())
            and bool((position[before:] > position[self._ends.values[fresh]])[old].all())
        )
        np.minimum.at(starts, fresh, time[before:])
        if at_the_end and bool((starts[known:] >= self._last_start).all()):
            order = np.lexsort((position[before:], fresh, starts[fresh]))
            self._insert(before, fresh, old, order)
        else:
            order = np.lexsort((position, episode, starts[episode]))
            self._ends.values[episode[order]] = order
            self._set(order)
        self._last_start = int(starts.max())

    def _insert(
        self,
        before: int,
        fresh: NDArray[np.int32],
        old: NDArray[np.bool_],
        order: NDArray[np.intp],
    ) -> None:
        """Insert new rows behind the last row of their episode, and new episodes at the end."""
        ends = self._ends.values
        last = ends[fresh] if self.position_of is None else self.position_of[ends[fresh]]
        after = np.where(old, last + 1, before)[order]
        ends[fresh[order]] = before + order
        in_order = bool((after == before).all()) and bool((np.diff(order) > 0).all())
        if self.order is None and in_order:
            return
        known = np.arange(before) if self.order is None else self.order
        self._set(np.insert(known, after, before + order))

    def _set(self, order: NDArray[np.intp]) -> None:
        identity = np.arange(len(order), dtype=np.int32)
        if bool((order == identity).all()):
            self.order = self.position_of = None
            return
        self.order = order
        self.position_of = np.empty(len(order), np.int32)
        self.position_of[order] = identity
