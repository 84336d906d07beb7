"""Terms as keyed numbers: what lexical search compares, without a word of the text.

The key is derived from the database's secret and the scope, so that equal words of two users have
different numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ..episode import Scope
from ..ids import length_prefixed

NUMBER = 3
"""Bytes of a term's number."""
_DIGEST = 4
_OF_A_DIGEST = np.uint32((1 << 8 * NUMBER) - 1)
"""The part of a digest, read as a number, that is the term's."""
_MOST_OFTEN = 255


class TermHasher:
    """Hashes the terms of one scope."""

    def __init__(self, salt: bytes, scope: Scope) -> None:
        names = length_prefixed(scope.tenant, scope.agent, scope.user)
        key = blake2b(names, key=salt[:64], digest_size=32).digest()
        # Copying what has taken in the key is faster than taking it in for each term.
        self._begin = blake2b(key=key, digest_size=_DIGEST).copy

    def number(self, term: str) -> int:
        return int.from_bytes(self._digests([term])[:NUMBER], "little")

    def numbers(self, terms: Iterable[str]) -> NDArray[np.uint32]:
        found = np.frombuffer(self._digests(terms), "<u4") & _OF_A_DIGEST
        return found.astype(np.uint32, copy=False)

    def pack(self, counts: Mapping[str, int]) -> bytes:
        """How often each repeated term occurs, a zero, then every term's number, those first."""
        again = {term: min(count, _MOST_OFTEN) for term, count in counts.items() if count > 1}
        return bytes(again.values()) + b"\0" + self.pack_words({**again, **counts})

    def pack_words(self, words: Iterable[str]) -> bytes:
        """The numbers alone, in order: a speaker's name."""
        packed = bytearray(self._digests(words))
        # Cut off here: a digest that is asked to be shorter is another one.
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
    """The reverse of `TermHasher.pack_words`."""
    wide = np.zeros((len(packed) // NUMBER, 4), np.uint8)
    wide[:, :NUMBER] = np.frombuffer(packed, np.uint8).reshape(-1, NUMBER)
    return wide.view("<u4").ravel().astype(np.uint32, copy=False)


def unpack_all(
    packed: Sequence[bytes],
) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int32]]:
    """Many packed rows as one flat list: terms, how often, and the row each is in.

    :raises ValueError: for bytes that `TermHasher.pack` does not make
    """
    halves = [row.partition(b"\0") for row in packed]
    sizes = [len(terms) // NUMBER for _, _, terms in halves]
    terms = numbers(b"".join([terms for _, _, terms in halves]))
    # What has no count occurs once.
    often = [often.ljust(size, b"\1") for (often, _, _), size in zip(halves, sizes, strict=True)]
    counts = np.frombuffer(b"".join(often), np.uint8)
    if len(counts) != len(terms):
        raise ValueError("terms are of whole numbers, and no fewer than their counts")
    return terms, counts, np.repeat(np.arange(len(packed), dtype=np.int32), sizes)
