"""Distribution of a database over the nodes of Citus: `octopus database distribute`.

Each step is one transaction that finds out what is done already, so that a run that was killed
continues with the next. Until the last one a row of `octopus_meta` keeps every store from opening
the database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa

from ....domain.errors import InvalidInput, StoreBusy, StoreCorrupt, StoreError, StoreUnavailable
from ..sql import schema, views
from . import security
from .buckets import COLUMN, OF_SCOPE, placed_tables
from .nodes import NODES

SHARDS = 32
MARK = "distributing"
"""The meta row of a database whose distribution is not finished."""
_OLDEST = (12, 1)
_MOST_SHARDS = 1_024
ON_COORDINATOR = frozenset(
    f"octopus_{name}" for name in ("agents", "audit", "erasures", "jobs", "keys", "meta", "schema")
)
"""Tables that stay on the coordinator: small and never joined, or a chain that one transaction at a
time extends. A write to a table on every node would fail with each node that is down."""
VECTORS = "octopus_vectors"
"""pgvector's table, which has a row for each of `octopus_recall` with a vector."""
_ANCHOR = "octopus_scopes"
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Result of distributing a database."""

    nodes: tuple[str, ...]
    shards: int
    rows: Mapping[str, int]
    """The rows of each table, the same before and after."""
    steps: tuple[str, ...]
    """What this run did; an earlier one did the rest."""


def reference_tables() -> list[str]:
    """The tables that every node has whole, because statements join them with users' rows."""
    own = placed_tables().keys() | ON_COORDINATOR
    return sorted(name for name in schema.metadata.tables if name not in own)


def add_bucket(table: sa.Table, scopes: str = _ANCHOR) -> Iterator[str]:
    """The statements that give every row of a table its bucket, and every key the column.

    `scopes` is a table on the coordinator with the bucket of each scope.
    """
    name = table.name
    yield f"ALTER TABLE {name} ADD COLUMN {COLUMN} smallint"
    yield from _fill(name, scopes)
    yield f"ALTER TABLE {name} ALTER COLUMN {COLUMN} SET NOT NULL"
    yield f"ALTER TABLE {name} DROP CONSTRAINT {name}_pkey"
    yield f"ALTER TABLE {name} ADD PRIMARY KEY ({_with_bucket(table.primary_key)})"
    for each in table.constraints:
        if isinstance(each, sa.UniqueConstraint):
            yield f"ALTER TABLE {name} DROP CONSTRAINT {each.name}"
            yield f"ALTER TABLE {name} ADD CONSTRAINT {each.name} UNIQUE ({_with_bucket(each)})"


def _fill(name: str, scopes: str) -> Iterator[str]:
    if name == _ANCHOR:
        yield f"UPDATE {name} SET {COLUMN} = {OF_SCOPE}"  # noqa: S608 - built from constants
        return
    yield (
        f"UPDATE {name} AS t SET {COLUMN} = s.{COLUMN} FROM {scopes} AS s "  # noqa: S608
        "WHERE s.id = t.scope_id"
    )
    # A removal for the mirror may be of a scope that is gone: any bucket will do.
    yield f"UPDATE {name} SET {COLUMN} = 0 WHERE {COLUMN} IS NULL"  # noqa: S608


def _with_bucket(key: sa.PrimaryKeyConstraint | sa.UniqueConstraint) -> str:
    return ", ".join([*(f'"{column.name}"' for column in key.columns), COLUMN])


# pgvector's table is no part of the schema, and a foreign key holds it to the key of its rows.
_REFERS = f"{VECTORS}_scope_id_seq_fkey"
RELEASE_VECTORS = f"ALTER TABLE IF EXISTS {VECTORS} DROP CONSTRAINT IF EXISTS {_REFERS}"
_VECTORS_KEY = sa.Table(
    VECTORS,
    sa.MetaData(),
    sa.Column("scope_id", sa.BigInteger, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True),
)
HOLD_VECTORS = (
    f"ALTER TABLE {VECTORS} ADD CONSTRAINT {_REFERS} FOREIGN KEY (scope_id, seq, {COLUMN}) "
    f"REFERENCES octopus_recall (scope_id, seq, {COLUMN}) ON DELETE CASCADE"
)


