"""The SQL Server store: its statements, its demands on a database, and its errors."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

import pytest

from octopus_memory.ports.values import EpisodeQuery

pytest.importorskip("mssql_python", reason="needs the extra sqlserver")

from mssql_python import parameter_helper
from mssql_python.constants import ConstantsDDBC as Odbc

from octopus_memory.adapters.stores.sql import migrate, move, schema, views
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.adapters.stores.sqlserver import dialect as sqlserver_dialect
from octopus_memory.adapters.stores.sqlserver import maintenance, serial
from octopus_memory.adapters.stores.sqlserver.dialect import SqlServerDialect
from octopus_memory.adapters.stores.sqlserver.engine import Engines
from octopus_memory.adapters.stores.sqlserver.store import SqlServerStore
from octopus_memory.domain.errors import (
    InvalidInput,
    InvalidSetting,
    MissingExtra,
    StoreAnswerLost,
    StoreBusy,
    StoreError,
    StoreUnavailable,
)
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.testing import make_append, make_closing, make_next, make_scope
from octopus_memory.testing.store.base import ANA, FAR, after, claim_all, texts
from octopus_memory.testing.store.transfer import make_brought
from tests.support.older_database import make_older
from tests.support.sqlserver_double import Cursor, Driver, Server, check_view

URL = "sqlserver://sa:secret@example.invalid:1433/memory?Encrypt=no"
DEADLOCK = "Transaction (Process ID 52) was deadlocked and has been chosen as the deadlock victim."
LOST = "Communication link failure"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with closing(Server()) as server:
        driver = Driver(server)
        monkeypatch.setattr(SqlServerDialect, "import_dbapi", lambda: driver)
        yield server


@pytest.fixture
def store(server: Server) -> Iterator[SqlServerStore]:
    store = SqlServerStore(URL)
    server.seen.clear()
    yield store
    store.close()


def test_claims_pass_over_what_others_take(store: SqlServerStore, server: Server) -> None:
    store.claim(WorkKind.EMBED, worker_id="w", limit=3, now=FAR, until=FAR)
    [claim] = [text for text in server.seen if "FROM octopus_work" in text]
    # READPAST is refused under READ_COMMITTED_SNAPSHOT unless READCOMMITTEDLOCK is there, too.
    hint = "WITH (UPDLOCK, READPAST, ROWLOCK, READCOMMITTEDLOCK)"
    assert f"FROM octopus_work {hint} WHERE" in " ".join(claim.split())
    # A scope that somebody writes in is no reason to pass over its work, nor to claim it nameless.
    assert "FROM octopus_scopes WITH" not in claim
    assert claim.startswith("SELECT TOP 3 ")
    assert claim.endswith("ORDER BY octopus_work.ready_at, octopus_work.id")


def test_a_scope_is_locked_before_it_is_read(store: SqlServerStore, server: Server) -> None:
    write = make_append(ANA, "a")
    store.append(write)
    server.seen.clear()
    store.touch(ANA, write.session_id, seen_at=after(hours=1), now=after(hours=1))
    assert "FROM octopus_scopes WITH (UPDLOCK, HOLDLOCK, ROWLOCK)" in server.seen[0]


def test_the_model_stays_while_vectors_are_put(store: SqlServerStore, server: Server) -> None:
    store.use_model("m")
    store.append(make_append(ANA, "a"))
    work = claim_all(store)
    server.seen.clear()
    store.put_vectors("m", [(piece, b"vector") for piece in work])
    assert "FROM octopus_meta WITH (HOLDLOCK, ROWLOCK)" in server.seen[0]


def test_reads_are_of_one_moment(store: SqlServerStore, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = []
    monkeypatch.setattr(
        "tests.support.sqlserver_double.Connection.begin",
        lambda self: levels.append(self.isolation),
    )
    store.stats()
    assert set(levels) == {"SNAPSHOT"}


def test_the_driver_understands_every_statement(store: SqlServerStore, server: Server) -> None:
    write = make_append(ANA, "a", "b", closing=make_closing())
    store.append(write)
    store.list_episodes(EpisodeQuery(of=ANA, offset=1, limit=2))
    store.archive(ANA, write.episode_id, cold=True)
    for text, kinds in server.declared:
        values = [None] * len(kinds)
        converted, kept = parameter_helper.detect_and_convert_parameters(text, values)
        assert (converted, kept) == (text, values)
        assert text.count("?") == len(values)


def test_a_parameter_has_the_type_of_its_column(store: SqlServerStore, server: Server) -> None:
    """Whatever the value: of another type, the server would compile the statement again."""
    short = make_append(ANA, "a")
    long = make_append(make_scope("somebody else"), "b" * 9_000, closing=make_closing())
    seen = []
    for write in (short, long):
        server.declared.clear()
        store.append(write)
        seen.append({text: kinds for text, kinds in server.declared if "INSERT" in text})
    shared = [text for text in seen[0] if text in seen[1]]
    assert {text.split()[2] for text in shared} >= {"octopus_scopes", "octopus_turns"}
    assert {"octopus_episodes", "octopus_recall"} <= {text.split()[2] for text in shared}
    for text in shared:
        assert seen[0][text] == seen[1][text]
    [scope] = [kinds for text, kinds in seen[0].items() if "INTO octopus_scopes" in text]
    binary, bigint = Odbc.SQL_VARBINARY.value, Odbc.SQL_BIGINT.value
    assert scope == [*((binary, size, 0) for size in (401, 1_025, 1_025)), *[(bigint, 19, 0)] * 3]


def test_a_value_too_long_for_its_column_is_not_cut(store: SqlServerStore) -> None:
    """The double refuses what the driver would cut; the column has room for 32 characters."""
    assert store.find_key("k" * 5_000) is None
    assert store.find_key("\U0001f419" * 20) is None


def test_many_rows_are_deleted_in_batches(
    store: SqlServerStore, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = make_append(ANA, *"abcdefg", closing=make_closing())
    store.append(write)
    monkeypatch.setattr(sqlserver_dialect, "BATCH", 3)
    store.delete(ANA, write.episode_id, at=after(days=1))
    server.seen.clear()
    assert store.purge(ANA, write.episode_id)["turns"] == 7
    deletes = [text for text in server.seen if "FROM octopus_turns " in text and "DELETE" in text]
    assert len(deletes) == 3
    assert all(text.startswith("DELETE TOP (3) FROM") for text in deletes)


def test_names_too_long_for_an_index_are_refused(store: SqlServerStore, server: Server) -> None:
    long = make_scope("\U0001f419" * 256, agent="\U0001f419" * 256)
    with pytest.raises(InvalidInput, match="shorter names"):
        store.append(make_append(long, "a"))
    with pytest.raises(InvalidInput, match="shorter names"):
        store.import_episode(make_brought("a", scope=long))
    assert server.seen == []
    store.append(make_append(make_scope("\U0001f419" * 256, agent="x" * 256), "a"))


def test_a_lost_race_is_run_again(store: SqlServerStore, server: Server) -> None:
    store.append(make_append(ANA, "a"))
    write = make_append(ANA, "b", session_id="other")
    server.fail("INSERT INTO octopus_turns", DEADLOCK, driver="Serialization failure")
    server.fail("INSERT INTO octopus_recall", "Cannot insert duplicate key row in object 'x'.")
    store.append(write)
    assert texts(store, write) == ["b"]


def test_a_race_lost_at_every_try_raises(store: SqlServerStore, server: Server) -> None:
    for _ in range(20):
        server.fail("INSERT INTO octopus_turns", DEADLOCK, driver="Serialization failure")
    with pytest.raises(StoreBusy):
        store.append(make_append(ANA, "a"))
    assert store.stats().turns == 0


def test_a_broken_connection_is_replaced(store: SqlServerStore, server: Server) -> None:
    write = make_append(ANA, "a")
    server.fail("UPDATE octopus_scopes", "TCP Provider: Error code 0x68", driver=LOST)
    store.append(write)
    server.fail("FROM octopus_turns", "TCP Provider: Error code 0x68", driver=LOST)
    assert texts(store, write) == ["a"]


@pytest.mark.parametrize(
    "words",
    [
        "Cannot continue the execution because the session is in the kill state.",
        "SHUTDOWN is in progress.",
        (
            "Unable to access availability database 'x' because the database replica is not in the "
            "PRIMARY or SECONDARY role."
        ),
        "The service has encountered an error processing your request. Please try again.",
    ],
)
def test_a_session_that_the_server_ends_is_replaced(
    store: SqlServerStore, server: Server, words: str
) -> None:
    """Reconnecting reaches the copy of the database that took over."""
    write = make_append(ANA, "a")
    server.fail("UPDATE octopus_scopes", words)
    store.append(write)
    server.fail("FROM octopus_turns", words)
    assert texts(store, write) == ["a"]
    server.fail("COMMIT", words)
    with pytest.raises(StoreAnswerLost, match="may or may not be stored"):
        store.append(make_append(ANA, "b", session_id="other"))


def test_a_server_with_too_much_to_do_is_not_asked_again(
    store: SqlServerStore, server: Server
) -> None:
    server.fail("INSERT INTO octopus_turns", "There is insufficient system memory in x.")
    with pytest.raises(StoreBusy, match="try again later"):
        store.append(make_append(ANA, "a"))
    assert sum("INSERT INTO octopus_turns" in text for text in server.seen) == 1


def test_closing_connections_to_a_server_that_is_gone_is_quiet(
    store: SqlServerStore, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    store.append(make_append(ANA, "a"))
    with store.lead("nightly", worker_id="a") as lead:
        assert lead is not None
        server.gone = True
    store.close()
    assert caplog.records == []


def test_a_commit_without_an_answer_is_not_repeated(store: SqlServerStore, server: Server) -> None:
    server.fail("COMMIT", "TCP Provider: Error code 0x68", driver=LOST)
    with pytest.raises(StoreAnswerLost, match="may or may not be stored"):
        store.append(make_append(ANA, "a"))
    assert sum("INSERT INTO octopus_turns" in text for text in server.seen) == 1
    store.append(make_append(ANA, "b"))


def test_a_read_that_a_rebuild_ends_is_repeated(store: SqlServerStore, server: Server) -> None:
    server.fail(
        "FROM octopus_scopes",
        "Snapshot isolation transaction failed in database 'memory' because the object accessed by "
        "the statement has been modified by a DDL statement in another concurrent transaction",
        "ProgrammingError",
    )
    assert store.recall_state(ANA) is None


def test_a_server_that_is_down_is_told_and_found_again(
    store: SqlServerStore, server: Server
) -> None:
    store.close()
    server.down = Driver.OperationalError("Client unable to establish connection", "TCP Provider")
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        store.append(make_append(ANA, "a"))
    server.down = None
    store.append(make_append(ANA, "a"))


def test_an_error_holds_no_statement_and_no_value(store: SqlServerStore, server: Server) -> None:
    server.fail("INSERT INTO octopus_turns", "The value 'secret words' is too large")
    with pytest.raises(StoreError) as caught:
        store.append(make_append(ANA, "secret words"))
    for part in ("secret", "INSERT", "octopus_turns", "acme"):
        assert part not in str(caught.value)


def test_a_database_without_tables_is_made_ready(server: Server) -> None:
    SqlServerStore(URL).close()
    assert server.snapshots == 1
    assert "ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH NO_WAIT" in server.seen


def test_a_database_with_other_tables_is_not_altered(server: Server) -> None:
    SqlServerStore(URL).close()
    server.snapshots = 0
    server.tables = 5
    server.seen.clear()
    with pytest.raises(StoreUnavailable, match="SET ALLOW_SNAPSHOT_ISOLATION ON"):
        SqlServerStore(URL)
    assert not any("ALTER DATABASE" in text for text in server.seen)


def test_a_server_that_is_not_microsofts_has_its_own_ways(server: Server) -> None:
    server.fail("snapshot_isolation_state", "Invalid object name 'sys.databases'.")
    store = SqlServerStore(URL)
    store.append(make_append(ANA, "a"))
    assert not any("LEVEL SNAPSHOT" in text for text in server.seen)
    store.close()


def test_two_that_open_a_new_database_wait_for_each_other(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_WAIT_SECONDS", 0.2)
    server.locks["octopus schema"] = Driver(server).connect("Server=", timeout=1)
    with pytest.raises(StoreBusy, match="another process"):
        SqlServerStore(URL)


def test_one_leads_at_a_time(store: SqlServerStore, server: Server) -> None:
    with store.lead("nightly", worker_id="a") as lead:
        assert lead is not None
        assert lead.renew()
        with store.lead("nightly", worker_id="b") as other:
            assert other is None
        with store.lead("hourly", worker_id="b") as other:
            assert other is not None
        server.locks.clear()
        assert not lead.renew()
    with store.lead("nightly", worker_id="b") as lead:
        assert lead is not None


def test_a_lead_ends_with_its_connection(store: SqlServerStore, server: Server) -> None:
    with store.lead("nightly", worker_id="a") as lead:
        assert lead is not None
        server.fail("APPLOCK_MODE", "TCP Provider: Error code 0x68", driver=LOST)
        assert not lead.renew()


def test_compacting_rewrites_every_page(store: SqlServerStore, server: Server) -> None:
    assert store.compact()
    for table in schema.metadata.sorted_tables:
        assert f"ALTER INDEX ALL ON {table.name} REBUILD" in server.seen
        assert f"UPDATE STATISTICS {table.name}" in server.seen
    [clean] = [at for at, text in enumerate(server.seen) if "sp_clean_db_free_space" in text]
    assert server.seen[clean - 1] == server.seen[clean + 1] == "CHECKPOINT"
    assert "DBCC SHRINKFILE (2, 1) WITH NO_INFOMSGS" in server.seen


def test_compacting_waits_for_a_better_time(store: SqlServerStore, server: Server) -> None:
    server.fail("ALTER INDEX ALL ON octopus_turns", "Lock request time out period exceeded.")
    assert not store.compact()
    server.fail("sp_clean_db_free_space", "does not have permission to run it")
    with pytest.raises(StoreUnavailable, match="lacks a permission"):
        store.compact()


def test_compacting_leaves_a_log_that_is_backed_up(store: SqlServerStore, server: Server) -> None:
    server.recovery_model = 1
    assert store.compact()
    assert not any("SHRINKFILE" in text for text in server.seen)


def test_every_session_is_prepared(store: SqlServerStore, server: Server) -> None:
    server.seen.clear()
    store.close()
    store.recall_state(ANA)
    assert server.seen[:4] == [
        "SET TRANSACTION ISOLATION LEVEL SNAPSHOT",
        "SET NOCOUNT OFF",
        "SET LANGUAGE us_english",
        "SET LOCK_TIMEOUT 30000",
    ]


@pytest.mark.parametrize(
    "url",
    [
        "sqlserver://",
        "sqlserver://host",
        "sqlserver:///memory",
        "sqlserver://host:port/memory",
        "sqlserver://host/memory?Encrypt=yes&Encrypt=no",
    ],
)
def test_a_url_needs_a_server_and_a_database(url: str) -> None:
    with pytest.raises(InvalidSetting, match="database_url"):
        SqlServerStore(url)


def test_an_unknown_option_is_an_error() -> None:
    """By the driver itself, before it looks for the server."""
    with pytest.raises(InvalidSetting, match="option that the driver does not know"):
        SqlServerStore(f"{URL}&TrustMe=yes")


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **named: Any) -> Any:
        if name == "mssql_python":
            raise ImportError(name)
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtra, match="sqlserver"):
        SqlServerStore(URL)


def test_a_database_can_be_moved_here(store: SqlServerStore, server: Server) -> None:
    source = SqliteStore(":memory:")
    write = make_append(ANA, "a", "b", closing=make_closing())
    source.append(write)
    source.append(make_append(ANA, "c", session_id="open", metadata={"k": 1}))
    source.put_vectors("m", [(work, b"vector") for work in claim_all(source)[:2]])
    move.move(source, store)
    assert texts(store, write) == ["a", "b"]
    assert store.recall_rows(ANA, after=0) == source.recall_rows(ANA, after=0)
    assert "SET IDENTITY_INSERT octopus_turns ON" in server.seen
    assert any(text.startswith("DBCC CHECKIDENT ('octopus_work', RESEED") for text in server.seen)
    source.close()


def test_names_too_long_for_an_index_are_not_moved_here(
    store: SqlServerStore, server: Server
) -> None:
    with closing(SqliteStore(":memory:")) as source:
        source.append(make_append(make_scope("\U0001f419" * 256, agent="\U0001f419" * 256), "a"))
        with pytest.raises(InvalidInput, match="shorter names"):
            move.move(source, store)
    assert not any("INSERT INTO octopus_scopes" in text for text in server.seen)


def test_every_migration_is_t_sql(server: Server) -> None:
    """The double refuses what only other products know, such as a column for a condition."""
    engine = Engines(URL, pool_size=1, statement_seconds=5, connect_seconds=5).writing()
    migrate.upgrade(engine, "0001")
    migrate.upgrade(engine)
    engine.dispose()
    changed = [" ".join(text.split()) for text in server.seen if "archived_at=" in text]
    assert changed == [
        (
            "UPDATE octopus_episodes SET archived_at=octopus_episodes.ended_at "
            "WHERE octopus_episodes.is_archived = 1"
        )
    ]


def test_recall_rows_of_an_older_database_are_rewritten(server: Server) -> None:
    older = SqlServerStore(URL)
    older.append(make_append(ANA, "the cat and the cat", "no vector"))
    older.put_vectors("m", [(claim_all(older)[0], bytes(6))])
    before = older.recall_rows(ANA, after=0)
    older.change_schema(make_older)
    older.close()
    store = SqlServerStore(URL)
    assert store.recall_rows(ANA, after=0) == before
    store.close()


def test_an_append_to_an_open_episode_is_few_statements(
    store: SqlServerStore, server: Server
) -> None:
    write = make_append(ANA, "a")
    store.append(write)
    server.seen.clear()
    store.append(make_next(write, "b"))
    assert len([text for text in server.seen if not text.startswith("SET ")]) == 6


def test_a_message_before_the_answer_is_passed_over(store: SqlServerStore, server: Server) -> None:
    server.says_first = True
    with store.lead("nightly", worker_id="a") as lead:
        assert lead is not None
        with store.lead("nightly", worker_id="b") as other:
            assert other is None


def test_a_failing_lock_is_a_store_error(store: SqlServerStore, server: Server) -> None:
    server.fail("sp_getapplock", "x", driver=LOST)
    with pytest.raises(StoreUnavailable), store.lead("nightly", worker_id="a"):
        pass


def test_a_lead_is_given_back_by_name(store: SqlServerStore, server: Server) -> None:
    with store.lead("nightly", worker_id="a"):
        assert not [text for text in server.seen if "sp_releaseapplock" in text]
    [released] = [text for text in server.seen if "sp_releaseapplock" in text]
    assert "octopus nightly" in released


def test_a_duplicate_is_a_race_in_every_language(store: SqlServerStore, server: Server) -> None:
    server.fail(
        "INSERT INTO octopus_turns",
        "Verletzung der PRIMARY KEY-Einschränkung. Ein doppelter Schlüssel kann nicht sein.",
        kind="IntegrityError",
        driver="Integrity constraint violation",
    )
    assert len(store.append(make_append(ANA, "a"))) == 1


def test_an_unknown_refusal_says_what_the_driver_says(
    store: SqlServerStore, server: Server
) -> None:
    server.fail(
        "INSERT INTO octopus_turns",
        "Something about ana",
        kind="ProgrammingError",
        driver="Syntax error or access violation",
    )
    with pytest.raises(StoreError, match="Syntax error or access violation") as refused:
        store.append(make_append(ANA, "a"))
    assert "before this one" not in str(refused.value)
    assert "about ana" not in str(refused.value)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("e.message_count", "e.messages"),
        ("CONVERT(varchar(1025), ", "CONVERT_FROM("),
        (" + '-' + ", " || '-' || "),
        ("AS agent_id", "AS user_id"),
    ],
)
def test_the_statement_of_the_view_is_checked(server: Server, right: str, wrong: str) -> None:
    statement = views.definition("mssql")
    assert right in statement
    SqlServerStore(URL).close()
    check_view(server, statement)
    with pytest.raises(AssertionError):
        check_view(server, statement.replace(right, wrong))


@pytest.mark.parametrize(
    ("mode", "options", "machine", "needed"),
    [
        ("auto", {}, "aarch64", True),
        ("auto", {"Encrypt": "strict"}, "arm64", True),
        ("auto", {"encrypt": "No"}, "aarch64", False),
        ("auto", {"Encrypt": "optional"}, "arm64", False),
        ("auto", {}, "x86_64", False),
        ("always", {"Encrypt": "no"}, "x86_64", True),
        ("never", {}, "aarch64", False),
    ],
)
def test_driver_calls_are_serialized_where_the_fault_is(
    mode: str, options: dict[str, str], machine: str, needed: bool
) -> None:
    assert serial.is_needed(mode, options, machine) is needed


def test_an_unknown_way_to_serialize_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="sqlserver_serialize"):
        SqlServerStore(URL, serialize="sometimes")


@pytest.mark.parametrize(("mode", "most"), [("always", 1), ("never", 4)])
def test_one_thread_at_a_time_is_in_the_driver(
    server: Server, monkeypatch: pytest.MonkeyPatch, mode: str, most: int
) -> None:
    store = SqlServerStore(URL, serialize=mode, pool_size=8)
    inside, seen, count = 0, [], threading.Lock()
    together = threading.Barrier(4)
    read = Cursor.execute

    def watched(cursor: Cursor, *given: Any) -> None:
        nonlocal inside
        with count:
            inside += 1
            seen.append(inside)
        if "octopus_scopes" in given[0]:
            with suppress(threading.BrokenBarrierError):
                together.wait(5 if mode == "never" else 0.1)
        try:
            read(cursor, *given)
        finally:
            with count:
                inside -= 1

    monkeypatch.setattr(Cursor, "execute", watched)
    with closing(store), ThreadPoolExecutor(4) as pool:
        made = [pool.submit(store.recall_state, ANA) for _ in range(4)]
        assert [each.result(30) for each in made] == [None] * 4
    assert max(seen) == most


def test_one_connection_writes_where_calls_are_serialized(server: Server) -> None:
    """A writer that waits for a lock keeps the driver, so the lock's owner must not need it."""
    for mode, size in (("always", 1), ("never", 8)):
        engines = Engines(URL, pool_size=8, statement_seconds=30, connect_seconds=5, serialize=mode)
        writing = engines.writing()
        assert writing.pool.size() == size  # type: ignore[attr-defined]
        writing.dispose()
