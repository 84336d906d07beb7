"""Column types with the same meaning on every dialect."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.types import TypeDecorator

from ....domain.errors import StoreCorrupt
from .column_values import DAMAGED, LONGEST_NAME, bind_id, bind_time, micros, read_id, read_time

_NATIVE = frozenset(("mssql", "postgresql"))


def _is_portable(dialect: sa.Dialect) -> bool:
    """True if times are stored as integers and ids as bytes, as on SQLite and on any product that
    has no form of its own here.
    """
    return dialect.name not in _NATIVE


class UtcTime(TypeDecorator[datetime]):
    """An aware UTC time: native on PostgreSQL and SQL Server, else microseconds since 1970."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> Any:
        if dialect.name == "mssql":
            from sqlalchemy.dialects.mssql import DATETIMEOFFSET

            return DATETIMEOFFSET(6)  # type: ignore[no-untyped-call]
        return sa.BigInteger() if _is_portable(dialect) else sa.DateTime(timezone=True)

    def bind_processor(self, dialect: sa.Dialect) -> Any:
        return bind_time if _is_portable(dialect) else super().bind_processor(dialect)

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:
        usual = super().result_processor
        return read_time if _is_portable(dialect) else usual(dialect, coltype)

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        return value.astimezone(UTC) if value is not None and dialect.name == "mssql" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002
        return None if value is None else value.astimezone(UTC)


class Uuid(TypeDecorator[UUID]):
    """An id: native on PostgreSQL and SQL Server, in the server's order, else sixteen bytes."""

    impl = sa.Uuid()
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> Any:
        return sa.LargeBinary(16) if _is_portable(dialect) else sa.Uuid()

    def bind_processor(self, dialect: sa.Dialect) -> Any:
        return bind_id if _is_portable(dialect) else super().bind_processor(dialect)

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:
        return read_id if _is_portable(dialect) else super().result_processor(dialect, coltype)

    def process_bind_param(self, value: UUID | None, dialect: sa.Dialect) -> Any:
        return to_sql_server(value) if value is not None and dialect.name == "mssql" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> UUID | None:
        return from_sql_server(value) if value is not None and dialect.name == "mssql" else value


class Name(TypeDecorator[str]):
    """Opaque text, compared character by character whatever the collation."""

    impl = sa.String()
    cache_ok = True

    def __init__(self, length: int = LONGEST_NAME) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: sa.Dialect) -> Any:
        if dialect.name == "postgresql":
            # Unlimited, because escapes lengthen a name and PostgreSQL stores any length alike.
            return sa.Text(collation="C")
        if dialect.name == "mssql":
            longest = 4 * self.length + 1
            return sa.VARBINARY(longest if longest <= _LONGEST_INLINE else None)
        return sa.String(self.length)

    def bind_processor(self, dialect: sa.Dialect) -> Any:
        return None if _is_portable(dialect) else super().bind_processor(dialect)

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:
        return None if _is_portable(dialect) else super().result_processor(dialect, coltype)

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> Any:
        if value is not None and dialect.name == "mssql":
            return pack_name(value)
        return _without_nul(value) if value and dialect.name == "postgresql" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> str | None:
        if value is not None and dialect.name == "mssql":
            return unpack_name(value)
        return _with_nul(value) if value and dialect.name == "postgresql" else value


_ESCAPE = "\x1a"


def _without_nul(text: str) -> str:
    """A name without NUL, which PostgreSQL cannot store in text."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")


def _with_nul(text: str) -> str:
    if _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE + "0", "\0").replace(_ESCAPE + "1", _ESCAPE)


def to_sql_server(value: UUID) -> UUID:
    """The id whose rank in SQL Server's order is `value`'s rank by bytes.

    SQL Server compares the last six bytes first, then group by group towards the front. With the
    time of a UUIDv7 there, new rows go to the end of an index.
    """
    given = value.bytes
    return UUID(bytes_le=given[12:] + given[10:12] + given[8:10] + given[6:8] + given[:6])


def from_sql_server(value: UUID) -> UUID:
    kept = value.bytes_le
    return UUID(bytes=kept[10:] + kept[8:10] + kept[6:8] + kept[4:6] + kept[:4])


_LONGEST_INLINE = 8_000
"""The largest VARBINARY(n) of SQL Server."""
_END = b"\1"
_LOW = re.compile(rb"[\x00-\x02]")
_ESCAPED = re.compile(rb"\x02([\x01-\x03])")


def pack_name(name: str) -> bytes:
    """UTF-8 with an end mark, because SQL Server ignores trailing zero bytes when it compares.

    The order of the bytes is that of the characters, "" first.
    """
    return _LOW.sub(lambda found: bytes((2, found[0][0] + 1)), name.encode()) + _END


def unpack_name(kept: bytes) -> str:
    if kept[-1:] != _END:
        raise StoreCorrupt(DAMAGED)
    try:
        return _ESCAPED.sub(lambda found: bytes((found[1][0] - 1,)), kept[:-1]).decode()
    except UnicodeDecodeError as error:
        raise StoreCorrupt(DAMAGED) from error


def _only_elsewhere(kind: Any, then: Callable[[Any], Any] | None, dialect: sa.Dialect) -> Any:
    """SQLite's stored values unchanged; values of other products converted to them."""
    if _is_portable(dialect):
        return None
    # psycopg returns the type that the others are converted to.
    read = None if dialect.name == "postgresql" else kind(dialect, None)
    if read is None or then is None:
        return then or read
    return lambda value: then(read(value))


class Micros(UtcTime):
    """A time as microseconds since 1970, for arrays."""

    cache_ok = True

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:  # noqa: ARG002
        return _only_elsewhere(super().result_processor, micros, dialect)


class IdBytes(Uuid):
    """An id as its sixteen bytes, because most rows repeat the id of the row before."""

    cache_ok = True

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:  # noqa: ARG002
        return _only_elsewhere(super().result_processor, lambda value: value.bytes, dialect)


class Bytes(TypeDecorator[bytes]):
    impl = sa.LargeBinary
    cache_ok = True

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Any:  # noqa: ARG002
        return _only_elsewhere(super().result_processor, None, dialect)