def spread(table: str, shards: int) -> Iterator[str]:
    """The statements that move a table with its rows to the nodes."""
    yield f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY"
    if table == _ANCHOR:
        yield (
            f"SELECT create_distributed_table('{table}', '{COLUMN}', shard_count := {shards:d}, "
            "colocate_with := 'none')"
        )
    elif table in placed_tables() or table == VECTORS:
        beside = f"colocate_with := '{_ANCHOR}'"
        yield f"SELECT create_distributed_table('{table}', '{COLUMN}', {beside})"
    else:
        yield f"SELECT create_reference_table('{table}')"
    yield f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY"


def _names_to_spread(conn: sa.Connection) -> list[str]:
    """The tables that belong on the nodes and are not there, the first of them first."""
    names = [_ANCHOR, *sorted(placed_tables().keys() - {_ANCHOR}), *reference_tables(), VECTORS]
    known = conn.execute(_KNOWN, {"names": names}).scalars().all()
    return [name for name in names if name in known]


def _buckets_to_add(conn: sa.Connection, name: str, scopes: str = _ANCHOR) -> list[str]:
    """The statements that give a table its bucket; none where it has one, or needs none."""
    if (name not in placed_tables() and name != VECTORS) or _has_bucket(conn, name):
        return []
    first = [RELEASE_VECTORS] if name == "octopus_recall" else []
    table = _VECTORS_KEY if name == VECTORS else placed_tables()[name]
    return [*first, *add_bucket(table, scopes)]


def _move(conn: sa.Connection, name: str, shards: int) -> None:
    security.replace_policy(conn, name)
    for statement in spread(name, shards):
        conn.exec_driver_sql(statement)
    if name == VECTORS:
        conn.exec_driver_sql(HOLD_VECTORS)


def place_new(conn: sa.Connection) -> None:
    """Place the tables that a migration or an index has made on a distributed database."""
    if names := _names_to_spread(conn):
        # Citus cannot fill a table on the coordinator from one on the nodes.
        conn.exec_driver_sql(_COPY_BUCKETS)
    for name in names:
        for statement in _buckets_to_add(conn, name, _COPIED):
            conn.exec_driver_sql(statement)
        _move(conn, name, SHARDS)
    if not _has_view(conn):
        views.drop(conn)
        views.create(conn, VIEW_JOINED)


def _has_view(conn: sa.Connection) -> bool:
    """True if the view joins by the bucket, as Citus demands."""
    return COLUMN in (conn.execute(_VIEWED, {"view": views.NAME}).scalar() or "")


