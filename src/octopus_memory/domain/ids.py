"""UUIDv7: unique and ordered by time, so that inserts append to an index."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from uuid import UUID, SafeUUID

from .errors import InvalidInput

_set_int: Callable[[UUID, int], None] = UUID.int.__set__  # type: ignore[attr-defined,misc]
_set_safety: Callable[[UUID, SafeUUID], None] = UUID.is_safe.__set__  # type: ignore[attr-defined,misc]
_UNKNOWN = SafeUUID.unknown
_new, _from_bytes = object.__new__, int.from_bytes
_lock = threading.Lock()
_last = 0
KEY_SALT_SIZE, KEY_DIGEST_SIZE = 32, 16
"""Bytes of the salt and of the hash of a message key."""
_SHORTEST = 32
"""Characters of a UUID without hyphens."""


def new_id() -> UUID:
    """A UUIDv7 that sorts after all that this process made before.

    The 12 bits after the millisecond hold a finer clock fraction that is incremented if needed
    (RFC 9562, method 3), so that ids made in one burst keep their order.
    """
    return new_ids(1)[0]


def new_ids(count: int) -> list[UUID]:
    """`count` new ids, in ascending order."""
    global _last
    with _lock:
        stamp = max(time.time_ns() * 4096 // 1_000_000, _last + 1)
        _last = stamp + count - 1
    made = []
    for random in memoryview(os.urandom(8 * count)).cast("Q"):
        millis, fraction, tail = stamp >> 12, stamp & 0xFFF, random & 0x3FFF_FFFF_FFFF_FFFF
        number = (millis & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | fraction << 64 | 0x2 << 62 | tail
        made.append(_id(number))
        stamp += 1
    return made


def id_of(kept: bytes) -> UUID:
    """The UUID of 16 bytes, in a third of the time of `UUID(bytes=...)`.

    :raises ValueError: for another number of bytes
    """
    if len(kept) != 16:
        raise ValueError("an id must have 16 bytes")
    made: UUID = _new(UUID)
    _set_int(made, _from_bytes(kept))
    _set_safety(made, _UNKNOWN)
    return made


def _id(number: int) -> UUID:
    made: UUID = _new(UUID)
    _set_int(made, number)
    _set_safety(made, _UNKNOWN)
    return made


def length_prefixed(*parts: str) -> bytes:
    """The parts with their lengths, so that ("ab", "c") and ("a", "bc") differ: for hashes."""
    encoded = [part.encode() for part in parts]
    return b"".join(len(part).to_bytes(4) + part for part in encoded)


def as_id(field: str, given: object, kind: type | None = None) -> UUID | None:
    """The id that a caller gave, or that of an object of class `kind`; None for any other text.

    :raises InvalidInput: for anything else
    """
    if kind is not None and isinstance(given, kind):
        given = getattr(given, "id", None)
    if isinstance(given, UUID):
        return given
    if not isinstance(given, str):
        raise InvalidInput(field, f"must be a UUID or text, not {type(given).__name__}")
    if len(given) < _SHORTEST:
        return None
    try:
        return UUID(given)
    except ValueError:
        return None
