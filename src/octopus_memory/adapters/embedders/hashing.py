"""Embeddings from the letters alone: no model, and no meaning beyond shared words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ...domain.errors import InvalidSetting

_TOKEN = re.compile(r"\w+|[^\w\s]")
_GRAM_SIZES = (3, 4)
_MAX_CHARS = 8_192


class HashingEmbedder:
    """Texts to unit vectors by hashing words and their parts. Thread-safe.

    Texts that share words, or words that share letters, come near each other. It is meant for
    tests and trials: fast, the same on every machine, and blind to what words mean.

    :raises InvalidSetting: for a `dimension` below one
    """

    def __init__(self, dimension: int = 256) -> None:
        if dimension < 1:
            raise InvalidSetting("dimension", "must be at least 1; 256 keeps most words apart")
        self._dimension = dimension

    @property
    def model(self) -> str:
        """Each dimension is a space of its own."""
        return f"hashing-{self._dimension}"

    @property
    def dimension(self) -> int:
        """The length of a vector, as given."""
        return self._dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit row a text, in order."""
        rows = np.zeros((len(texts), self._dimension), dtype=np.float64)
        for row, text in zip(rows, texts, strict=True):
            tokens = _TOKEN.findall(text[:_MAX_CHARS].casefold())
            if tokens:
                places = np.concatenate([_places(token, self._dimension) for token in tokens])
                against, in_favour = np.bincount(places, minlength=2 * len(row)).reshape(2, -1)
                row[:] = in_favour - against
            if not row.any():
                row[0] = 1  # nothing to hash, or all of it cancelled out
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows.astype(np.float32)

    def clear_cache(self) -> None:
        """Drop the words that were met."""
        _places.cache_clear()


@lru_cache(maxsize=20_000)
def _places(token: str, dimension: int) -> NDArray[np.intp]:
    """Where each part of it counts: against a component, or a `dimension` further on for it."""
    places = []
    for part in _parts(token):
        digest = blake2b(part.encode("utf-8", "replace"), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        places.append((number >> 1) % dimension + (number & 1) * dimension)
    return np.array(places, np.intp)


def _parts(token: str) -> Iterator[str]:
    """The token itself, and its runs of letters, with the ends marked."""
    yield token
    marked = f"<{token}>"
    for size in _GRAM_SIZES:
        for start in range(len(marked) - size + 1):
            yield marked[start : start + size]
