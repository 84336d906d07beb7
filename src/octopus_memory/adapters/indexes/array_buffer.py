"""A numpy array that grows at its end without copying itself on every append."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

D = TypeVar("D", bound=np.generic)
_MIN_SPARE = 32


class GrowingArray(Generic[D]):
    """An append-only array with spare capacity.

    Arrays returned by `values` stay valid, because appending only writes behind their end.
    """

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        self._width = () if width is None else (width,)
        self._dtype = dtype
        self._buffer: NDArray[Any] = np.zeros((0, *self._width), dtype)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> NDArray[D]:
        return self._buffer[: self._count]

    @property
    def size(self) -> int:
        """Bytes in use, without the spare capacity."""
        return self.values.nbytes

    def reserve(self, count: int) -> None:
        """Ensure a capacity of `count` values in all."""
        if count > len(self._buffer):
            # The operating system gives zeroed pages memory only when they are written.
            buffer = np.zeros((count, *self._width), self._dtype)
            buffer[: self._count] = self.values
            self._buffer = buffer

    def extend(self, more: ArrayLike) -> None:
        added = np.asarray(more, self._dtype)
        self.extend_zeros(len(added))
        self._buffer[self._count - len(added) : self._count] = added

    def extend_zeros(self, count: int) -> None:
        if self._count + count > len(self._buffer):
            self.reserve(self._count + max(count, self._count // 8, _MIN_SPARE))
        self._count += count
