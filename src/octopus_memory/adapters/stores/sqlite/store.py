"""SQLite: one file, no server. WAL, full durability, many threads and processes."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from ....domain.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
)
from ....ports.models import Clock
from ....ports.privacy import Trace
from ....ports.recall_rows import UnindexedTurns
from ....ports.values import IndexEntry
from ..sql import column_values, migrate
from ..sql.lazy import Connection, needs_snapshot, sa
from ..sql.store import SqlStore
from ..sql.transactions import READING, Every, Reach
from . import errors
from .connections import Connections, FileConnections, MemoryConnection
from .driver import DriverConnection
from .group_commit import BUSY_SECONDS, GroupCommit, fail_when_locked, wait_when_locked, when_free
from .url import FileIdentity

if TYPE_CHECKING:
    from ....domain.erasure import Subject
    from ..sql.key_ring import KeyRing

P = ParamSpec("P")
T = TypeVar("T")
_LARGE = 256 * 1024 * 1024
"""From this size on, a rewrite keeps its copy in a file, not in memory."""
_CHECKPOINTS = 10
_CHECKPOINT_MS = 500
_SIZE = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
_VERSION = f"SELECT version_num FROM {migrate.VERSION_TABLE}"  # noqa: S608 - a constant
_DRIVER_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""UnicodeDecodeError, because on a damaged file the driver can fail to decode its own message."""


