"""Unit vectors as bytes: an int8 for each dimension.

A quarter of float32's size; what a cosine loses by it is in `benchmarks/quantisation.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def pack(vectors: NDArray[np.float32]) -> list[bytes]:
    """One value a row. Only the direction is kept: a unit vector has no length to remember."""
    largest = np.abs(vectors).max(axis=1, initial=1e-12)
    small = np.rint(vectors * (127 / largest)[:, None]).astype(np.int8)
    return [row.tobytes() for row in small]


def unpack(packed: Sequence[bytes], dimension: int) -> NDArray[np.float32]:
    """The reverse of `pack`, as unit rows of `dimension` components each."""
    raw = np.frombuffer(b"".join(packed), dtype=np.int8)
    rows = raw.reshape(len(packed), dimension).astype(np.float32)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= np.maximum(norms, 1e-12)[:, None]
    return rows
