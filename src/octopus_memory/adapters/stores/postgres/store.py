"""PostgreSQL: a server for many processes, with row-level security on every table."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from ....domain.errors import (
    EpisodeNotFound,
    InvalidSetting,
    MissingExtra,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from ....ports.models import Clock
from ....ports.privacy import Lead
from ..sql import migrate, statements
from ..sql.binding import of_scope, of_user
from ..sql.lazy import Connection, needs_snapshot
from ..sql.store import JobLead, SqlStore, reach_of
from ..sql.transactions import Every, KeptPerson, Person, Reach
from . import compaction, distribute, errors, nodes, security
from .buckets import Placing
from .driver import DURABLE, SNAPSHOT, WRITING, Driver, DriverConnection

if TYPE_CHECKING:
    from ....domain.audit import AuditDraft
    from ....domain.retention import Hold
    from ..sql.key_ring import KeyRing

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)
_OLDEST = 15
_CHECKED = 20
"""Users whose rows are looked for on a database that was distributed."""
_READING = ("read-only", "standby")
"""Values of libpq's `target_session_attrs` with which a URL asks for a server that only reads."""
# Both sides notice a vanished peer within about a minute.
_KEEPALIVE: dict[str, Any] = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}


class PostgresStore(SqlStore):
    """`url` is `postgresql://role:password@host:port/database`, with libpq options after `?`.

    The role that opens a database first creates and owns its tables. Another role needs only the
    rights that the guide on PostgreSQL lists.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        statement_timeout_seconds: float = 30,
        connect_timeout_seconds: float = 10,
        clock: Clock | None = None,
        ring: KeyRing | None = None,
    ) -> None:
        self._url = _parsed(url)
        self._pool_size = pool_size
        self._patience = f"{statement_timeout_seconds * 1000:.0f}"
        options: dict[str, Any] = {
            "connect_args": {
                "autocommit": True,
                "client_encoding": "utf8",
                "connect_timeout": max(2, round(connect_timeout_seconds)),
                **_KEEPALIVE,
            },
            "hide_parameters": True,
        }
        # Connections outside the pool, for sessions that hold a lock.
        self._alone = self._engine_with(poolclass=sa.NullPool, **options)
        self._schema = self._alone.execution_options()
        sa.event.listen(self._schema, "begin", _begin_schema)
        engine = self._engine_with(
            pool_size=pool_size, max_overflow=0, pool_timeout=connect_timeout_seconds, **options
        )
        self._driver = Driver(engine)
        self._placing: Placing | None = None
        super().__init__(lambda: engine, clock=clock, ring=ring)

    def _engine_with(self, **options: Any) -> sa.Engine:
        try:
            engine = sa.create_engine(self._url, **options)
        except ImportError as error:
            raise MissingExtra("postgres", "a PostgreSQL store") from error
        sa.event.listen(engine, "connect", _prepare)
        return engine

    @property
    def _schema_engine(self) -> sa.Engine:
        return self._schema

    @property
    def _where(self) -> str:
        return f"PostgreSQL database {self._url.database!r} at {self._url.host or 'a local socket'}"

    @property
    def read_only(self) -> bool:
        """True by the URL alone, because a primary that is failing over must not stay read-only."""
        return self._url.query.get("target_session_attrs") in _READING

    def translate(self, error: sa.exc.DBAPIError) -> StoreError:
        return errors.translate(error, self._where)

    def lost_race(self, error: sa.exc.DBAPIError) -> bool:
        return errors.is_race(error)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with super()._translated():
                yield
        except sa.exc.TimeoutError as error:
            raise StoreBusy(
                f"{self._where}: all {self._pool_size} connections are in use; try again, or raise "
                "pool_size"
            ) from error
        except self._alone.dialect.loaded_dbapi.Error as error:
            # A new connection that broke before SQLAlchemy had it.
            raise StoreUnavailable(f"{self._where}: the connection was lost; try again") from error

    def _read_once(
        self,
        reach: Reach,
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        try:
            return super()._read_once(reach, do, *args, **named)
        except StoreError as error:
            # A stale connection shows only when it is used: retry once, on another.
            cause = error.__cause__
            if not (errors.is_lost(cause) or errors.is_outdated(getattr(cause, "orig", None))):
                raise
        return super()._read_once(reach, do, *args, **named)

    def _attempt_read(
        self,
        reach: Reach,
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        with self._connection(reach, SNAPSHOT if needs_snapshot(do) else None) as conn:
            return do(self._sealing()(conn), *args, **named)

    def _attempt_write(
        self,
        reach: Reach,
        do: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        with self._connection(reach, WRITING) as conn:
            return do(self._sealing()(conn), *args, **named)

    def _connection(
        self, reach: Reach, begin: str | None
    ) -> AbstractContextManager[DriverConnection]:
        reached = security.setting(reach, self._engine.dialect)
        settings = self._patience, reached
        if self._placing is not None:
            if self._ring is not None and type(reach) is Person:
                # The bucket is made of the name that the rows have.
                reach = KeptPerson(reach.tenant, self._ring.user_hash(*reach))
            return self._placing.connection(self._driver, reach, begin, settings)
        return self._driver.connection(
            DriverConnection, self._driver.statements, begin=begin, settings=settings
        )

    def _prepare_schema(self) -> None:
        with self._translated(), self._alone.connect() as conn:
            _check_server(conn)
            if self.read_only:
                migrate.ensure_current(self._schema, self._schema, read_only=True)
                self._placing = self._recognize(conn)
                return
            # Of two processes that open an empty database, one creates the tables.
            conn.exec_driver_sql("BEGIN")
            conn.exec_driver_sql(_DISABLE_TIMEOUTS)
            conn.execute(sa.select(sa.func.pg_advisory_xact_lock(_key("schema"))))
            migrate.ensure_current(self._schema, self._schema, read_only=False)
            self._placing = self._recognize(conn)
            with self._schema.begin() as owner:
                security.protect(owner, on_nodes=self._has_nodes)
                if self._has_nodes:
                    distribute.place_new(owner)

    def _recognize(self, conn: sa.Connection) -> Placing | None:
        """How the rows are placed on nodes; None for a single database."""
        found = conn.exec_driver_sql(_PLACED).one()
        if distribute.is_begun(conn):
            raise StoreUnavailable(
                f"{self._where}: its distribution is not finished. Run octopus database distribute "
                "again"
            )
        if not found.is_placed:
            return None
        if found.propagated != "local":
            raise StoreUnavailable(
                f"{self._where}: its nodes would not know whose rows a call may touch. Run ALTER "
                f"DATABASE {self._url.database} SET citus.propagate_set_commands TO 'local'"
            )
        return Placing(self._alone.dialect, found.synchronous_commit, has_nodes=found.has_nodes)

    def _check_keys(self, kept: Mapping[str, bytes]) -> None:
        meta = statements.meta
        if (
            self._placing is not None
            and self._ring is not None
            and meta.SEALED not in kept
            and (meta.KEYS in kept or self._read(Every.TENANT, meta.knows_users))
        ):
            raise InvalidSetting(
                "keys",
                "must be off, because a distributed database has users without keys: bring it back "
                "to one PostgreSQL with octopus migrate, seal it there with octopus encrypt, and "
                "distribute it again",
            )
        super()._check_keys(kept)

    def close(self) -> None:
        super().close()
        self._alone.dispose()

    @property
    def _has_nodes(self) -> bool:
        return self._placing is not None and self._placing.has_nodes

    def _parts(
        self, items: Sequence[T], person: Callable[[T], Person | None]
    ) -> Iterable[tuple[Reach, Sequence[T]]]:
        if self._placing is None:
            return super()._parts(items, person)
        # A transaction for each user, so that each runs on one node.
        by_person: dict[Person | None, list[T]] = {}
        for item in items:
            by_person.setdefault(person(item), []).append(item)
        return [(reach_of([who]), some) for who, some in by_person.items()]

    # The type of the items goes by the kind: see the port.
    def claim(
        self, kind: Any, *, worker_id: str, limit: int, now: datetime, until: datetime
    ) -> Any:
        lease: dict[str, Any] = {"worker_id": worker_id, "limit": limit, "now": now, "until": until}
        if self._placing is None:
            return super().claim(kind, **lease)
        return self._write(Every.TENANT, statements.work.claim_unlocked, kind, **lease)

    def place_hold(self, hold: Hold, *, entry: AuditDraft | None = None) -> None:
        reach = of_user(hold)
        if self._placing is not None and hold.episode_id is not None:
            # The user of the episode, because a lock is for one node.
            found = self.locate([hold.episode_id], tenant=hold.tenant).get(hold.episode_id)
            if found is None:
                raise EpisodeNotFound(hold.episode_id)
            reach = of_scope(found)
        self._write(reach, statements.holds.place, hold, entry=entry)

    def check_distributed(self) -> None:
        """Check that users are found on their nodes, and that new rows get new numbers.

        :raises StoreError: where not
        """
        for number, scope in self.scopes(limit=_CHECKED):
            state = self.recall_state(scope)
            if state is None or state.scope_id != number:
                raise StoreError(f"{self._where}: a user's rows are not found on their node")
        given = self.numbers_given()
        for name, highest in self._read(Every.TENANT, statements.move.highest_numbers).items():
            if highest > given[name]:
                raise StoreError(f"{self._where}: {name} would give a number twice")

    def why_not_held_by_security(self) -> str | None:
        """Return why row-level security does not apply to this store's role; None if it does."""
        with self._translated(), self._alone.connect() as conn:
            return security.why_not_held(conn)

    def size_bytes(self) -> int | None:
        with self._translated(), self._alone.connect() as conn:
            own = int(conn.exec_driver_sql(_SIZE).scalar_one())
            return own + nodes.size(conn) if self._has_nodes else own

    def nodes(self) -> dict[str, bool]:
        if not self._has_nodes:
            return {}
        with self._translated(), self._alone.connect() as conn:
            return nodes.answering(conn)

    def change_schema(self, do: Callable[..., T], *args: Any) -> T:
        def change(conn: sa.Connection) -> T:
            done = do(conn, *args)
            if self._has_nodes:
                distribute.place_new(conn)
            return done

        return super().change_schema(change)

    @contextmanager
    def lead(self, job: str, *, worker_id: str) -> Iterator[Lead | None]:
        with self._translated():
            conn = self._alone.connect()
        try:
            with self._translated():
                is_mine = _take_lock(conn, job, worker_id)
            yield _LockedLead(self, job, conn) if is_mine else None
        finally:
            conn.close()

    def _rewrite(self) -> bool:
        with self._alone.connect() as conn:
            if not compaction.is_allowed(conn):
                log.warning("%s: only the owner of the tables can rewrite them", self._where)
                return False
            # One rewrite at a time, because two would keep rows for each other and block every
            # session.
            with self.lead("rewrite", worker_id="") as lead:
                return lead is not None and compaction.rewrite(conn, on_nodes=self._has_nodes)


