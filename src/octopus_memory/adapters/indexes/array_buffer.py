"""Arrays with room at their end."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

D = TypeVar("D", bound=np.generic)
_LEAST_ROOM = 32


class Growing(Generic[D]):
    """What `values` gave out stays as it is: only what comes after its end is written."""

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        self._width = () if width is None else (width,)
        self._dtype = dtype
        self._room: NDArray[Any] = np.zeros((0, *self._width), dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> NDArray[D]:
        return self._room[: self._count]

    @property
    def size(self) -> int:
        """In bytes, without the room that nothing is in yet."""
        return self.values.nbytes

    def reserve(self, count: int) -> None:
        """Make room for so many in all."""
        if count > len(self._room):
            # Zeros take up no memory before something is written over them.
            room = np.zeros((count, *self._width), self._dtype)
            room[: self._count] = self.values
            self._room = room

    def extend(self, more: ArrayLike) -> None:
        added = np.asarray(more, self._dtype)
        self.lengthen(len(added))
        self._room[self._count - len(added) : self._count] = added

    def lengthen(self, by: int) -> None:
        """Add zeros."""
        if self._count + by > len(self._room):
            self.reserve(self._count + max(by, self._count // 8, _LEAST_ROOM))
        self._count += by
