"""SQL Server: tables on a server that many processes share.

Reads use SNAPSHOT isolation. Writes use READ COMMITTED, and lock their scope first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from ....domain.episode import Scope, Turn
from ....domain.errors import InvalidInput, StoreAnswerLost, StoreBusy, StoreError
from ....ports.models import Clock
from ....ports.privacy import Lead
from ....ports.values import Append
from ..sql import schema, types
from ..sql.lazy import Connection
from ..sql.scope_seals import LONGEST_NAME
from ..sql.statements.move import MovePosition, Row, table_at
from ..sql.store import JobLead, SqlStore
from ..sql.transactions import READING, Reach
from . import engine, errors, maintenance

if TYPE_CHECKING:
    from ....ports.values import ImportedEpisode
    from ..sql.key_ring import KeyRing

P = ParamSpec("P")
T = TypeVar("T")
_READ_TRIES = 3
_LONGEST_KEY = 1_700
"""The largest key of an index, in bytes."""


class SqlServerStore(SqlStore):
    """`url` is `sqlserver://user:password@host:1433/database`, with driver options as its query.

    Up to `pool_size` connections write and as many read. A statement that takes longer than
    `statement_timeout_seconds` is cancelled. `serialize` is "auto", "always" or "never": see
    `serial`.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        statement_timeout_seconds: float = 30,
        connect_timeout_seconds: float = 10,
        serialize: str = "auto",
        clock: Clock | None = None,
        ring: KeyRing | None = None,
    ) -> None:
        if ring is not None:
            # Its columns of names have a length.
            ring.longest_name = LONGEST_NAME
        engines = engine.Engines(
            url,
            serialize=serialize,
            pool_size=pool_size,
            statement_seconds=statement_timeout_seconds,
            connect_seconds=connect_timeout_seconds,
        )
        self._aside, self._snapshots = engines.aside(), engines.reading()
        super().__init__(engines.writing, clock=clock, ring=ring)

    def _prepare_schema(self) -> None:
        with (
            self._translated(),
            engine.known_options(),
            self._aside.connect() as conn,
            maintenance.locked(conn, "schema"),
        ):
            if engine.allows_snapshots(conn):
                self._reader = self._snapshots.execution_options(**{READING: True})
            super()._prepare_schema()

    def close(self) -> None:
        super().close()
        self._snapshots.dispose()
        self._aside.dispose()

    def size_bytes(self) -> int | None:
        try:
            with self._aside.connect() as conn:
                return maintenance.size_bytes(conn)
        except sa.exc.DBAPIError:
            return None

    def translate(self, error: sa.exc.DBAPIError) -> StoreError:
        if error.connection_invalidated and engine.is_in_doubt(error):
            return StoreAnswerLost(errors.IN_DOUBT)
        return errors.translate(str(error.orig), lost=error.connection_invalidated)

    def lost_race(self, error: sa.exc.DBAPIError) -> bool:
        # A broken connection rolls its transaction back. Only if it breaks during the commit, the
        # outcome is unknown.
        broke = error.connection_invalidated and error.statement is not None
        # The driver raises this class for SQLSTATE 23000 alone, whatever the server's language.
        duplicate = isinstance(error, sa.exc.IntegrityError)
        return broke or duplicate or errors.lost_race(str(error.orig))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with super()._translated():
                yield
        except sa.exc.TimeoutError as error:
            raise StoreBusy(
                "every connection to SQL Server is in use: raise pool_size, or make fewer calls "
                "at once"
            ) from error

    def _read_once(
        self,
        reach: Reach,
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        for attempt in range(1, _READ_TRIES + 1):
            try:
                return super()._read_once(reach, do, *args, **named)
            except StoreError as error:
                cause = error.__cause__
                again = isinstance(cause, sa.exc.DBAPIError) and self.lost_race(cause)
                if attempt == _READ_TRIES or not again:
                    raise
        raise AssertionError

    def append(self, write: Append) -> list[Turn]:
        _check_key(write.scope)
        return super().append(write)

    def import_episode(self, imported: ImportedEpisode) -> bool:
        _check_key(imported.kept.episode.scope)
        return super().import_episode(imported)

    def fill(self, position: MovePosition, rows: Sequence[Row], then: MovePosition) -> None:
        if table_at(position) is schema.scopes:
            for row in rows:
                _check_key(Scope(tenant=row["tenant"], agent=row["agent"], user=row["user"]))
        super().fill(position, rows, then)

    @contextmanager
    def lead(self, job: str, *, worker_id: str) -> Iterator[Lead | None]:  # noqa: ARG002 - the session
        with self._translated():
            conn = self._aside.connect()
        try:
            with self._translated():
                leads = maintenance.take(conn, job)
            try:
                yield _SessionLead(self, job, conn) if leads else None
            finally:
                if leads:
                    with suppress(sa.exc.SQLAlchemyError):
                        maintenance.release(conn, job)
        finally:
            # The lock ends with its session, too, where it could not be released.
            conn.invalidate()
            conn.close()

    def _rewrite(self) -> bool:
        with self._aside.connect() as conn:
            try:
                maintenance.rewrite(conn)
            except sa.exc.DBAPIError as error:
                if isinstance(self.translate(error), StoreBusy):
                    return False
                raise
        return True


class _SessionLead(JobLead):
    """A lock that lasts as long as its connection."""

    def __init__(self, store: SqlServerStore, job: str, conn: sa.Connection) -> None:
        super().__init__(store, job)
        self._conn = conn

    def renew(self) -> bool:
        try:
            return maintenance.holds(self._conn, self._job)
        except sa.exc.SQLAlchemyError:
            return False


def _check_key(scope: Scope) -> None:
    names = (scope.tenant, scope.agent, scope.user)
    size = sum(len(types.pack_name(name)) for name in names)
    if size > _LONGEST_KEY:
        raise InvalidInput(
            "scope",
            f"tenant, agent and user have {size:,} bytes together, and SQL Server keeps "
            f"{_LONGEST_KEY:,}: use shorter names",
        )