class Distributor:
    """Takes the steps on a database that no store has open, as the owner of its tables."""

    def __init__(self, engine: sa.Engine, shards: int = SHARDS, tell: Tell | None = None) -> None:
        """`engine` commits each statement by itself; `tell` is called with each step.

        :raises InvalidInput: for a number of shards that is not from 1 to 1024
        """
        if not 1 <= shards <= _MOST_SHARDS:
            raise InvalidInput("shards", f"must be from 1 to {_MOST_SHARDS}")
        self._engine = engine
        self._shards = shards
        self._tell = tell
        self._steps: list[str] = []

    def run(self) -> Distribution:
        """
        :raises StoreUnavailable: where Citus, a node, a setting or a right is missing
        :raises StoreBusy: while anything else is connected to the database
        :raises StoreCorrupt: where a table lacks a key
        :raises StoreError: when the rows differ in the end
        """
        with self._engine.connect() as conn:
            nodes = check_nodes(conn)
            _check_owner(conn)
            _check_alone(conn)
            check_keys(conn)
            before = self._mark(conn)
            self._add_buckets(conn)
            self._spread(conn)
            self._remove_leftovers(conn)
            rows = self._count(conn)
            if rows != before:
                raise StoreError("the database has other rows than before: restore the backup")
            conn.execute(sa.delete(schema.meta).where(schema.meta.c.name == MARK))
        return Distribution(
            nodes=tuple(nodes), shards=self._shards, rows=rows, steps=tuple(self._steps)
        )

    def _mark(self, conn: sa.Connection) -> dict[str, int]:
        """The rows of each table before the first step, which the mark records."""
        kept = conn.execute(_BEGUN).scalar()
        if kept is not None:
            begun = json.loads(bytes(kept))
            self._shards = begun["shards"]
            rows: dict[str, int] = begun["rows"]
            return rows
        rows = self._count(conn)
        value = json.dumps({"shards": self._shards, "rows": rows}).encode()
        conn.execute(sa.insert(schema.meta).values(name=MARK, value=value))
        database = conn.engine.dialect.identifier_preparer.quote(
            conn.exec_driver_sql("SELECT current_database()").scalar_one()
        )
        conn.exec_driver_sql(
            f"ALTER DATABASE {database} SET citus.propagate_set_commands TO 'local'"
        )
        return rows

    def _add_buckets(self, conn: sa.Connection) -> None:
        for name in _names_to_spread(conn):
            if statements := _buckets_to_add(conn, name):
                self._do(conn, f"gave {name} a bucket", statements)

    def _spread(self, conn: sa.Connection) -> None:
        for name in _names_to_spread(conn):
            with self._step(conn, f"moved {name} to the nodes"):
                # The view is of several tables, and comes back with the last.
                views.drop(conn)
                _move(conn, name, self._shards)
        if not _has_view(conn):
            with self._step(conn, f"made {views.NAME} again"):
                views.drop(conn)
                views.create(conn, VIEW_JOINED)

    def _remove_leftovers(self, conn: sa.Connection) -> None:
        """Remove the rows that stay hidden in the coordinator's own copy of a table."""
        vectors = [VECTORS] if _exists(conn, VECTORS) else []
        for name in sorted([*placed_tables(), *reference_tables(), *vectors]):
            size = f"SELECT pg_relation_size('{name}')"
            if conn.exec_driver_sql(size).scalar():
                clean = f"SELECT truncate_local_data_after_distributing_table('{name}')"
                self._do(conn, f"removed the coordinator's copy of {name}", [clean])

    def _count(self, conn: sa.Connection) -> dict[str, int]:
        names = [*schema.metadata.tables, *([VECTORS] if _exists(conn, VECTORS) else ())]
        found = {}
        with _transaction(conn):
            for name in sorted({*names} - {"octopus_meta"}):
                count = f"SELECT count(*) FROM {name}"  # noqa: S608 - a name of the schema
                found[name] = int(conn.exec_driver_sql(count).scalar_one())
        return found

    def _do(self, conn: sa.Connection, step: str, statements: Iterable[str]) -> None:
        with self._step(conn, step):
            for statement in statements:
                conn.exec_driver_sql(statement)

    @contextmanager
    def _step(self, conn: sa.Connection, step: str) -> Iterator[None]:
        with _transaction(conn):
            yield
        self._steps.append(step)
        if self._tell is not None:
            self._tell(step)


_KNOWN = sa.text("""
    SELECT name FROM unnest(CAST(:names AS text[])) AS name
    WHERE to_regclass(name) IS NOT NULL
        AND NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass(name))
""")
_COPIED = "octopus_buckets"
_COPY_BUCKETS = f"""
    CREATE TEMPORARY TABLE {_COPIED} ON COMMIT DROP AS SELECT id, {COLUMN} FROM {_ANCHOR}
"""  # noqa: S608 - built from constants
_VIEWED = sa.text("SELECT pg_get_viewdef(to_regclass(:view))")
VIEW_JOINED = f" AND s.{COLUMN} = e.{COLUMN}"
_BEGUN = sa.select(schema.meta.c.value).where(schema.meta.c.name == MARK)


def is_begun(conn: sa.Connection) -> bool:
    """True if a distribution of this database was begun, and is not finished."""
    return _exists(conn, schema.meta.name) and conn.execute(_BEGUN).first() is not None


@contextmanager
def _transaction(conn: sa.Connection) -> Iterator[None]:
    """A transaction that sees every tenant's rows, and changes tables on all nodes."""
    conn.exec_driver_sql("BEGIN")
    try:
        conn.exec_driver_sql("SET LOCAL statement_timeout TO 0")
        conn.exec_driver_sql("SET LOCAL citus.propagate_set_commands TO 'local'")
        conn.exec_driver_sql("SET LOCAL citus.multi_shard_modify_mode TO 'sequential'")
        conn.exec_driver_sql(f"SET LOCAL octopus.reach TO '{security.EVERYTHING}'")
        yield
    except BaseException:
        conn.exec_driver_sql("ROLLBACK")
        raise
    conn.exec_driver_sql("COMMIT")


