"""Embeddings by feature hashing of words and character n-grams, without a model."""

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
    """Embeds texts by hashing words and their n-grams. Thread-safe.

    Texts that share words, or similar words, get similar vectors. For tests and trials: it is fast
    and equal on every machine, but knows no meaning.

    :raises InvalidSetting: for a `dimension` below one
    """

    def __init__(self, dimension: int = 256) -> None:
        if dimension < 1:
            raise InvalidSetting("dimension", "must be at least 1; 256 avoids most collisions")
        self._dimension = dimension

    @property
    def model(self) -> str:
        """Name of the vector space, with its dimension."""
        return f"hashing-{self._dimension}"

    @property
    def dimension(self) -> int:
        """Dimension of the vectors, as given."""
        return self._dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, in order."""
        rows = np.zeros((len(texts), self._dimension), dtype=np.float64)
        for row, text in zip(rows, texts, strict=True):
            tokens = _TOKEN.findall(text[:_MAX_CHARS].casefold())
            if tokens:
                components = np.concatenate(
                    [_components(token, self._dimension) for token in tokens]
                )
                against, in_favour = np.bincount(components, minlength=2 * len(row)).reshape(2, -1)
                row[:] = in_favour - against
            if not row.any():
                row[0] = 1  # nothing to hash, or all of it cancelled out
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows.astype(np.float32)

    def clear_cache(self) -> None:
        """Drop cached words, which may come from erased text."""
        _components.cache_clear()


@lru_cache(maxsize=20_000)
def _components(token: str, dimension: int) -> NDArray[np.intp]:
    """Hash of each part: its component, plus `dimension` if it counts positively."""
    components = []
    for part in _parts(token):
        digest = blake2b(part.encode("utf-8", "replace"), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
        components.append((number >> 1) % dimension + (number & 1) * dimension)
    return np.array(components, np.intp)


def _parts(token: str) -> Iterator[str]:
    """The token, and its character n-grams with the ends marked."""
    yield token
    marked = f"<{token}>"
    for size in _GRAM_SIZES:
        for start in range(len(marked) - size + 1):
            yield marked[start : start + size]
