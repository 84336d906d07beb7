"""Fixtures that several folders share."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer.testing

pytest.register_assert_rewrite("octopus_memory.testing", "tests.support")

from octopus_memory import EpisodicMemory, MemoryScope  # noqa: E402 - after the line above
from octopus_memory.adapters.stores.sqlite.store import SqliteStore  # noqa: E402 - the same
from octopus_memory.testing import FixedClock  # noqa: E402 - the same
from tests.support import (  # noqa: E402 - the same
    citus_server,
    postgres_server,
    selection,
    sqlserver_server,
)
from tests.support.citus_server import CitusInstallation  # noqa: E402 - the same
from tests.support.postgres_installation import Database, Installation  # noqa: E402 - the same
from tests.support.postgres_server import LocalServer, Programs, Unavailable  # noqa: E402 - the same
from tests.support.process_guard import processes_refused  # noqa: E402 - the same
from tests.support.selection import may_start_processes  # noqa: E402 - the same
from tests.support.sqlite_sync import wait_for_no_disk  # noqa: E402 - the same
from tests.support.sqlserver_server import SqlServer  # noqa: E402 - the same
from tests.support.statement_cache import share_compiled_statements  # noqa: E402 - the same
from tests.support.table_texts import share_table_texts  # noqa: E402 - the same

START = datetime(2025, 3, 14, 9, 22, tzinfo=UTC)
DATABASES = ["sqlite", "postgresql", "sqlserver"]
_HOMES = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    # Programs that the tests start need not compile everything again, each for itself.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Nor does each run need to rewrite the asserts of all tests again.
    sys.dont_write_bytecode = False
    # No test speaks to a server that needs a certificate, and for each client all are loaded.
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
    for line in (
        "both_databases(as_owner=False): on PostgreSQL, as application or owner, and SQL Server",
        "install: installs the package into an environment of its own; `make package` runs it",
        "sqlite_alone: not there: it looks at what only SQLite has, or at no database at all",
        *selection.MARKERS,
    ):
        config.addinivalue_line("markers", line)
    # The frameworks' environments do without it.
    if config.pluginmanager.has_plugin("hypothesispytest"):
        from hypothesis import HealthCheck, settings

        # An example is slow on a busy machine, which is no fault of the code.
        untimed = [HealthCheck.too_slow]
        settings.register_profile("untimed", deadline=None, suppress_health_check=untimed)
        settings.load_profile("untimed")
        # `make test-fast` selects it.
        settings.register_profile("fast", max_examples=10)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest selects by markers."""
    selection.mark_servers(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _guarded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _guarded(item):
        return (yield)


def _guarded(item: pytest.Item) -> AbstractContextManager[None]:
    """Not while fixtures are torn down: the last test of all stops the servers of the others."""
    return nullcontext() if may_start_processes(item) else processes_refused(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests are no rubbish: the collector need not look at them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is marked `both_databases` runs once with each `database_url`."""
    marked = metafunc.definition.get_closest_marker
    is_both = marked("both_databases") and not marked("sqlite_alone")
    if is_both and "database_url" in metafunc.fixturenames:
        metafunc.parametrize("database_url", DATABASES, indirect=True)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No variable or file of the developer's own reaches a test, and no home folder is written."""
    for name in os.environ:
        if name.startswith("OCTOPUS_") and not name.startswith("OCTOPUS_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    # Not below `tmp_path`, because making that folder takes longer than many a test.
    home = tmp_path_factory.getbasetemp() / f"home{next(_HOMES)}"
    monkeypatch.setenv("XDG_DATA_HOME", str(home))


@pytest.fixture(scope="session", autouse=True)
def _quick_databases() -> Iterator[None]:
    with share_compiled_statements(), share_table_texts(), wait_for_no_disk():
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_made_once() -> Iterator[None]:
    """The runner makes all commands of a program anew for each call, which takes most of it."""
    made: dict[tuple[typer.Typer, int], Any] = {}

    def make_once(app: typer.Typer) -> Any:
        # A command may be added later.
        key = app, len(app.registered_commands)
        return made.get(key) or made.setdefault(key, typer.main.get_command(app))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(typer.testing, "_get_command", make_once, raising=False)
        yield


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(START)


@pytest.fixture(scope="session")
def blank_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database without a row: to copy it takes a fifth of the time of making it."""
    path = tmp_path_factory.mktemp("blank") / "memory.db"
    SqliteStore(path).close()
    return path


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path, blank_file: Path) -> str:
    """A file, or a database on PostgreSQL or SQL Server, of the test's own.

    On PostgreSQL row-level security holds both of the guide's roles; only the owner can rewrite
    tables.
    """
    product = getattr(request, "param", "sqlite")
    if product == "sqlite":
        return f"sqlite:///{shutil.copy(blank_file, tmp_path / 'memory.db')}"
    if product == "sqlserver":
        url: str = request.getfixturevalue("sqlserver_url")
        return url
    database: Database = request.getfixturevalue("postgres_database")
    marker = request.node.get_closest_marker("both_databases")
    as_owner = marker is not None and marker.kwargs.get("as_owner")
    return database.owner_url if as_owner else database.url


@pytest.fixture
def memory(database_url: str, clock: FixedClock) -> Iterator[EpisodicMemory]:
    """With the quick embedder and no thread of its own."""
    with EpisodicMemory.open(
        database_url, embedder="hashing", clock=clock, background=False
    ) as opened:
        yield opened


@pytest.fixture
def scope(memory: EpisodicMemory) -> MemoryScope:
    return memory.scope(tenant="acme", agent="hr", user="user-17")


@pytest.fixture(scope="session")
def postgres_programs() -> Iterator[Programs]:
    """PostgreSQL 18 with pgvector."""
    with ExitStack() as stack:
        try:
            programs = stack.enter_context(postgres_server.bundled())
        except Unavailable as reason:
            pytest.skip(str(reason))
        yield programs


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Iterator[Installation]:
    """Citus where OCTOPUS_TEST_CITUS_URL names one; the server of OCTOPUS_TEST_POSTGRES_URL; else
    one of our own."""
    if os.environ.get("OCTOPUS_TEST_CITUS_URL"):
        yield request.getfixturevalue("citus")
        return
    server = postgres_server.given()
    if server is None:
        # Its passwords are no secrets: to hash them thousands of times takes half of a connection.
        server = LocalServer(request.getfixturevalue("postgres_programs"), scram_iterations="1")
    installation = Installation(server)
    yield installation
    installation.close()


@pytest.fixture(scope="session")
def citus() -> Iterator[CitusInstallation]:
    """The Citus that OCTOPUS_TEST_CITUS_URL names; without one, the test is skipped."""
    installation = citus_server.given()
    yield installation
    installation.close()


@pytest.fixture(scope="session")
def postgres_15() -> Iterator[Installation]:
    """An older server, without pgvector."""
    try:
        programs = postgres_server.installed(15)
    except Unavailable as reason:
        pytest.skip(str(reason))
    installation = Installation(LocalServer(programs))
    yield installation
    installation.close()


@pytest.fixture
def postgres_database(postgres: Installation) -> Iterator[Database]:
    """A database of the test's own, with every table and no rows."""
    with postgres.database() as database:
        yield database


@pytest.fixture(scope="session")
def sqlserver() -> Iterator[SqlServer]:
    """The server that OCTOPUS_TEST_SQLSERVER_URL names; without one, the test is skipped."""
    server = sqlserver_server.given()
    yield server
    server.close()


@pytest.fixture
def sqlserver_url(sqlserver: SqlServer) -> Iterator[str]:
    """Of a database with every table and no rows."""
    with sqlserver.database() as url:
        yield url