def check_nodes(conn: sa.Connection) -> list[str]:
    """The nodes that hold rows, as `host:port`.

    :raises StoreUnavailable: where Citus is missing, too old or without nodes
    """
    version = conn.exec_driver_sql(
        "SELECT extversion FROM pg_extension WHERE extname = 'citus'"
    ).scalar()
    if version is None:
        raise StoreUnavailable(
            "the database has no Citus: run CREATE EXTENSION citus on every node as a superuser"
        )
    if tuple(map(int, version.partition("-")[0].split("."))) < _OLDEST:
        raise StoreUnavailable(f"Citus {version} is too old: install 12.1 or newer")
    found = conn.exec_driver_sql(NODES).all()
    if not any(row.groupid == 0 for row in found):
        raise StoreUnavailable(
            "the coordinator is not known to its nodes: run SELECT citus_set_coordinator_host('…') "
            "on it as a superuser"
        )
    nodes = [row.name for row in found if row.shouldhaveshards]
    if not nodes:
        raise StoreUnavailable(
            "Citus has no node for rows: run SELECT citus_add_node('…', 5432) on the coordinator "
            "as a superuser"
        )
    if silent := [row.name for row in found if not row.isactive]:
        raise StoreUnavailable(f"these nodes are not active: {', '.join(silent)}")
    return nodes


def _check_owner(conn: sa.Connection) -> None:
    if not conn.exec_driver_sql(_OWNS).scalar():
        raise StoreUnavailable("only the owner of the database and of its tables can distribute it")


def _check_alone(conn: sa.Connection) -> None:
    others = conn.exec_driver_sql(_OTHERS).scalar_one()
    if others:
        raise StoreBusy(
            f"the database has {others} other connections: stop every service and worker first"
        )


def check_keys(conn: sa.Connection) -> None:
    """:raises StoreCorrupt: where a table lacks a key that the distribution changes"""
    wanted = {
        f"{table.name}_pkey" if isinstance(key, sa.PrimaryKeyConstraint) else str(key.name)
        for table in placed_tables().values()
        for key in table.constraints
        if isinstance(key, sa.PrimaryKeyConstraint | sa.UniqueConstraint)
    }
    found = conn.execute(_KEYS, {"names": list(placed_tables())}).scalars()
    if missing := sorted(wanted.difference(found)):
        raise StoreCorrupt(
            f"the tables lack these keys: {', '.join(missing)}. They were changed by hand: restore "
            "the database from a backup"
        )


_KEYS = sa.text("""
    SELECT k.conname FROM pg_constraint AS k, unnest(CAST(:names AS text[])) AS name
    WHERE k.conrelid = to_regclass(name) AND k.contype IN ('p', 'u')
""")
_OWNS = """
    SELECT pg_has_role(c.relowner, 'USAGE') AND pg_has_role(d.datdba, 'USAGE')
    FROM pg_class c, pg_database d
    WHERE c.oid = to_regclass('octopus_scopes') AND d.datname = current_database()
"""
_OTHERS = """
    SELECT count(*) FROM pg_stat_activity AS a JOIN pg_roles AS r ON r.oid = a.usesysid
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
        -- Of another role's connection it is not said what it does; Citus has one of a superuser.
        AND (a.backend_type = 'client backend' OR (a.backend_type IS NULL AND NOT r.rolsuper))
        AND NOT starts_with(coalesce(a.application_name, ''), 'citus')
"""


def _exists(conn: sa.Connection, name: str) -> bool:
    return bool(conn.exec_driver_sql(f"SELECT to_regclass('{name}') IS NOT NULL").scalar())


def _has_bucket(conn: sa.Connection, table: str) -> bool:
    found = sa.text(
        "SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass(:table) "
        "AND attname = :name AND NOT attisdropped)"
    )
    return bool(conn.execute(found, {"table": table, "name": COLUMN}).scalar())
