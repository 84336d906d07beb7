"""Quantization of unit vectors: one int8 per dimension, plus a fifth of a byte for precision.

That gives 767 levels instead of 255, in less than a third of float32's size;
`benchmarks/quantization.py` measures the loss. The coarse int8 values come first, then the fine
ones, five to a byte. A level is three times the coarse value plus the fine value (0, 1 or 2).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_FINE, _IN_A_BYTE = 3, 5
_LARGEST = 128 * _FINE - 1
_POWERS = np.array([_FINE**i for i in range(_IN_A_BYTE)], np.int16)


def size(dimension: int) -> int:
    """Bytes of a packed vector."""
    return dimension + _bytes_of_fine(dimension)


def dimension_of(packed: bytes) -> int:
    return len(packed) * _IN_A_BYTE // (_IN_A_BYTE + 1)


def pack(vectors: NDArray[np.float32]) -> list[bytes]:
    """Pack each row. Only the direction is kept, because the vectors have unit length."""
    count, dimension = vectors.shape
    largest = np.abs(vectors).max(axis=1, initial=1e-12)
    values = np.rint(vectors * (_LARGEST / largest)[:, None]).astype(np.int16)
    coarse = values // _FINE
    wide = _bytes_of_fine(dimension)
    fine = np.pad(values - _FINE * coarse, ((0, 0), (0, wide * _IN_A_BYTE - dimension)))
    together = _POWERS @ fine.reshape(count, _IN_A_BYTE, wide)
    return [row.tobytes() for row in np.hstack([coarse, together]).astype(np.uint8)]


def unpack(packed: Sequence[bytes], dimension: int) -> NDArray[np.float32]:
    """Reverse of `pack`: unit rows of `dimension` components."""
    raw = np.frombuffer(b"".join(packed), np.int8).reshape(len(packed), size(dimension))
    together, fine = raw[:, dimension:].astype(np.uint8), []
    for _ in range(_IN_A_BYTE):
        rest = together // _FINE
        fine.append(together - _FINE * rest)
        together = rest
    rows = raw[:, :dimension].astype(np.float32)
    rows *= _FINE
    rows += np.hstack(fine)[:, :dimension]
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= np.maximum(norms, 1e-12)[:, None]
    return rows


def at_least_zero(packed: Sequence[bytes]) -> NDArray[np.bool_]:
    """Mask of the components that are not negative, from the coarse values."""
    raw = np.frombuffer(b"".join(packed), np.int8).reshape(len(packed), len(packed[0]))
    return raw[:, : dimension_of(packed[0])] >= 0


def _bytes_of_fine(dimension: int) -> int:
    return -(-dimension // _IN_A_BYTE)
