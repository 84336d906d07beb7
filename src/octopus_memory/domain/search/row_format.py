"""The packed parts of a recall row: hashed terms, the times that a turn tells of, the vector.

Terms are keyed hashes, so that lexical search needs no text. The key is derived from the database's
secret and the scope, so that equal words of two users have different hashes of three bytes.

"Yesterday" in a turn of 13 March tells of 12 March. A number holds up to three spans of whole days,
20 bits each: the day since 1970, and a class of length. 0 stands for none.

A unit vector has one int8 per dimension, plus a fifth of a byte for precision. That gives 767
levels instead of 255, in less than a third of float32's size; `benchmarks/quantization.py` measures
the loss. The coarse int8 values come first, then the fine ones, five to a byte. A level is three
times the coarse value plus the fine value (0, 1 or 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
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


MOST_SPANS = 3
_BITS, _LENGTH_BITS = 20, 4
_SPAN = (1 << _BITS) - 1
_LAST_DAY = (1 << (_BITS - _LENGTH_BITS)) - 1
_LENGTHS = np.array([1, 2, 3, 4, 5, 7, 10, 14, 21, 31, 45, 62, 92, 183, 366, 732], np.int64)
"""Days by class; a span gets the first class that holds it."""
_MICROSECOND = timedelta(microseconds=1)


def day_number(moment: datetime) -> int:
    """Number of the day since 1970, in the moment's own time zone."""
    return moment.toordinal() - _FIRST_DAY


_FIRST_DAY = datetime(1970, 1, 1).toordinal()  # noqa: DTZ001 - a day has no zone


def pack_told(spans: Iterable[tuple[datetime, datetime]]) -> int:
    """Pack the first spans into a number; ends are exclusive. Days before 1970 are left out."""
    packed = kept = 0
    for start, end in spans:
        first = day_number(start)
        days = day_number(end - _MICROSECOND) - first + 1
        if not 0 < first <= _LAST_DAY or not 0 < days <= _LENGTHS[-1]:
            continue
        length = int(np.searchsorted(_LENGTHS, days))
        packed |= (first << _LENGTH_BITS | length) << (_BITS * kept)
        kept += 1
        if kept == MOST_SPANS:
            break
    return packed


def told_overlaps(packed: NDArray[np.int64], days: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Mask of the numbers that have a day in one of these ranges; last days are inclusive."""
    found = np.zeros(len(packed), np.bool_)
    rows = packed.nonzero()[0]
    for place in range(MOST_SPANS):
        span = (packed[rows] >> (_BITS * place)) & _SPAN
        first = span >> _LENGTH_BITS
        last = first + _LENGTHS[span & ((1 << _LENGTH_BITS) - 1)] - 1
        for start, end in days:
            found[rows] |= (span > 0) & (first <= end) & (last >= start)
    return found


_FINE, _IN_A_BYTE = 3, 5
_LARGEST = 128 * _FINE - 1
_POWERS = np.array([_FINE**i for i in range(_IN_A_BYTE)], np.int16)


def vector_size(dimension: int) -> int:
    """Bytes of a packed vector."""
    return dimension + _bytes_of_fine(dimension)


def dimension_of(packed: bytes) -> int:
    return len(packed) * _IN_A_BYTE // (_IN_A_BYTE + 1)


def pack_vectors(vectors: NDArray[np.float32]) -> list[bytes]:
    """Pack each row. Only the direction is kept, because the vectors have unit length."""
    count, dimension = vectors.shape
    largest = np.abs(vectors).max(axis=1, initial=1e-12)
    values = np.rint(vectors * (_LARGEST / largest)[:, None]).astype(np.int16)
    coarse = values // _FINE
    wide = _bytes_of_fine(dimension)
    fine = np.pad(values - _FINE * coarse, ((0, 0), (0, wide * _IN_A_BYTE - dimension)))
    together = _POWERS @ fine.reshape(count, _IN_A_BYTE, wide)
    return [row.tobytes() for row in np.hstack([coarse, together]).astype(np.uint8)]


def unpack_vectors(packed: Sequence[bytes], dimension: int) -> NDArray[np.float32]:
    """Reverse of `pack`: unit rows of `dimension` components."""
    raw = np.frombuffer(b"".join(packed), np.int8).reshape(len(packed), vector_size(dimension))
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


def vector_signs(packed: Sequence[bytes]) -> NDArray[np.bool_]:
    """Mask of the components that are not negative, from the coarse values."""
    raw = np.frombuffer(b"".join(packed), np.int8).reshape(len(packed), len(packed[0]))
    return raw[:, : dimension_of(packed[0])] >= 0


def _bytes_of_fine(dimension: int) -> int:
    return -(-dimension // _IN_A_BYTE)