def distribute_database(
    url: str,
    open_store: Callable[[], PostgresStore],
    shards: int,
    tell: Callable[[str], None] | None = None,
) -> distribute.Distribution:
    """Distribute a database over the nodes of Citus, and read from it to see that it works."""
    parsed = _parsed(url)
    engine = sa.create_engine(parsed, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as conn:
            is_begun = distribute.is_begun(conn)
        if not is_begun:
            # Makes the tables, or brings them to this release.
            with closing(open_store()) as store:
                if store.unsealed():
                    raise StoreUnavailable(
                        "some users have no key yet: run octopus encrypt until it is done"
                    )
        done = distribute.Distributor(engine, shards, tell).run()
    except sa.exc.DBAPIError as error:
        raise errors.translate(error, f"PostgreSQL database {parsed.database!r}") from error
    with closing(open_store()) as store:
        store.check_distributed()
    return done


class _LockedLead(JobLead):
    """An advisory lock, held by a transaction of its own until the connection ends."""

    def __init__(self, store: PostgresStore, job: str, conn: sa.Connection) -> None:
        super().__init__(store, job)
        self._conn = conn

    def renew(self) -> bool:
        try:
            self._conn.exec_driver_sql("SELECT 1")
        except sa.exc.SQLAlchemyError:
            return False
        return True


_SIZE = """
    SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = (
            SELECT relnamespace FROM pg_class WHERE oid = to_regclass('octopus_schema')
        )
        AND starts_with(relname, 'octopus_')
"""


_PLACED = """
    SELECT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = to_regclass('octopus_scopes') AND attname = 'bucket' AND NOT attisdropped
    ) AS is_placed, to_regclass('pg_dist_partition') IS NOT NULL AS has_nodes,
        current_setting('synchronous_commit') AS synchronous_commit,
        coalesce(current_setting('citus.propagate_set_commands', true), 'local') AS propagated
"""


# Not every server has the last one.
_DISABLE_TIMEOUTS = """
    SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN (
        'idle_in_transaction_session_timeout', 'lock_timeout', 'statement_timeout',
        'transaction_timeout'
    )
"""


def _parsed(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        # The message would contain the password.
        raise InvalidSetting(
            "database_url", "is not a URL: write postgresql://role:password@host:5432/database"
        ) from None
    return parsed.set(drivername="postgresql+psycopg")


def _prepare(conn: Any, _: Any) -> None:
    """Set up a new connection."""
    from psycopg.types.numeric import Int8Dumper

    # psycopg sends int2/int4/int8 by value, which would prepare one statement per width. Always
    # send int8.
    conn.adapters.register_dumper(int, Int8Dumper)
    conn.execute("SET TIME ZONE 'UTC'")


def _begin_schema(conn: sa.Connection) -> None:
    """Begin a transaction that defines tables: for all tenants, and without a timeout.

    SET LOCAL reaches the nodes of a distributed database, and Citus wants its own setting for
    changes of several tables; on a single server nobody reads that.
    """
    conn.exec_driver_sql(
        f"{WRITING}; SET LOCAL statement_timeout TO 0; SET LOCAL octopus.reach TO "
        f"'{security.EVERYTHING}'; SET LOCAL citus.multi_shard_modify_mode TO 'sequential'; "
        f"SELECT {DURABLE}",
        execution_options={"no_parameters": True},
    )


def _key(name: str) -> int:
    """The key of an advisory lock."""
    digest = hashlib.blake2b(f"octopus {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def _check_server(conn: sa.Connection) -> None:
    said = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')"
    version, encoding = conn.exec_driver_sql(said).one()
    if version < _OLDEST * 10_000:
        raise StoreUnavailable(f"Octopus needs PostgreSQL {_OLDEST} or newer: upgrade the server")
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"the database's encoding is {encoding}: make one with ENCODING 'UTF8'"
        )


def _take_lock(conn: sa.Connection, job: str, worker_id: str) -> bool:
    conn.exec_driver_sql("BEGIN")
    # Shows who leads in `pg_stat_activity`. Keepalives, because the machine of a leader may vanish.
    settings = {
        "application_name": f"octopus {job} {worker_id}"[:60],
        "tcp_keepalives_idle": "30",
        "tcp_keepalives_interval": "10",
        "tcp_keepalives_count": "3",
    }
    said = [sa.func.set_config(name, value, sa.true()) for name, value in settings.items()]
    conn.execute(sa.select(*said))
    conn.exec_driver_sql(_DISABLE_TIMEOUTS)
    taken = sa.func.pg_try_advisory_xact_lock(_key(f"job {job}"))
    return bool(conn.execute(sa.select(taken)).scalar_one())
