# mypy: disable-error-code="no-untyped-call"
# SQLAlchemy does not type its dialects.
"""T-SQL for the statements that every store shares.

It adds what SQLAlchemy's dialect lacks: locks as table hints, deletes in batches, and a type for
every parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.dialects.mssql.base import (
    MSDDLCompiler,
    MSExecutionContext,
    MSIdentifierPreparer,
    MSSQLCompiler,
    MSTypeCompiler,
)
from sqlalchemy.dialects.mssql.mssqlpython import MSDialect_mssqlpython
from sqlalchemy.engine import BindTyping
from sqlalchemy.engine.cursor import _DEFAULT_FETCH, FullyBufferedCursorFetchStrategy
from sqlalchemy.sql.visitors import iterate

from . import binding, errors

BATCH = 2_000
"""Rows of one DELETE, below the 5,000 locks at which SQL Server locks the table."""
_MODERN = (13, 0, 0, 0)
_EXACT = "Latin1_General_BIN2"
"""Compares by character, whatever the database's collation."""

_NOT_CLUSTERED = frozenset(
    {
        # Cluster turns by episode and ordinal, the order in which they are read.
        "octopus_turns",
        "octopus_turns_archive",
        # A name of 256 characters beyond the basic plane exceeds the 900 bytes of a clustered key.
        "octopus_agents",
        "octopus_conversations",
        "octopus_idempotency",
        "octopus_message_keys",
    }
)
"""Tables that are not clustered by their primary key."""
_CLUSTERED = frozenset(
    {"octopus_turns_place", "octopus_turns_archive_place", "octopus_idempotency_age"}
)


class _Identifiers(MSIdentifierPreparer):
    # Names that some server reserves.
    reserved_words = MSIdentifierPreparer.reserved_words | {
        *("action", "at", "count", "first", "hash", "name", "number"),
        *("order", "owner", "role", "row", "value", "version"),
    }


class _Statements(MSSQLCompiler):
    def visit_select(self, select_stmt: Any, *args: Any, **named: Any) -> str:
        text: str = super().visit_select(_with_locks(select_stmt), *args, **named)
        return text

    def visit_is__binary(self, binary: Any, _operator: Any, **named: Any) -> str:
        return self._compare(binary, "IS", "=", named)

    def visit_is_not_binary(self, binary: Any, _operator: Any, **named: Any) -> str:
        return self._compare(binary, "IS NOT", "!=", named)

    def _compare(self, binary: Any, with_null: str, with_bit: str, named: dict[str, Any]) -> str:
        """Render `IS` only with NULL; compare a truth value with a number."""
        word = with_bit if isinstance(binary.right, sa.True_ | sa.False_) else with_null
        left, right = self.process(binary.left, **named), self.process(binary.right, **named)
        return f"{left} {word} {right}"

    def visit_delete(self, delete_stmt: Any, *args: Any, **named: Any) -> str:
        text: str = super().visit_delete(delete_stmt, *args, **named)
        if delete_stmt._returning:  # noqa: SLF001 - there is no public way to ask
            return text
        return text.replace("DELETE FROM", f"DELETE TOP ({BATCH}) FROM", 1)


def _with_locks(select: Any) -> Any:
    """FOR UPDATE and FOR SHARE as equivalent table hints."""
    lock = select._for_update_arg  # noqa: SLF001 - there is no public way to ask
    if lock is None:
        return select
    if lock.skip_locked:
        # Under READ_COMMITTED_SNAPSHOT, READPAST needs READCOMMITTEDLOCK.
        hint = "WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)"
    elif lock.read:
        hint = "WITH (HOLDLOCK, ROWLOCK)"
    else:
        hint = "WITH (UPDLOCK, HOLDLOCK, ROWLOCK)"
    for table in _locked_tables(select, lock.of):
        select = select.with_hint(table, hint, "mssql")
    return select


def _locked_tables(select: Any, of: Sequence[Any] | None) -> list[sa.Table]:
    within = of or select.get_final_froms()
    found = [part for one in within for part in iterate(one) if isinstance(part, sa.Table)]
    return list(dict.fromkeys(found))


class _Types(MSTypeCompiler):
    def visit_string(self, type_: Any, **_named: Any) -> str:
        return f"NVARCHAR({type_.length or 'max'}) COLLATE {_EXACT}"

    def visit_text(self, type_: Any, **_named: Any) -> str:  # noqa: ARG002 - SQLAlchemy's
        return "NVARCHAR(max)"


