"""What is promised on Citus: distributing, every node's files, and a node that is down.

The store, engine, isolation and security suites run there too, where OCTOPUS_TEST_CITUS_URL is
given. `tests/stores/test_distribute.py` has what needs no cluster.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from octopus_memory import EpisodicMemory, StoreUnavailable
from octopus_memory.__main__ import program
from octopus_memory.adapters.stores.postgres.buckets import placed_tables
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.domain.errors import StoreBusy
from octopus_memory.wiring import distribute, move
from tests.support.citus_server import SHARDS, CitusInstallation
from tests.support.postgres_installation import Database, guide
from tests.support.postgres_server import connected

USERS = [f"user-{number}" for number in range(12)]
QUESTION = "Where does the ferry go?"


def opened(url: str) -> EpisodicMemory:
    return EpisodicMemory.open(url, embedder="hashing", background=False)


def fill(url: str) -> None:
    with opened(url) as memory:
        for user in USERS:
            memory.scope(user=user).store([("user", f"The ferry of {user} goes to Naxos.")])
        memory.flush()


def recalled(memory: EpisodicMemory, user: str) -> list[str]:
    found = memory.scope(user=user).recall(QUESTION)
    return [hit.text for snippet in found for hit in snippet.turns]


@pytest.fixture
def single(citus: CitusInstallation) -> Iterator[Database]:
    """A database with users on the coordinator alone."""
    with citus.single() as database:
        fill(database.owner_url)
        yield database


@pytest.fixture
def database(citus: CitusInstallation) -> Iterator[Database]:
    with citus.new_database() as database:
        yield database


def octopus(*given: str) -> Any:
    return CliRunner().invoke(program(), ["database", "distribute", *given])


class TestDistributing:
    def test_the_command_moves_every_row_and_says_so(self, single: Database):
        done = octopus("--shards", "4", "--yes", "--db", single.owner_url)
        assert done.exit_code == 0, done.output
        assert "moved octopus_turns to the nodes" in done.output
        assert "removed the coordinator's copy of octopus_turns" in done.output
        assert "over 4 shards on 2 nodes" in " ".join(done.output.split())
        with opened(single.url) as memory:
            assert len(memory.nodes()) == 3
            assert all(memory.nodes().values())
            for user in USERS:
                assert recalled(memory, user) == [f"The ferry of {user} goes to Naxos."]
            memory.scope(user="new").store([("user", "The ferry of new goes to Naxos.")])
            assert recalled(memory, "new")
            assert memory.stats().scopes == len(USERS) + 1
            assert memory.verify_audit().is_whole
        with connected(single.admin_url) as conn:
            shards = conn.execute(
                "SELECT nodeport, count(*) FROM citus_shards "
                "WHERE table_name = 'octopus_turns'::regclass GROUP BY nodeport"
            ).fetchall()
            assert [count for _, count in shards] == [2, 2]

    def test_a_second_run_has_nothing_to_do(self, database: Database):
        assert distribute(database.owner_url).steps == ()

    @pytest.mark.process
    def test_a_run_that_was_killed_is_continued(self, single: Database):
        steps = 0
        for after in (3, 14, 10):
            program = (
                "import os, signal, sys; from octopus_memory.wiring import distribute\n"
                "def tell(step, done=[]):\n"
                "    done.append(step)\n"
                f"    if len(done) == {after}: os.kill(os.getpid(), signal.SIGKILL)\n"
                f"distribute(sys.argv[1], shards={SHARDS}, tell=tell)"
            )
            killed = subprocess.run(
                [sys.executable, "-c", program, single.owner_url], check=False, timeout=120
            )
            assert killed.returncode == -signal.SIGKILL
            steps += after
            with pytest.raises(StoreUnavailable, match="not finished"):
                PostgresStore(single.owner_url)
        done = distribute(single.owner_url)
        assert done.steps
        assert done.rows["octopus_turns"] == len(USERS)
        # The first run said how many.
        assert done.shards == SHARDS
        with opened(single.url) as memory:
            assert all(recalled(memory, user) for user in USERS)

    def test_who_may_not_is_told(self, single: Database):
        with pytest.raises(StoreUnavailable, match="only the owner"):
            distribute(single.url)

    def test_it_waits_for_nobody(self, single: Database):
        with opened(single.url), pytest.raises(StoreBusy, match="stop every service"):
            distribute(single.owner_url)

    def test_a_coordinator_without_nodes_is_told(self, citus: CitusInstallation):
        with citus.alone() as database, pytest.raises(StoreUnavailable, match="citus_add_node"):
            distribute(database.owner_url)

    def test_pgvectors_table_goes_along(
        self, citus: CitusInstallation, single: Database, monkeypatch: pytest.MonkeyPatch
    ):
        if not citus.server.has_vectors():
            pytest.skip("this Citus has no pgvector")
        monkeypatch.setenv("OCTOPUS_INDEX", "pgvector")
        with opened(single.owner_url) as memory:
            memory.mirror.rebuild()
        distribute(single.owner_url, shards=SHARDS)
        with opened(single.url) as memory:
            memory.scope(user="new").store([("user", "The ferry of new goes to Naxos.")])
            memory.flush()
            assert recalled(memory, "new")
            assert recalled(memory, USERS[0])
            assert memory.mirror.verify().is_true
            vectors = "SELECT count(*) FROM octopus_vectors"
            with connected(single.admin_url) as conn:
                before = conn.execute(vectors).fetchall()[0][0]
                assert memory.tenant().erase_user(USERS[0]).removed["turns"] == 1
                # A turn and its episode's summary.
                assert conn.execute(vectors).fetchall() == [(before - 2,)]


def test_a_move_there_and_back(citus: CitusInstallation, database: Database, tmp_path: Path):
    source, back = (f"sqlite:///{tmp_path / name}" for name in ("source.db", "back.db"))
    fill(source)
    assert move(source, database.owner_url).rows == move(database.owner_url, back).rows
    with citus.single() as single:
        move(database.owner_url, single.owner_url)
        for url in (database.url, single.url, back):
            with opened(url) as memory:
                assert all(recalled(memory, user) for user in USERS)


def test_a_migration_reaches_the_nodes(database: Database):
    """A column, rows that are changed and a new table, as a later release may need them."""
    fill(database.url)
    store = PostgresStore(database.owner_url)
    turns = placed_tables()["octopus_turns"]

    def migrate(conn: sa.Connection) -> int:
        conn.exec_driver_sql("ALTER TABLE octopus_turns ADD COLUMN later integer")
        conn.exec_driver_sql("CREATE INDEX octopus_turns_later ON octopus_turns (later)")
        # A table of this release, as if it were new.
        conn.exec_driver_sql("DROP TABLE octopus_placeholders")
        placeholders = placed_tables()["octopus_placeholders"].to_metadata(sa.MetaData())
        placeholders._columns.remove(placeholders.c.bucket)
        conn.execute(sa.schema.CreateTable(placeholders))
        conn.exec_driver_sql("ALTER TABLE octopus_placeholders ENABLE ROW LEVEL SECURITY")
        return conn.execute(sa.update(turns).values(tokens=turns.c.tokens + 1)).rowcount

    assert store.change_schema(migrate) == len(USERS)
    store.close()
    with connected(database.admin_url) as conn:
        found = conn.execute(
            "SELECT count(*) FROM pg_dist_partition "
            "WHERE logicalrelid = 'octopus_placeholders'::regclass AND partmethod = 'h'"
        ).fetchone()
        assert found == (1,)
    with opened(database.owner_url) as memory:
        assert all(recalled(memory, user) for user in USERS)


@contextmanager
def down(database: Database) -> Iterator[str]:
    """The coordinator finds nobody where a node was; returns the node's name."""
    change = "UPDATE pg_dist_node SET nodeport = %s WHERE nodeid = %s"
    with connected(database.admin_url) as conn:
        conn.execute("SET citus.enable_metadata_sync TO off")
        [node, host, port] = conn.execute(
            "SELECT nodeid, nodename, nodeport FROM pg_dist_node WHERE groupid > 0 LIMIT 1"
        ).fetchall()[0]
        conn.execute(change, (1, node))
        try:
            yield f"{host}:1"
        finally:
            conn.execute(change, (port, node))


