"""Connections to SQL Server, and checks of a database before its use."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa

from ....domain.errors import InvalidSetting, MissingExtra, StoreUnavailable
from . import serial

_PACKAGE = __name__.rpartition(".")[0]
_LOCK_SECONDS = 30
_FORM = "sqlserver://user:password@host:1433/database"
_SESSION = (
    # The store relies on row counts, whatever the default of the server.
    "SET NOCOUNT OFF",
    # Errors are recognized by their English text.
    "SET LANGUAGE us_english",
    f"SET LOCK_TIMEOUT {_LOCK_SECONDS * 1000}",
)
_IN_DOUBT = "octopus_in_doubt"


class Engines:
    """The engines of one store, each with its own isolation level."""

    def __init__(
        self,
        url: str,
        *,
        pool_size: int,
        statement_seconds: float,
        connect_seconds: float,
        serialize: str = "auto",
    ) -> None:
        self._url = address(url)
        options = {name: str(value) for name, value in self._url.query.items()}
        self.is_serial = serial.is_needed(serialize, options)
        self._pool_size = pool_size
        self._statement_seconds = math.ceil(statement_seconds)
        self._connect_seconds = math.ceil(connect_seconds)

    def writing(self) -> sa.Engine:
        # A statement that waits for a lock keeps the driver, so the lock's owner must not need it.
        return self._pooled("READ COMMITTED", 1 if self.is_serial else self._pool_size)

    def reading(self) -> sa.Engine:
        return self._pooled("SNAPSHOT", self._pool_size)

    def aside(self) -> sa.Engine:
        """A new connection for each use, without a timeout."""
        return self._make("AUTOCOMMIT", 0, {"poolclass": sa.NullPool})

    def _pooled(self, isolation: str, size: int) -> sa.Engine:
        waits = self._statement_seconds if self.is_serial else self._connect_seconds
        pool = {
            "pool_size": size,
            "max_overflow": 0,
            "pool_timeout": waits,
            "pool_use_lifo": True,
        }
        return self._make(isolation, self._statement_seconds, pool)

    def _make(self, isolation: str, seconds: int, pool: Mapping[str, Any]) -> sa.Engine:
        sa.dialects.registry.register("mssql.octopus", f"{_PACKAGE}.dialect", "SqlServerDialect")
        try:
            engine = sa.create_engine(
                self._url,
                isolation_level=isolation,
                hide_parameters=True,
                connect_args={"timeout": self._connect_seconds},
                **pool,
            )
        except ImportError as error:
            raise MissingExtra("sqlserver", "SQL Server") from error

        def prepare(raw: Any, _record: Any) -> None:
            raw.timeout = seconds
            cursor = raw.cursor()
            for statement in _SESSION:
                # Not every compatible server knows each of these.
                with suppress(engine.dialect.loaded_dbapi.DatabaseError):
                    cursor.execute(statement)
            cursor.close()

        if self.is_serial:
            sa.event.listen(engine, "do_connect", _connect_alone)
        sa.event.listen(engine, "connect", prepare)
        sa.event.listen(engine, "handle_error", _note_doubt)
        return engine


def _connect_alone(dialect: Any, _record: Any, args: Any, named: Any) -> serial.Serial:
    return serial.connect(dialect.loaded_dbapi.connect, *args, **named)


def address(url: str) -> sa.URL:
    """:raises InvalidSetting: when the URL names no server or no database"""
    try:
        given = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidSetting("database_url", f"is not a URL: write {_FORM}") from None
    if not given.host or not given.database:
        raise InvalidSetting("database_url", f"names no server or no database: write {_FORM}")
    if not all(isinstance(value, str) for value in given.query.values()):
        raise InvalidSetting("database_url", "has an option twice")
    options = dict(given.query)
    if "connectretrycount" not in map(str.lower, options):
        # The store reconnects itself, without the driver's ten seconds of waiting.
        options["ConnectRetryCount"] = "0"
    return given.set(drivername="mssql+octopus", query=options)


@contextmanager
def known_options() -> Iterator[None]:
    """:raises InvalidSetting: when the URL has an option that the driver does not know"""
    from mssql_python.exceptions import ConnectionStringParseError

    try:
        yield
    except ConnectionStringParseError as error:
        raise InvalidSetting(
            "database_url",
            "has an option that the driver does not know: it knows Encrypt, "
            "TrustServerCertificate, Authentication and others of Microsoft's",
        ) from error


def _note_doubt(context: sa.ExceptionContext) -> None:
    # No connection attempt and no statement: it was a commit.
    if context.connection is not None and context.statement is None:
        setattr(context.original_exception, _IN_DOUBT, True)


def is_in_doubt(error: sa.exc.DBAPIError) -> bool:
    """True if a commit failed."""
    return getattr(error.orig, _IN_DOUBT, False)


def allows_snapshots(conn: sa.Connection) -> bool:
    """True if reads can use SNAPSHOT isolation; turns it on in a database without tables.

    False if the server cannot tell, because it is not Microsoft SQL Server.

    :raises StoreUnavailable: when it is turned off; the message says what to do
    """
    try:
        state = _snapshot_state(conn)
    except sa.exc.DBAPIError:
        return False
    if state == _OFF and not conn.exec_driver_sql("SELECT COUNT(*) FROM sys.tables").scalar():
        _turn_on(conn)
        state = _snapshot_state(conn)
    deadline = time.monotonic() + _LOCK_SECONDS
    while state == _TURNING_ON and time.monotonic() < deadline:
        time.sleep(0.05)
        state = _snapshot_state(conn)
    if state != _ON:
        raise StoreUnavailable(
            "the database does not allow snapshot isolation, which reads need: run ALTER DATABASE "
            "CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON in it, as its owner"
        )
    return True


_OFF, _ON, _TURNING_ON = 0, 1, 3


def _snapshot_state(conn: sa.Connection) -> int:
    found = conn.exec_driver_sql(
        "SELECT snapshot_isolation_state FROM sys.databases WHERE database_id = DB_ID()"
    ).scalar()
    return _ON if found is None else int(found)


def _turn_on(conn: sa.Connection) -> None:
    for option in (
        "ALLOW_SNAPSHOT_ISOLATION ON",
        # Readers take no locks with it. It waits until no other session is connected.
        "READ_COMMITTED_SNAPSHOT ON WITH NO_WAIT",
    ):
        with suppress(sa.exc.DBAPIError):
            conn.exec_driver_sql(f"ALTER DATABASE CURRENT SET {option}").close()
