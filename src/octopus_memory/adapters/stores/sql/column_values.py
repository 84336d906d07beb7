"""Values as SQLite stores them, and constants of every store. Does not import SQLAlchemy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from ....domain.errors import StoreCorrupt
from ....domain.ids import id_of

NO_MODEL = 0
"""`model_id` of a recall row that gets no vector."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
OPEN_END = datetime(9999, 12, 31, tzinfo=UTC)
"""`order_at` of an open episode, so that it sorts before every closed one."""
DAMAGED = "a row of the database is damaged: restore the database from a backup"
LONGEST_NAME = 256
LAST_SEQ = 2**62
"""An upper bound of every `seq`."""


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def moment(count: int) -> datetime:
    return EPOCH + count * MICROSECOND


def bind_time(value: datetime | None) -> int | None:
    return None if value is None else (value - EPOCH) // MICROSECOND


def read_time(value: Any) -> datetime | None:
    try:
        return None if value is None else moment(value)
    except (TypeError, OverflowError) as error:
        raise StoreCorrupt(DAMAGED) from error


def bind_id(value: UUID | None) -> bytearray | None:
    return None if value is None else bytearray(value.int.to_bytes(16))


def read_id(value: Any) -> UUID | None:
    try:
        return None if value is None else id_of(value)
    except (TypeError, ValueError) as error:
        raise StoreCorrupt(DAMAGED) from error