def test_a_node_that_is_down_fails_its_users_alone(database: Database):
    fill(database.url)
    with opened(database.owner_url) as memory:
        with down(database) as node:
            served, failed = [], []
            for user in USERS:
                scope = memory.scope(user=user)
                try:
                    scope.add("now", ("user", f"{user} was here."))
                    served.append(user)
                except StoreUnavailable as error:
                    assert f"its node {node} does not answer" in str(error)
                    failed.append(user)
            assert served
            assert failed
            assert recalled(memory, served[0])
            assert [name for name, up in memory.nodes().items() if not up] == [node]
            with pytest.raises(StoreUnavailable, match=node):
                memory.stats()
            receipt = memory.tenant().erase_user(served[0])
            assert not receipt.is_complete
            assert f"node {node}" in receipt.pending
            told = CliRunner().invoke(program(), ["doctor", "--db", database.owner_url])
            assert told.exit_code == 1
            assert node in " ".join(told.output.split())
        for user in failed:
            assert recalled(memory, user)
            memory.scope(user=user).add("now", ("user", "Back again."))
        assert memory.compact()
        receipt = memory.tenant().receipt(receipt.id)
        assert receipt.is_complete
        assert set(receipt.nodes) == set(memory.nodes())


def test_nothing_of_an_erased_user_is_left_on_any_node(
    citus: CitusInstallation, database: Database
):
    """Of a removed row nothing is in the files: every shard was rewritten since."""
    for block in guide("Erasure"):
        for statement in block.strip().split(";\n"):
            for node in citus.server.nodes.values():
                node.execute(citus.named(statement), database=database.name)
    fill(database.url)
    with opened(database.owner_url) as memory, connected(database.admin_url) as conn:
        # The coordinator's files are those of empty tables, so ask the nodes.
        files = """
            SELECT result FROM run_command_on_shards('octopus_turns',
                $$SELECT pg_relation_filenode('%s')$$) WHERE success
        """
        logs = "SELECT result FROM run_command_on_all_nodes('SELECT pg_current_wal_lsn()')"
        segments = (
            "SELECT result FROM run_command_on_all_nodes("
            "'SELECT pg_walfile_name(pg_current_wal_lsn())')"
        )
        before = [conn.execute(each).fetchall() for each in (files, logs, segments)]
        receipt = memory.tenant().erase_user(USERS[0])
        after = [conn.execute(each).fetchall() for each in (files, logs, segments)]
        assert receipt.is_complete
        assert len(receipt.nodes) == 3
        for was, now in zip(before, after, strict=True):
            assert all(one != other for one, other in zip(was, now, strict=True))
        with connected(database.admin_url) as other, other.transaction():
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SET LOCAL octopus.reach TO 'all'")
            other.execute("SELECT count(*) FROM octopus_holds")
            conn.execute("SELECT 1")
            blocked = memory.tenant().erase_user(USERS[1])
            assert not blocked.physical
        assert memory.compact()
        assert memory.tenant().receipt(blocked.id).is_complete
