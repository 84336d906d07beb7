"""UUIDv7: unique, and in time order, so that inserts go to the end of an index."""

from __future__ import annotations

import os
import threading
import time
from uuid import UUID

_lock = threading.Lock()
_last = 0


def new_id() -> UUID:
    """A UUIDv7 that sorts after every one this process made before.

    The 12 bits beside the millisecond count up within it (RFC 9562, method 3), so that ids made
    in one burst keep their order.
    """
    global _last
    with _lock:
        now = time.time_ns() * 4096 // 1_000_000
        _last = max(now, _last + 1)
        stamp = _last
    millis, fraction = stamp >> 12, stamp & 0xFFF
    tail = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF
    return UUID(
        int=(millis & 0xFFFF_FFFF_FFFF) << 80 | 0x7 << 76 | fraction << 64 | 0x2 << 62 | tail
    )
