"""Unit vectors as bytes: an int8 for each dimension, and a fifth of a byte that makes it finer.

That is 767 values where int8 alone has 255, in less than a third of float32's size; what a cosine
loses by it is in `benchmarks/quantisation.py`. The coarse values come first, then the fine ones,
five to a byte: a value is three times the coarse one and the fine one, which is 0, 1 or 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_FINE, _IN_A_BYTE = 3, 5
_LARGEST = 128 * _FINE - 1
_PLACES = np.array([_FINE**place for place in range(_IN_A_BYTE)], np.int16)


def size(dimension: int) -> int:
    """How many bytes a packed vector takes."""
    return dimension + _bytes_of_fine(dimension)


def dimension_of(packed: bytes) -> int:
    return len(packed) * _IN_A_BYTE // (_IN_A_BYTE + 1)


def pack(vectors: NDArray[np.float32]) -> list[bytes]:
    """One value a row. Only the direction is kept: a unit vector has no length to remember."""
    count, dimension = vectors.shape
    largest = np.abs(vectors).max(axis=1, initial=1e-12)
    values = np.rint(vectors * (_LARGEST / largest)[:, None]).astype(np.int16)
    coarse = values // _FINE
    wide = _bytes_of_fine(dimension)
    fine = np.pad(values - _FINE * coarse, ((0, 0), (0, wide * _IN_A_BYTE - dimension)))
    together = _PLACES @ fine.reshape(count, _IN_A_BYTE, wide)
    return [row.tobytes() for row in np.hstack([coarse, together]).astype(np.uint8)]


def unpack(packed: Sequence[bytes], dimension: int) -> NDArray[np.float32]:
    """The reverse of `pack`, as unit rows of `dimension` components each."""
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
    """Which components are: the coarse values tell."""
    raw = np.frombuffer(b"".join(packed), np.int8).reshape(len(packed), len(packed[0]))
    return raw[:, : dimension_of(packed[0])] >= 0


def _bytes_of_fine(dimension: int) -> int:
    return -(-dimension // _IN_A_BYTE)
