"""Names the bucket in every statement, on a database that is distributed by it.

A bucket is a number made of a tenant and a user. Every table with rows of a scope has it as a
column on a distributed database, where it chooses the node: a user's rows are together, and users
spread over all nodes. The tables of `schema` know no bucket, because a single database has none.
The compilers add it: a statement of a call about one user names the user's bucket for every table,
and one across users joins tables by it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg

from ..sql import schema
from ..sql.lazy import Statement
from ..sql.results import DriverResult, Reader
from ..sql.statement_cache import Keys
from ..sql.transactions import Person, Reach
from .driver import WRITING, Driver, DriverConnection, Prepared, Statements

COLUMN = "bucket"
BUCKETS = 1 << 15
OF_SCOPE = (
    "(get_byte(sha256(convert_to(tenant || chr(31) || \"user\", 'UTF8')), 0) & 127) * 256 "
    "+ get_byte(sha256(convert_to(tenant || chr(31) || \"user\", 'UTF8')), 1)"
)
"""The bucket of a row of `octopus_scopes`, in SQL."""
_GIVEN = "bucket_"
_READING = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
"""For reads that need no snapshot, because SET LOCAL needs a transaction."""
_OF_ONE_SCOPE = re.compile(r"(\b\w+\.|)\bscope_id = :scope\b")
_SOME = 1_000
"""Rows that are copied from one table to another at a time."""


def bucket_of(person: Person, dialect: sa.Dialect) -> int:
    """The bucket of a user, the same in every process and release."""
    tenant, user = (schema.scopes.c[name].type.bind_processor(dialect) for name in Person._fields)
    stored = f"{_stored(tenant, person.tenant)}\x1f{_stored(user, person.user)}"
    return int.from_bytes(sha256(stored.encode()).digest()[:2]) % BUCKETS


def _stored(bind: Callable[[str], Any] | None, name: str) -> str:
    return name if bind is None else str(bind(name))


@cache
def placed_tables() -> dict[str, sa.Table]:
    """The tables that have a bucket, as they are on a distributed database, by name."""
    found: dict[str, sa.Table] = {}
    for table in schema.metadata.tables.values():
        if "scope_id" in table.c or table is schema.scopes:
            placed = table.to_metadata(sa.MetaData())
            placed.append_column(sa.Column(COLUMN, sa.SmallInteger, nullable=False))
            found[table.name] = placed
    return found


def _is_placed(part: Any) -> bool:
    named = part.element if isinstance(part, sa.Alias) else part
    return isinstance(named, sa.Table) and named.name in placed_tables()


def _bucket(part: Any) -> sa.ColumnElement[int]:
    return sa.column(COLUMN, sa.SmallInteger(), _selectable=part)


def _placed(part: Any, *, outer: bool = False) -> Iterator[Any]:
    """The tables of a FROM that have a bucket; not those that an outer join may leave empty."""
    if isinstance(part, sa.Join):
        yield from _placed(part.left, outer=outer)
        if outer or not part.isouter:
            yield from _placed(part.right, outer=outer)
    elif _is_placed(part):
        yield part


class _Compiler(PGCompiler_psycopg):
    """Adds conditions on buckets to SELECT, UPDATE and DELETE."""

    def visit_select(self, select_stmt: Any, *args: Any, **named: Any) -> Any:
        found = [each for part in select_stmt.get_final_froms() for each in _placed(part)]
        select_stmt = select_stmt.where(*self._same(found))
        return super().visit_select(select_stmt, *args, **named)  # type: ignore[no-untyped-call]

    def visit_join(self, join: Any, *args: Any, **named: Any) -> Any:
        if join.isouter:
            left, right = (list(_placed(side, outer=True)) for side in (join.left, join.right))
            on = sa.and_(join.onclause, *self._same([*left[:1], *right]))
            join = sa.Join(join.left, join.right, on, isouter=True, full=join.full)
        return super().visit_join(join, *args, **named)  # type: ignore[no-untyped-call]

    def visit_update(self, update_stmt: Any, *args: Any, **named: Any) -> Any:
        update_stmt = update_stmt.where(*self._same([*_placed(update_stmt.table)]))
        return super().visit_update(update_stmt, *args, **named)

    def visit_delete(self, delete_stmt: Any, *args: Any, **named: Any) -> Any:
        delete_stmt = delete_stmt.where(*self._same([*_placed(delete_stmt.table)]))
        return super().visit_delete(delete_stmt, *args, **named)  # type: ignore[no-untyped-call]

    def _same(self, tables: Sequence[Any]) -> list[sa.ColumnElement[bool]]:
        """The conditions that hold these tables to one bucket."""
        raise NotImplementedError


class _InOneBucket(_Compiler):
    def _same(self, tables: Sequence[Any]) -> list[sa.ColumnElement[bool]]:
        given = sa.bindparam(_GIVEN, type_=sa.SmallInteger)
        return [_bucket(table) == given for table in tables]

    def visit_textclause(self, textclause: Any, *args: Any, **named: Any) -> Any:
        said = _OF_ONE_SCOPE.sub(rf"\g<0> AND \g<1>{COLUMN} = :{_GIVEN}", textclause.text)
        return super().visit_textclause(sa.text(said), *args, **named)  # type: ignore[no-untyped-call]


class _AcrossBuckets(_Compiler):
    def _same(self, tables: Sequence[Any]) -> list[sa.ColumnElement[bool]]:
        return [_bucket(tables[0]) == _bucket(table) for table in tables[1:]]


class PlacedStatements(Statements):
    """The compiled statements of a distributed database, for one bucket or across all."""

    def __init__(self, dialect: sa.Dialect, compiler: type[_Compiler]) -> None:
        dialect = copy.copy(dialect)
        dialect.statement_compiler = compiler
        super().__init__(dialect)

    def _prepare(self, statement: Any, keys: Keys) -> tuple[Prepared, Any]:
        if isinstance(statement, sa.Insert) and _is_placed(statement.table):
            placed = statement._generate()  # noqa: SLF001 - a copy, on the table with a bucket
            placed.table = placed_tables()[statement.table.name]
            statement = placed
        return super()._prepare(statement, keys)


class PlacedConnection(DriverConnection):
    """Executes statements on a distributed database, in one bucket or across all."""

    is_placed = True

    def __init__(self, *args: Any, bucket: int | None, **named: Any) -> None:
        """`bucket` is None for a transaction across buckets."""
        super().__init__(*args, **named)
        self.bucket = bucket

    def _send_settings(self) -> None:
        # Only SET LOCAL reaches the other nodes, and it takes no parameters.
        patience, reach, durable = self._settings
        settings = {"statement_timeout": patience, "octopus.reach": reach}
        if self._begin == WRITING:
            settings["synchronous_commit"] = durable
        for name, value in settings.items():
            quoted = value.replace("'", "''")
            self._raw.execute(f"SET LOCAL {name} TO '{quoted}'", prepare=False)

    def execute(self, statement: Statement[Any] | sa.Executable, given: Any = None) -> DriverResult:
        made = statement() if isinstance(statement, Statement) else statement
        if not isinstance(made, sa.Insert) or not _is_placed(made.table):
            return super().execute(statement, self._with(given, _GIVEN))
        if made.select is not None:
            return self._copy(made, given)
        rows = given if isinstance(given, list) else [given or {}]
        if self.bucket is None and COLUMN not in rows[0]:
            rows = self._placed_rows(made.table, rows)
        return super().execute(statement, self._with(rows, COLUMN))

    def _with(self, given: Any, name: str) -> Any:
        if self.bucket is None:
            return given
        if isinstance(given, list):
            return [{**row, name: self.bucket} for row in given]
        return {**(given or {}), name: self.bucket}

    def _copy(self, insert: sa.Insert, given: Any) -> DriverResult:
        """Insert what a SELECT finds.

        Not in one statement, because the server would use COPY for a table that numbers its rows,
        and row-level security forbids COPY.
        """
        found: Any = insert.select
        names = list(insert._select_names or ())  # noqa: SLF001 - no public name for it
        if self.bucket is None:
            [first, *_] = (each for part in found.get_final_froms() for each in _placed(part))
            found, names = found.add_columns(_bucket(first)), [*names, COLUMN]
        rows = [dict(zip(names, row, strict=True)) for row in self.execute(found, given).fetchall()]
        for start in range(0, len(rows), _SOME):
            self.execute(sa.insert(insert.table), rows[start : start + _SOME])
        return DriverResult(_Copied(len(rows)), Reader((), ()))

    def _placed_rows(self, table: Any, rows: Iterable[Mapping[str, Any]]) -> list[Any]:
        """Rows of many users, each with its bucket. One of a scope that is gone has any."""
        if table is schema.scopes:
            find = partial(bucket_of, dialect=self._statements.dialect)
            return [{**row, COLUMN: find(Person(row["tenant"], row["user"]))} for row in rows]
        ids = sorted({row["scope_id"] for row in rows})
        own = sa.select(schema.scopes.c.id, _bucket(schema.scopes))
        found = self.execute(own.where(schema.scopes.c.id.in_(ids)))
        known: dict[int, int] = dict(found.fetchall())
        return [{**row, COLUMN: known.get(row["scope_id"], 0)} for row in rows]


class _Copied:
    """Stands for the cursor of rows that were copied, of which only the number is known."""

    def __init__(self, rowcount: int) -> None:
        self.rowcount = rowcount

    def fetchall(self) -> list[Any]:
        return []

    def fetchmany(self, size: int, /) -> list[Any]:  # noqa: ARG002 - there are none
        return []


class Placing:
    """Opens the connections of a distributed database."""

    def __init__(self, dialect: sa.Dialect, synchronous_commit: str, *, has_nodes: bool) -> None:
        """`synchronous_commit` is the server's setting; without nodes it is one server's tables
        that have buckets.
        """
        self.has_nodes = has_nodes
        self._dialect = dialect
        self._durable = synchronous_commit.replace("off", "on")
        self.in_one = PlacedStatements(dialect, _InOneBucket)
        self.across = PlacedStatements(dialect, _AcrossBuckets)

    def connection(
        self, driver: Driver, reach: Reach, begin: str | None, settings: tuple[str, str]
    ) -> AbstractContextManager[DriverConnection]:
        bucket = bucket_of(reach, self._dialect) if isinstance(reach, Person) else None
        return driver.connection(
            PlacedConnection,
            self.across if bucket is None else self.in_one,
            begin=begin or _READING,
            settings=(*settings, self._durable),
            bucket=bucket,
        )
