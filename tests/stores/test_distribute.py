"""Distribution without a cluster: the plan, what it refuses, and how a node's answer is read."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from octopus_memory import StoreAnswerLost, StoreUnavailable
from octopus_memory.__main__ import program
from octopus_memory.adapters.stores.postgres import compaction, distribute, errors, nodes
from octopus_memory.adapters.stores.postgres.buckets import placed_tables
from octopus_memory.adapters.stores.sql import schema
from octopus_memory.adapters.stores.sql.statements.move import tables
from octopus_memory.domain.erasure import EraseReceipt, is_genuine
from octopus_memory.domain.errors import InvalidInput, StoreCorrupt
from octopus_memory.domain.ids import new_id
from octopus_memory.testing.fakes import START
from octopus_memory.wiring import distribute as run
from tests.support.citus_server import not_on_citus
from tests.support.postgres_installation import Database, Installation

EVERY = sorted(schema.metadata.tables)


class TestPlan:
    @pytest.mark.parametrize("name", EVERY)
    def test_every_table_has_one_place(self, name: str):
        places = [placed_tables(), distribute.reference_tables(), distribute.ON_COORDINATOR]
        assert sum(name in place for place in places) == 1

    def test_only_what_users_rows_are_joined_with_is_on_every_node(self):
        assert distribute.reference_tables() == ["octopus_holds", "octopus_models"]

    @pytest.mark.parametrize("table", placed_tables().values(), ids=placed_tables())
    def test_every_key_ends_with_the_bucket(self, table: sa.Table):
        made = [
            text for text in distribute.add_bucket(table) if " KEY " in text or "UNIQUE" in text
        ]
        keys = 1 + sum(isinstance(each, sa.UniqueConstraint) for each in table.constraints)
        assert len(made) == keys
        assert all(text.endswith(", bucket)") for text in made)

    @pytest.mark.parametrize("table", placed_tables().values(), ids=placed_tables())
    def test_no_index_besides_the_keys_is_unique(self, table: sa.Table):
        """Citus wants the bucket in each, and the plan changes constraints alone."""
        assert not [index for index in table.indexes if index.unique]

    @pytest.mark.parametrize("name", ["octopus_turns", "octopus_scopes", "octopus_vectors"])
    def test_rows_of_a_user_are_on_one_node(self, name: str):
        [made] = [text for text in distribute.spread(name, 8) if "create_distributed" in text]
        assert ("shard_count := 8" in made) == (name == "octopus_scopes")
        assert ("colocate_with := 'octopus_scopes'" in made) == (name != "octopus_scopes")

    def test_row_security_is_off_only_while_rows_move(self):
        first, *_, last = distribute.spread("octopus_turns", 8)
        assert "NO FORCE" in first
        assert last.endswith("TURNS FORCE ROW LEVEL SECURITY".replace("TURNS", "octopus_turns"))

    def test_a_move_fills_scopes_first(self):
        """The other rows are placed by them."""
        assert tables()[0] is schema.scopes


class TestRefusals:
    @not_on_citus
    def test_a_server_without_citus(self, postgres_database: Database):
        with pytest.raises(StoreUnavailable, match="CREATE EXTENSION citus"):
            run(postgres_database.owner_url)

    @not_on_citus
    def test_a_table_without_its_key(self, postgres: Installation):
        with postgres.new_database() as database:
            engine = sa.create_engine(database.admin_url.replace("://", "+psycopg://", 1))
            with engine.connect() as conn:
                distribute.check_keys(conn)
                conn.exec_driver_sql("ALTER TABLE octopus_work DROP CONSTRAINT octopus_work_pkey")
                with pytest.raises(StoreCorrupt, match="octopus_work_pkey"):
                    distribute.check_keys(conn)
            engine.dispose()

    @pytest.mark.parametrize("shards", [0, 1025])
    def test_a_number_of_shards(self, postgres_database: Database, shards: int):
        with pytest.raises(InvalidInput, match="from 1 to 1024"):
            run(postgres_database.owner_url, shards=shards)

    @pytest.mark.parametrize(
        ("version", "found", "told"),
        [
            ("12.0-1", [], "too old"),
            ("13.2-1", [], "citus_set_coordinator_host"),
            ("13.2-1", [("c:1", 0, True, False)], "citus_add_node"),
            ("13.2-1", [("c:1", 0, True, False), ("w:1", 1, False, True)], "not active: w:1"),
        ],
    )
    def test_a_cluster_that_is_not_ready(
        self, version: str, found: list[tuple[Any, ...]], told: str
    ):
        with pytest.raises(StoreUnavailable, match=told):
            distribute.check_nodes(_Answers(version, found))  # type: ignore[arg-type]

    def test_a_cluster_that_is_ready(self):
        found = [("c:1", 0, True, False), ("w:1", 1, True, True), ("w:2", 2, True, True)]
        assert distribute.check_nodes(_Answers("12.1-1", found)) == ["w:1", "w:2"]  # type: ignore[arg-type]


class _Answers:
    """Stands for a connection to a coordinator."""

    def __init__(self, version: str, found: list[tuple[Any, ...]]) -> None:
        self._version, self._found = version, found

    def exec_driver_sql(self, statement: str) -> Any:
        asked = "version" if "extversion" in statement else "nodes"
        return {
            "version": _Result([(self._version,)]),
            "nodes": _Result([_Node(*row) for row in self._found]),
        }[asked]


class _Node(NamedTuple):
    name: str
    groupid: int
    isactive: bool
    shouldhaveshards: bool


class _Result:
    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def scalar(self) -> Any:
        return self._rows[0][0]

    def all(self) -> list[Any]:
        return self._rows


class TestCommand:
    def octopus(self, *given: str) -> Any:
        return CliRunner().invoke(program(), ["database", "distribute", *given])

    def test_it_asks_first(self):
        done = self.octopus("--db", "postgresql://nobody@localhost:1/octopus")
        assert done.exit_code == 2
        assert "--yes" in done.output

    def test_another_database_is_refused(self):
        done = self.octopus("--yes", "--db", "sqlite:///memory.db")
        assert done.exit_code == 1
        assert "must be a PostgreSQL database" in done.output

    @not_on_citus
    def test_what_is_missing_is_told(self, postgres_database: Database):
        done = self.octopus("--yes", "--db", postgres_database.owner_url)
        assert done.exit_code == 1
        assert "CREATE EXTENSION citus" in done.output


class _Error(Exception):
    sqlstate: str = "08006"


def _translated(said: str, sqlstate: str = "08006") -> Exception:
    error = _Error(said)
    error.sqlstate = sqlstate
    raised = sa.exc.DBAPIError("a statement", None, error)
    return errors.translate(raised, "PostgreSQL database 'octopus' at c")


class TestErrors:
    @pytest.mark.parametrize(
        "said",
        [
            "connection to the remote node octopus_app@w:5432 failed with the following error: no",
            "could not establish any connections to the node w:5432 after 5000 ms",
            'could not connect to w:5432 to get size of relation "octopus_scopes"',
        ],
    )
    def test_a_silent_node_is_named(self, said: str):
        error = _translated(said)
        assert isinstance(error, StoreUnavailable)
        assert "node w:5432 does not answer" in str(error)
        assert "octopus_app" not in str(error)

    def test_the_coordinators_own_end_is_none_of_a_node(self):
        error = _Error("server closed the connection unexpectedly")
        assert errors.silent_node(error) is None
        assert errors.is_end_of_connection(error)
        gone = _Error("connection to the remote node a@w:5432 failed")
        assert not errors.is_end_of_connection(gone)

    def test_a_commit_that_a_node_did_not_answer(self):
        said = "could not commit transaction for shard 102008 on any active node"
        assert isinstance(_translated(said, "XX000"), StoreAnswerLost)


class TestNodes:
    """What the nodes answer, and what follows from it."""

    @pytest.mark.parametrize(
        ("begun", "oldest", "is_done"),
        [
            ({"w:1": "700"}, {"w:1": "700"}, True),
            ({"w:1": "700"}, {"w:1": "699"}, False),
            ({"w:1": "4294967290"}, {"w:1": "5"}, True),
            ({"w:1": "5"}, {"w:1": "4294967290"}, False),
            ({"w:1": "700", "w:2": "9"}, {"w:1": "701", "w:2": ""}, True),
            ({"w:1": "700", "w:2": "9"}, {"w:1": "701", "w:2": None}, False),
            ({"w:1": None}, {"w:1": None}, False),
        ],
    )
    def test_a_rewrite_is_done_when_no_node_kept_a_row(
        self,
        monkeypatch: pytest.MonkeyPatch,
        begun: dict[str, str | None],
        oldest: dict[str, str | None],
        is_done: bool,
    ):
        conn, given = _Cluster(begun, oldest), ["octopus_turns"]
        monkeypatch.setattr(nodes, "_PAUSE_SECONDS", 0)
        monkeypatch.setattr(nodes, "ask", conn.ask)
        monkeypatch.setattr(nodes, "is_spread", lambda *_: True)
        assert nodes.rewrite(conn, given) is is_done  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("may", "is_done", "warns"),
        [
            ({"c:1": "t", "w:1": "t"}, True, False),
            ({"c:1": "t", "w:1": "f"}, False, True),
            ({"c:1": "t", "w:1": None}, False, True),
            # A single server whose role may not do it is not held up by that either.
            ({"c:1": "f", "w:1": "f"}, True, False),
        ],
    )
    def test_a_log_that_is_not_switched_leaves_it_undone(
        self,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        may: dict[str, str | None],
        is_done: bool,
        warns: bool,
    ):
        monkeypatch.setattr(nodes, "ask", lambda *_: may)
        assert compaction._switch_logs(None) is is_done  # type: ignore[arg-type]
        assert ("w:1" in caplog.text) is warns


class _Cluster:
    def __init__(self, begun: dict[str, str | None], oldest: dict[str, str | None]) -> None:
        self._begun, self._oldest = begun, oldest

    def ask(self, _: Any, command: str) -> dict[str, str | None]:
        return self._oldest if "relfrozenxid" in command else self._begun

    def exec_driver_sql(self, statement: str) -> Any:
        assert re.match(r"VACUUM \(FULL\) octopus_turns$|\s*SELECT relnamespace", statement)
        return self

    def scalar_one(self) -> str:
        return "public"


def test_a_receipt_names_the_nodes_of_a_distributed_database_alone():
    receipt = EraseReceipt(
        id=new_id(), at=START, tenant="acme", subject="a hash", removed={"turns": 1}, physical=True
    )
    assert "nodes" not in receipt.to_dict()
    assert EraseReceipt.from_dict(receipt.to_dict()) == receipt
    named = EraseReceipt.from_dict({**receipt.to_dict(), "nodes": ["c:1", "w:1"]})
    kept = named.to_dict()
    assert kept["nodes"] == ["c:1", "w:1"]
    assert is_genuine(kept)
    assert not is_genuine({**kept, "nodes": ["c:1"]})
