"""Statements executed on psycopg, several in one round trip.

A statement is sent when it is executed, and awaited when its rows are read. So BEGIN travels with
the first statements and COMMIT with the last, and a read of one statement is one round trip.
Through SQLAlchemy it would be three, and three times the CPU time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ..sql.lazy import Statement
from ..sql.results import DriverResult, Reader, returned
from ..sql.seals import OFF, Seals
from ..sql.statement_cache import Keys, StatementCache, check_given
from . import errors

if TYPE_CHECKING:
    import psycopg

SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED"
DURABLE = (
    "set_config('synchronous_commit', "
    "replace(current_setting('synchronous_commit'), 'off', 'on'), true)"
)
"""Makes a commit durable. Set in each transaction, because a pooler may use any connection."""
_SET = "SELECT set_config('statement_timeout', %s, true), set_config('octopus.reach', %s, true)"
_SET_TO_WRITE = f"{_SET}, {DURABLE}"
_LONG_LIST = 16
"""From this length of a list on, the server plans anew."""
_LOSSES = "octopus_losses"
"""The number of lost connections when this one was first used."""
_LIST = re.compile(r"(NOT )?IN \(__\[POSTCOMPILE_(\w+)\]\)")


class Prepared(Reader):
    """A statement compiled for one set of parameters."""

    def __init__(self, statement: Any, made: Any, keys: Keys, dialect: sa.Dialect) -> None:
        """`made` is SQLAlchemy's compiled object."""
        columns = returned(statement)
        super().__init__(
            [name for name, _ in columns],
            [kind.dialect_impl(dialect).result_processor(dialect, None) for _, kind in columns],
        )
        # One text for lists of any length.
        self.text = _LIST.sub(_as_array, str(made))
        self._lists = {found[2] for found in _LIST.finditer(str(made))}
        names = set(made.bind_names.values())
        self.fixed = {name: made.params[name] for name in names.difference(keys)}
        self._binds = {
            name: _bind(made.binds[name].type, dialect, is_list=name in self._lists)
            for name in names
        }

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        given = {**self.fixed, **given}
        return {
            name: given[name] if bind is None else bind(given[name])
            for name, bind in self._binds.items()
        }

    def fits_cached_plan(self, values: Mapping[str, Any]) -> bool:
        """True if the lists are short enough for the plan that the server caches."""
        return all(len(values[name]) <= _LONG_LIST for name in self._lists)


class Statements(StatementCache[Prepared]):
    """The compiled statements of one server."""

    def __init__(self, dialect: sa.Dialect) -> None:
        self.dialect = dialect
        super().__init__(lambda statement, keys: self._prepare(statement(), keys)[0], self._prepare)

    def _prepare(self, statement: Any, keys: Keys) -> tuple[Prepared, Any]:
        # Without this, an INSERT would return the new row's key.
        is_silent = isinstance(statement, sa.Insert) and not returned(statement)
        made = statement.compile(dialect=self.dialect, column_keys=keys, for_executemany=is_silent)
        check_given(made, keys)
        return Prepared(statement, made, keys, self.dialect), made


