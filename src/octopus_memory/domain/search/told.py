"""The times that a turn tells of, packed in one number of its recall row.

"Yesterday" in a turn of 13 March tells of 12 March. A number holds up to three spans of whole days,
20 bits each: the day since 1970, and a class of length. 0 stands for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

MOST_SPANS = 3
_BITS, _LENGTH_BITS = 20, 4
_SPAN = (1 << _BITS) - 1
_LAST_DAY = (1 << (_BITS - _LENGTH_BITS)) - 1
_LENGTHS = np.array([1, 2, 3, 4, 5, 7, 10, 14, 21, 31, 45, 62, 92, 183, 366, 732], np.int64)
"""Days by class; a span gets the first class that holds it."""
_MICROSECOND = timedelta(microseconds=1)


def day(moment: datetime) -> int:
    """Number of the day since 1970, in the moment's own time zone."""
    return moment.toordinal() - _EPOCH


_EPOCH = datetime(1970, 1, 1).toordinal()  # noqa: DTZ001 - a day has no zone


def pack(spans: Iterable[tuple[datetime, datetime]]) -> int:
    """Pack the first spans into a number; ends are exclusive. Days before 1970 are left out."""
    packed = kept = 0
    for start, end in spans:
        first = day(start)
        days = day(end - _MICROSECOND) - first + 1
        if not 0 < first <= _LAST_DAY or not 0 < days <= _LENGTHS[-1]:
            continue
        length = int(np.searchsorted(_LENGTHS, days))
        packed |= (first << _LENGTH_BITS | length) << (_BITS * kept)
        kept += 1
        if kept == MOST_SPANS:
            break
    return packed


def overlaps(packed: NDArray[np.int64], days: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
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