class SqliteStore(SqlStore):
    """`path` is a file, or ":memory:" for a store that lives as long as the object."""

    def __init__(
        self,
        path: str | Path,
        *,
        read_only: bool = False,
        clock: Clock | None = None,
        ring: KeyRing | None = None,
    ) -> None:
        self._in_memory = str(path) == ":memory:"
        # Absolute, because the working directory may change.
        self._path = Path(path).absolute()
        self._read_only = read_only
        # Threads of this process queue here; SQLite polls only for other processes.
        self._writing = threading.RLock()
        self._file = FileIdentity(self._path)
        if not (self._in_memory or read_only):
            self._make_folder()
            self._make_private()
        self._connections: Connections = (
            MemoryConnection(self._connect(), self._writing)
            if self._in_memory
            else FileConnections(self._connect)
        )
        self._group_commit = GroupCommit(self._connections, self._writing)
        super().__init__(self._new_engine, clock=clock, ring=ring)

    def _prepare_schema(self) -> None:
        # Most starts find the current schema, and do not import SQLAlchemy.
        if not self._is_current():
            super()._prepare_schema()

    def _is_current(self) -> bool:
        try:
            raw = self._connections.take()
            try:
                found = raw.execute(_VERSION).fetchall()
            finally:
                self._connections.give_back(raw)
        except _DRIVER_ERRORS as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY:
                # The migration would only wait again.
                raise self._store_error(error) from error
            # The migration reports any other error better.
            return False
        return found == [(migrate.HEAD,)]

    @property
    def read_only(self) -> bool:
        return self._read_only

    def size_bytes(self) -> int | None:
        if self._in_memory:
            return None
        # Count pages, because pages in the log belong to the database or replace its pages.
        try:
            raw = self._connections.take()
            try:
                [size] = raw.execute(_SIZE).fetchone()
            finally:
                self._connections.give_back(raw)
        except _DRIVER_ERRORS as error:
            raise self._store_error(error) from error
        return int(size)

    def translate(self, error: sa.exc.DBAPIError) -> StoreError:
        return self.translate_driver(error.orig)

    def translate_driver(self, error: BaseException | None) -> StoreError:
        kind, said, advice = errors.translate(error)
        return kind(f"{self._path.name}: {said} ({self._hint(kind) or advice})")

    def _store_error(self, error: Exception) -> StoreError:
        if isinstance(error, UnicodeDecodeError):
            return StoreCorrupt(column_values.DAMAGED)
        return self.translate_driver(error)

    def _hint(self, kind: type[StoreError]) -> str | None:
        """A hint that fits better than the one for the error code."""
        if kind is StoreReadOnly and self._read_only:
            return "it was opened with ?mode=ro; open it without, and with write permission"
        if kind is not StoreUnavailable or self._in_memory:
            return None
        # A path may be too long to be checked.
        with suppress(OSError):
            if self._path.is_dir():
                return "this is a directory; name a file in it"
            if self._read_only and not self._path.exists():
                return "the file does not exist, and ?mode=ro does not create it"
        return None

    def index_turns(
        self,
        done: Sequence[tuple[UnindexedTurns, Sequence[IndexEntry]]],
        *,
        patience: float | None = None,
    ) -> int:
        if patience is not None and done:
            self._check_writable(patience)
        return super().index_turns(done)

    def _check_writable(self, patience: float) -> None:
        """Raise `StoreBusy` if the write lock is not free within `patience` seconds."""
        if not self._writing.acquire(timeout=patience):
            raise StoreBusy(f"{self._path.name}: another thread is writing; try again")
        raw = None
        try:
            raw = self._connections.take()
            fail_when_locked(raw)
            when_free(raw, "BEGIN IMMEDIATE", patience=patience)
            raw.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise self.translate_driver(error) from error
        finally:
            self._writing.release()
            if raw is not None:
                wait_when_locked(raw)
                self._connections.give_back(raw)

    def _write_once(
        self,
        reach: Reach,  # noqa: ARG002 - SQLite has no row-level security
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        self._file.check()
        # Bound here, because another thread may run it.
        seal = self._sealing()
        try:
            done = self._group_commit.write(lambda conn: do(seal(conn), *args, **named))
        except _DRIVER_ERRORS as error:
            raise self._store_error(error) from error
        # Check before acknowledging: the commit may have gone to a removed file.
        self._file.check()
        return done

    def _read_once(
        self,
        reach: Reach,  # noqa: ARG002
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        self._file.check()
        try:
            raw = self._connections.take()
            try:
                if needs_snapshot(do):
                    raw.execute("BEGIN")
                done = do(self._sealing()(DriverConnection(raw)), *args, **named)
                if raw.in_transaction:
                    raw.execute("COMMIT")
            except BaseException:
                self._connections.drop(raw)
                raise
            self._connections.give_back(raw)
        except _DRIVER_ERRORS as error:
            raise self._store_error(error) from error
        return done

    def change_schema(self, do: Callable[..., T], *args: Any) -> T:
        with self._writing:
            return super().change_schema(do, *args)

    def close(self) -> None:
        with self._writing:
            self._group_commit.close()
            super().close()
            self._connections.close()

    def trace(self, subject: Subject) -> Trace | None:
        if self._in_memory:
            return None
        from . import file_search

        prints = self._read(subject.tenant, file_search.take, subject)
        return file_search.FileTrace(prints, self._files, self._is_live)

    def _is_live(self, piece: bytes) -> bool:
        from . import file_search

        return self._read(Every.TENANT, file_search.is_live, piece)

    def _files(self) -> list[Path]:
        """The database file, and SQLite's files beside it."""
        named = [Path(f"{self._path}{end}") for end in ("", "-wal", "-shm", "-journal")]
        return [file for file in named if file.exists()]

    def _rewrite(self) -> bool:
        """Rewrite the file with VACUUM, and empty the log.

        `secure_delete` is not enough: until a checkpoint, the file and the log keep old pages, and
        a connection without it keeps them for good.
        """
        if self._in_memory:
            return True
        try:
            with closing(self._connect()) as conn:
                with self._writing:
                    if (self.size_bytes() or 0) > _LARGE:
                        conn.execute("PRAGMA temp_store=FILE")
                    fail_when_locked(conn)
                    when_free(conn, "VACUUM")
                return self._empty_log(conn)
        except _DRIVER_ERRORS as error:
            # A damaged page raises DatabaseError, not OperationalError.
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise self._store_error(error) from error
            return False

    def _empty_log(self, conn: sqlite3.Connection) -> bool:
        """Truncate the log, blocking writers briefly; False while a reader needs an old one."""
        conn.execute(f"PRAGMA busy_timeout={_CHECKPOINT_MS}")
        for attempt in range(_CHECKPOINTS):
            time.sleep(0.02 * attempt)
            with self._writing:
                busy, *_ = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return True
        return False

    def _make_private(self) -> None:
        """Create a new file with mode 0600, which SQLite copies to the files beside it."""
        # If this fails, SQLite reports the reason when it opens the file.
        with suppress(OSError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL, 0o600))

    def _make_folder(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot create the folder {self._path.parent}: {error.strerror} (choose a folder "
                "that can be written)"
            ) from error

    def _new_engine(self) -> sa.Engine:
        """The engine of migrations. Its connections are for them alone, except in memory."""
        connect: Callable[[], Any] = self._connect
        pool: type[sa.Pool] = sa.NullPool
        if self._in_memory:
            connect, pool = self._connections.take_writer, sa.StaticPool
        engine = sa.create_engine(
            "sqlite://", creator=connect, poolclass=pool, hide_parameters=True
        )
        sa.event.listen(engine, "begin", _begin)
        return engine

    def _connect(self) -> sqlite3.Connection:
        if self._in_memory:
            target = "file::memory:"
        else:
            # Never recreate a file that was removed.
            self._file.check()
            mode = "ro" if self._read_only else "rw" if self._file.is_known else "rwc"
            target = f"file:{quote(str(self._path))}?mode={mode}"
        conn = sqlite3.connect(
            target,
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            self._prepare(conn)
            if not self._in_memory:
                self._file.note()
                self._file.check()
        except BaseException:
            conn.close()
            raise
        return conn

    def _prepare(self, conn: sqlite3.Connection) -> None:
        conn.execute("PRAGMA foreign_keys=OFF")
        conn.execute("PRAGMA temp_store=MEMORY")
        # One cache for each connection. No memory map, because it gains nothing while others write,
        # and truncating the file would kill the process.
        conn.execute("PRAGMA cache_size=-4000")
        if self._read_only:
            return
        # Overwrite deleted content, whatever the default of this build.
        conn.execute("PRAGMA secure_delete=ON")
        if not self._in_memory:
            _use_wal(conn)
            conn.execute("PRAGMA synchronous=FULL")
            conn.execute("PRAGMA journal_size_limit=67108864")


def _use_wal(conn: sqlite3.Connection) -> None:
    # Two processes that switch a new file to WAL at once would deadlock, so SQLite makes one of
    # them fail at once, whatever the timeout.
    when_free(conn, "PRAGMA journal_mode=WAL")


def _begin(conn: sa.Connection) -> None:
    # Take the write lock first, because upgrading a read transaction can fail.
    reading = conn.get_execution_options().get(READING)
    conn.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
