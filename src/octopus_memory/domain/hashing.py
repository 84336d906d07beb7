"""Terms as keyed numbers: what lexical search compares, without a word of the text.

The key is derived from the database's secret and the scope, so that equal words of two users have
different numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from .episode import Scope

_MOST_OFTEN = 255


class TermHasher:
    """Hashes the terms of one scope."""

    def __init__(self, salt: bytes, scope: Scope) -> None:
        names = (scope.tenant, scope.agent, scope.user)
        # Lengths keep ("ab", "c") and ("a", "bc") apart.
        parts = b"".join(len(n.encode()).to_bytes(4) + n.encode() for n in names)
        key = blake2b(parts, key=salt[:64], digest_size=32).digest()
        # Copying what has taken in the key is faster than taking it in for each term.
        self._begin = blake2b(key=key, digest_size=4).copy

    def number(self, term: str) -> int:
        return int.from_bytes(self._digests([term])[0], "little")

    def pack(self, counts: Mapping[str, int]) -> bytes:
        """Every term's number, then how often each occurs: five bytes a term."""
        often: Collection[int] = counts.values()
        if max(often, default=0) > _MOST_OFTEN:
            often = [min(count, _MOST_OFTEN) for count in often]
        return b"".join(self._digests(counts)) + bytes(often)

    def pack_words(self, words: Iterable[str]) -> bytes:
        """The numbers alone, in order: a speaker's name."""
        return b"".join(self._digests(words))

    def _digests(self, terms: Iterable[str]) -> list[bytes]:
        begin, digests = self._begin, []
        for term in terms:
            state = begin()
            state.update(term.encode("utf-8", "replace"))
            digests.append(state.digest())
        return digests


def unpack_words(packed: bytes) -> tuple[int, ...]:
    """The reverse of `TermHasher.pack_words`, as numbers."""
    return tuple(np.frombuffer(packed, dtype="<u4").tolist())


def unpack_all(
    packed: Sequence[bytes],
) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int32]]:
    """Many packed rows as one flat list: terms, how often, and the row each is in."""
    sizes = np.array([len(row) // 5 for row in packed], dtype=np.int64)
    terms = b"".join(row[: len(row) // 5 * 4] for row in packed)
    counts = b"".join(row[len(row) // 5 * 4 :] for row in packed)
    return (
        np.frombuffer(terms, dtype="<u4").astype(np.uint32, copy=False),
        np.frombuffer(counts, dtype=np.uint8),
        np.repeat(np.arange(len(packed), dtype=np.int32), sizes),
    )