class _Tables(MSDDLCompiler):
    def visit_primary_key_constraint(self, constraint: Any, **named: Any) -> str:
        text: str = super().visit_primary_key_constraint(constraint, **named)
        if constraint.table.name not in _NOT_CLUSTERED:
            return text
        return text.replace("PRIMARY KEY ", "PRIMARY KEY NONCLUSTERED ", 1)

    def visit_unique_constraint(self, constraint: Any, **named: Any) -> str:
        text: str = super().visit_unique_constraint(constraint, **named)
        return text.replace("UNIQUE ", "UNIQUE CLUSTERED ", 1) if _first(constraint) else text

    def visit_create_index(self, create: Any, *args: Any, **named: Any) -> str:
        text: str = super().visit_create_index(create, *args, **named)
        return text.replace("INDEX ", "CLUSTERED INDEX ", 1) if _first(create.element) else text


def _first(index: Any) -> bool:
    return index.name in _CLUSTERED


class _Execution(MSExecutionContext):
    deleted: int | None = None
    kinds: Sequence[binding.Declared | None] | None = None

    def post_exec(self) -> None:
        super().post_exec()
        if self.deleted is not None:
            self._rowcount = self.deleted
        if self.cursor.description and not self.execution_options.get("yield_per"):
            self._read_at_once()

    def _read_at_once(self) -> None:
        """Buffer every result, because unread rows block the next statement."""
        if self.cursor_fetch_strategy is _DEFAULT_FETCH:
            self.cursor_fetch_strategy = FullyBufferedCursorFetchStrategy(
                self.cursor, self.cursor.description, self.cursor.fetchall()
            )


class SqlServerDialect(MSDialect_mssqlpython):
    """`mssql+octopus`: Microsoft's own driver, and plain T-SQL."""

    driver = "octopus"
    supports_statement_cache = True
    statement_compiler = _Statements
    type_compiler_cls = _Types
    ddl_compiler = _Tables
    preparer = _Identifiers  # type: ignore[assignment]
    execution_ctx_cls = _Execution
    bind_typing = BindTyping.SETINPUTSIZES

    def __init__(self, **named: Any) -> None:
        # Positional, because the driver converts named parameters in quadratic time.
        super().__init__(deprecate_large_types=True, paramstyle="qmark", **named)
        self._supports_offset_fetch = True
        self._known_kinds: WeakKeyDictionary[Any, binding.Declared | None] = WeakKeyDictionary()

    def _get_server_version_info(self, connection: sa.Connection) -> tuple[int, ...]:
        # Servers that only speak the protocol report another name.
        return super()._get_server_version_info(connection) or _MODERN

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:  # noqa: ARG002 - SQLAlchemy's
        # Skip the query, because not every server has the view, and every engine sets its own
        # level.
        return "READ COMMITTED"

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        lost: bool = super().is_disconnect(e, connection, cursor)
        return lost or (isinstance(e, self.loaded_dbapi.Error) and errors.ended(str(e)))

    def do_close(self, dbapi_connection: Any) -> None:
        # The driver raises on `close` after the server is gone, and the pool would log each error.
        with suppress(self.loaded_dbapi.Error):
            super().do_close(dbapi_connection)

    def do_set_input_sizes(
        self, cursor: Any, list_of_tuples: Sequence[tuple[str, Any, Any]], context: Any
    ) -> None:
        """Record the parameter types; `do_execute` has the values."""
        del cursor
        context.kinds = [self._declared(kind) for _name, _dbapi, kind in list_of_tuples]

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        run = self._bound(cursor, statement, parameters, getattr(context, "kinds", None))
        run()
        if context is None or not context.isdelete or f"TOP ({BATCH})" not in statement:
            return
        count = context.deleted = cursor.rowcount
        while count == BATCH:
            run()
            count = cursor.rowcount
            context.deleted += count

    def do_executemany(
        self, cursor: Any, statement: str, parameters: Any, context: Any = None
    ) -> None:
        # Execute one by one on one prepared statement, because `executemany` types a column by one
        # of its values.
        for given in parameters:
            self.do_execute(cursor, statement, given, context)

    def _bound(
        self,
        cursor: Any,
        statement: str,
        parameters: Sequence[Any],
        kinds: Sequence[binding.Declared | None] | None,
    ) -> Callable[[], None]:
        """Execute with types, which the driver forgets after each execution."""
        if not parameters:
            return lambda: cursor.execute(statement)
        known = [None] * len(parameters) if kinds is None else kinds
        bound = [binding.bind(*one) for one in zip(known, parameters, strict=True)]
        types, values = [list(some) for some in zip(*bound, strict=True)]

        def run() -> None:
            cursor.setinputsizes(types)
            cursor.execute(statement, values)

        return run

    def _declared(self, kind: Any) -> binding.Declared | None:
        """The driver's type of a column; None if only the value tells."""
        if kind._isnull:  # noqa: SLF001 - there is no public way to ask
            return None
        if kind not in self._known_kinds:
            words = self.type_compiler_instance.process(kind)
            self._known_kinds[kind] = binding.declared(words)
        return self._known_kinds[kind]
