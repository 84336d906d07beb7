"""Keyed hashes of terms, so that lexical search needs no text.

The key is derived from the database's secret and the scope, so that equal words of two users have
different hashes. A hash is a number of three bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ..episode import Scope
from ..ids import length_prefixed

NUMBER = 3
"""Bytes of a term's hash."""
_DIGEST = 4
_OF_A_DIGEST = np.uint32((1 << 8 * NUMBER) - 1)
"""Mask of the digest's bytes that are the term's hash."""
_MOST_OFTEN = 255


def term_key(salt: bytes, scope: Scope) -> bytes:
    """The key of a scope's terms, from the secret of its database."""
    names = length_prefixed(scope.tenant, scope.agent, scope.user)
    return blake2b(names, key=salt[:64], digest_size=32).digest()


class TermHasher:
    """Hashes the terms of one scope."""

    def __init__(self, key: bytes) -> None:
        # Copying a keyed state is faster than keying a new one for each term.
        self._begin = blake2b(key=key, digest_size=_DIGEST).copy

    def number(self, term: str) -> int:
        return int.from_bytes(self._digests([term])[:NUMBER], "little")

    def numbers(self, terms: Iterable[str]) -> NDArray[np.uint32]:
        found = np.frombuffer(self._digests(terms), "<u4") & _OF_A_DIGEST
        return found.astype(np.uint32, copy=False)

    def pack(self, counts: Mapping[str, int]) -> bytes:
        """Counts of the repeated terms, a zero byte, then all hashes, repeated terms first."""
        again = {term: min(count, _MOST_OFTEN) for term, count in counts.items() if count > 1}
        return bytes(again.values()) + b"\0" + self.pack_words({**again, **counts})

    def pack_words(self, words: Iterable[str]) -> bytes:
        """Hashes in order, without counts: for a speaker's name."""
        packed = bytearray(self._digests(words))
        # Truncate the digests: blake2b with a shorter `digest_size` gives other bytes.
        del packed[NUMBER::_DIGEST]
        return bytes(packed)

    def _digests(self, words: Iterable[str]) -> bytes:
        begin, digests = self._begin, []
        for word in words:
            state = begin()
            state.update(word.encode("utf-8", "replace"))
            digests.append(state.digest())
        return b"".join(digests)


def numbers(packed: bytes) -> NDArray[np.uint32]:
    """Reverse of `TermHasher.pack_words`."""
    wide = np.zeros((len(packed) // NUMBER, 4), np.uint8)
    wide[:, :NUMBER] = np.frombuffer(packed, np.uint8).reshape(-1, NUMBER)
    return wide.view("<u4").ravel().astype(np.uint32, copy=False)


def unpack_all(
    packed: Sequence[bytes],
) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int32]]:
    """Unpack rows into flat arrays: terms, counts, and the row of each.

    :raises ValueError: for bytes that `TermHasher.pack` did not make
    """
    halves = [row.partition(b"\0") for row in packed]
    sizes = [len(terms) // NUMBER for _, _, terms in halves]
    terms = numbers(b"".join([terms for _, _, terms in halves]))
    # Terms without a count occur once.
    often = [often.ljust(size, b"\1") for (often, _, _), size in zip(halves, sizes, strict=True)]
    counts = np.frombuffer(b"".join(often), np.uint8)
    if len(counts) != len(terms):
        raise ValueError("packed terms are truncated, or fewer than their counts")
    return terms, counts, np.repeat(np.arange(len(packed), dtype=np.int32), sizes)