class DriverConnection:
    """Executes statements.

    With `begin` they form one transaction, which `end` commits. Without it, statements sent before
    rows are read form one.
    """

    product = "postgresql"
    is_placed = False

    def __init__(
        self,
        raw: Any,
        statements: Statements,
        driver_error: type[Exception],
        *,
        begin: str | None,
        settings: tuple[str, ...],
    ) -> None:
        """`settings` are the statement timeout and the reach."""
        self._raw = raw
        self._statements = statements
        self._driver_error = driver_error
        self._begin = begin
        self._settings = settings
        self._pipeline: psycopg.Pipeline | None = None
        self._leaving = ExitStack()
        self._has_unanswered = False
        self.seals: Seals = OFF
        self.is_ending = False
        """True if the COMMIT of a write was sent."""

    @property
    def is_broken(self) -> bool:
        """True if the connection could not be reset."""
        raw = self._raw.pgconn
        return bool(self._raw.closed or raw.pipeline_status or raw.transaction_status)

    def execute(self, statement: Statement[Any] | sa.Executable, given: Any = None) -> DriverResult:
        rows: list[Mapping[str, Any]] = given if isinstance(given, list) else [given or {}]
        prepared, own = self._statements.find(statement, tuple(rows[0]))
        if own:
            rows = [{**own, **row} for row in rows]
        self._start()
        cursor = self._raw.cursor(binary=True)
        if len(rows) > 1:
            cursor.executemany(prepared.text, list(map(prepared.values, rows)))
        else:
            values = prepared.values(rows[0])
            # psycopg prepares a statement without a name once it was used a few times.
            prepare: bool | None = True if isinstance(statement, Statement) else None
            if not prepared.fits_cached_plan(values):
                prepare = False
            cursor.execute(prepared.text, values, prepare=prepare)
        self._has_unanswered = True
        return DriverResult(_PendingCursor(cursor, self._sync), prepared)

    def insert(
        self,
        statement: Statement[Any] | sa.Executable,
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        self.execute(statement, [dict(zip(names, row, strict=True)) for row in rows])

    def end(self) -> None:
        """Commit, and wait until every statement that was sent is done."""
        if self._begin is not None and self._pipeline is not None:
            self.is_ending = self._begin == WRITING
            self._raw.execute("COMMIT", prepare=True)
        self._leave()

    def close(self) -> None:
        """Reset the connection if possible."""
        # The error is known by now; ignore those of statements that were only sent.
        with suppress(Exception):
            self._pipeline = None
            self._leaving.close()
        with suppress(Exception):
            if self._raw.pgconn.transaction_status:
                self._raw.rollback()

    def _start(self) -> None:
        if self._pipeline is not None:
            return
        self._pipeline = self._leaving.enter_context(self._raw.pipeline())
        if self._begin is not None:
            self._raw.execute(self._begin, prepare=True)
        self._send_settings()

    def _send_settings(self) -> None:
        self._raw.execute(
            _SET_TO_WRITE if self._begin == WRITING else _SET, self._settings, prepare=True
        )

    def _sync(self) -> None:
        """Wait for the results of everything that was sent."""
        if self._pipeline is None or not self._has_unanswered:
            return
        self._has_unanswered = False
        if self._begin is None:
            self._leave()
        else:
            self._pipeline.sync()

    def _leave(self) -> None:
        before = sys.exc_info()[1]
        self._pipeline = None
        try:
            self._leaving.close()
        except self._driver_error as error:
            hidden = error.__context__
            if not self._raw.pgconn.pipeline_status or hidden in (None, before):
                raise
            # Leaving the pipeline failed because of the earlier error: raise that one.
            raise hidden from None


class Driver:
    """Lends the connections of the SQLAlchemy pool, each to one call."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self.statements = Statements(engine.dialect)
        self._losses = 0
        sa.event.listen(engine, "checkout", self._check_before_use)

    @contextmanager
    def connection(
        self, make: Callable[..., DriverConnection], statements: Statements, **options: Any
    ) -> Iterator[DriverConnection]:
        """A connection for one call; errors are raised as SQLAlchemy raises them.

        `make` and its `options` are the class of the connection, and what it needs.
        """
        driver_error = self._engine.dialect.loaded_dbapi.Error
        try:
            pooled = self._engine.raw_connection()
        except driver_error as error:
            raise self._as_sqlalchemy_raises(error) from error
        conn = make(pooled.driver_connection, statements, driver_error, **options)
        try:
            yield conn
            conn.end()
        except driver_error as error:
            conn.close()
            is_lost = conn.is_broken or errors.is_end_of_connection(error)
            if is_lost or errors.is_outdated(error):
                self._retire_older(pooled.info)
            if is_lost:
                pooled.invalidate()
            raise self._as_sqlalchemy_raises(
                error, is_lost=is_lost, is_ending=conn.is_ending
            ) from error
        except Exception:
            raise
        except BaseException:
            # Interrupted in the middle of the protocol: the connection cannot be used again.
            pooled.invalidate()
            raise
        finally:
            conn.close()
            if conn.is_broken and pooled.is_valid:
                pooled.invalidate()
            pooled.close()

    def _as_sqlalchemy_raises(
        self, error: Exception, *, is_lost: bool = False, is_ending: bool = False
    ) -> BaseException:
        return sa.exc.DBAPIError.instance(
            # `errors.answer_lost` recognizes a commit by the missing statement.
            None if is_lost and is_ending else "a statement",
            None,
            error,
            self._engine.dialect.loaded_dbapi.Error,
            hide_parameters=True,
            connection_invalidated=is_lost,
        )

    def _retire_older(self, info: dict[Any, Any]) -> None:
        """Retire every connection that is older than the one that was lost."""
        # Connections that were lost together count once.
        if info.get(_LOSSES) == self._losses:
            self._losses += 1

    def _check_before_use(self, _: Any, record: Any, __: Any) -> None:
        now = self._losses
        if record.info.setdefault(_LOSSES, now) != now:
            # The pool replaces it with a new connection, which passes the check.
            raise sa.exc.DisconnectionError("a connection was lost, or is outdated")


class _PendingCursor:
    """A cursor whose rows may not have arrived yet."""

    def __init__(self, cursor: psycopg.Cursor[Any], arrive: Callable[[], None]) -> None:
        self._cursor = cursor
        self._sync = arrive

    @property
    def rowcount(self) -> int:
        self._sync()
        return self._cursor.rowcount

    def fetchall(self) -> list[Any]:
        self._sync()
        return self._cursor.fetchall()

    def fetchmany(self, size: int, /) -> list[Any]:
        self._sync()
        return self._cursor.fetchmany(size)


def _as_array(found: re.Match[str]) -> str:
    return f"{'<> ALL' if found[1] else '= ANY'}(%({found[2]})s)"


def _bind(kind: Any, dialect: sa.Dialect, *, is_list: bool) -> Callable[[Any], Any] | None:
    bind: Callable[[Any], Any] | None = kind.dialect_impl(dialect).bind_processor(dialect)
    if not is_list:
        return bind
    return lambda values: list(map(bind, values)) if bind else list(values)
