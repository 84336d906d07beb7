"""How often common calls go to a PostgreSQL server, and what it reads for them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from octopus_memory import EpisodicMemory, StoreBusy
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.adapters.stores.sql.rows import KINDS
from octopus_memory.adapters.stores.sql.seals import OFF
from octopus_memory.adapters.stores.sql.statements import common
from octopus_memory.engine.core import runtime
from octopus_memory.ports.recall_rows import RowPart, WorkKind
from octopus_memory.ports.values import EpisodeQuery
from octopus_memory.testing import make_append, make_closing, make_next, make_scope
from octopus_memory.testing.fakes import START
from octopus_memory.testing.store.base import ANA
from tests.support.citus_server import not_on_citus
from tests.support.postgres_installation import Database, Installation
from tests.support.postgres_server import connected

pytestmark = not_on_citus
TRACED = pytest.mark.skipif(sys.platform != "linux", reason="psycopg traces on Linux alone")


@pytest.fixture
def store(postgres_database: Database) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_database.url, pool_size=1)
    yield store
    store.close()


def _trips(store: PostgresStore, do: Callable[[], object]) -> int:
    """How often it was waited for the server: each time, a message says that it may answer."""
    with tempfile.TemporaryFile("w+") as trace:
        pooled = store._engine.raw_connection()
        raw: Any = pooled.driver_connection
        pooled.close()
        raw.pgconn.trace(trace.fileno())
        try:
            do()
        finally:
            raw.pgconn.untrace()
        trace.seek(0)
        sent = [line.split("\t") for line in trace if "\tF\t" in line]
    return sum(message[3].strip() in {"Sync", "Query"} for message in sent)


@TRACED
def test_a_read_is_one_trip(store: PostgresStore):
    write = make_append(ANA, "hello", "world")
    store.append(write)
    places = [(write.episode_id, 0), (write.episode_id, 1)]
    assert _trips(store, lambda: store.recall_state(ANA)) == 1
    assert _trips(store, lambda: store.turns_at(ANA, places)) == 1
    assert _trips(store, lambda: store.episodes(ANA, [write.episode_id])) == 1
    assert (
        _trips(store, lambda: store.list_episodes(EpisodeQuery(of=ANA, limit=5, count=False))) == 1
    )
    assert _trips(store, lambda: store.config("acme", "hr")) == 1
    assert _trips(store, lambda: store.find_key("none")) == 1
    assert _trips(store, lambda: store.tenants(limit=5)) == 1


@TRACED
def test_a_snapshot_read_takes_one_more_round_trip(store: PostgresStore):
    store.append(make_append(ANA, "hello"))
    assert _trips(store, lambda: store.recall_block(ANA, after=0, late=[1, 2], model="m")) == 2
    # Also one that each call builds anew.
    bin_ = EpisodeQuery(of=ANA, deleted=True, limit=5, count=False)
    assert _trips(store, lambda: store.list_episodes(bin_)) == 2


@TRACED
def test_the_loop_of_an_agent(postgres_database: Database, monkeypatch: pytest.MonkeyPatch):
    """A message is stored, and what was said before is recalled for it."""
    # An agent's settings are looked at every two seconds, which could fall into any call.
    monkeypatch.setattr(runtime, "_CONFIG_SECONDS", 3_600)
    with EpisodicMemory.open(postgres_database.url, embedder="hashing", background=False) as memory:
        scope, store = memory.scope(user="ana"), memory.runtime.store
        assert isinstance(store, PostgresStore)

        def add() -> None:
            scope.add("now", ("user", "And when does it come back?"))

        def recall() -> None:
            assert scope.recall("the ferry to Naxos")

        scope.store([("user", "The ferry to Naxos goes at 07:15."), ("assistant", "Noted.")])
        add()
        recall()
        # The first recall makes findable what was just said, and reads it. A fact may answer the
        # turn before, which is read, too.
        for _ in range(3):
            assert [_trips(store, call) for call in (add, recall, recall)] == [2, 10, 2]


class Filled:
    """One user of 2,400 turns in few episodes, and a hundred of one turn."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.store = PostgresStore(database.url)
        said = [str(number) for number in range(60)]
        self.writes = [
            make_append(ANA, *said, session_id=f"s{number}", closing=make_closing())
            for number in range(40)
        ]
        for write in self.writes:
            self.store.append(write)
        for number in range(100):
            self.store.append(make_append(make_scope(f"user {number}"), "hello"))
        self.store.delete(ANA, self.writes[-1].episode_id, at=START)
        with connected(database.owner_url) as owner:
            owner.execute("ANALYZE")

    def rows_read(self, table: str, name: str, given: dict[str, Any], role: str = "url") -> float:
        """How many rows of a table a statement that was run looks at."""
        [prepared] = [
            known
            for (statement, _), known in self.store._driver.statements.named.items()
            if statement.name == f"statements.{name}"
        ]
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {prepared.text}"
        with connected(getattr(self.database, role)) as conn, conn.transaction(force_rollback=True):
            conn.execute("SELECT set_config('octopus.reach', 'all', true)")
            [[[plan]]] = conn.execute(explain.encode(), prepared.values(given)).fetchall()
        return sum(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            for node in _nodes(plan["Plan"])
            if node.get("Relation Name") == table and "Scan" in node["Node Type"]
        )


@pytest.fixture(scope="module")
def filled(postgres: Installation) -> Iterator[Filled]:
    with postgres.new_database() as database:
        filled = Filled(database)
        yield filled
        filled.store.close()


# Row-level security, which does not hold administrators, changes what the server may do first.
@pytest.mark.parametrize("role", ["url", "admin_url"])
def test_turns_are_read_by_their_places(filled: Filled, role: str):
    """Not every turn of a scope, however few episodes the server takes it to have."""
    places = [(write.episode_id, 3) for write in filled.writes[:5]]
    assert len(filled.store.turns_at(ANA, places)) == 5
    given = common.scope_params(cast("Any", SimpleNamespace(seals=OFF)), ANA) | {
        name: value
        for number, place in enumerate(places)
        for name, value in zip((f"episode_{number}", f"ordinal_{number}"), place, strict=True)
    }
    assert filled.rows_read("octopus_turns", "episodes._turns_at(5,)", given, role) == 5


@pytest.mark.parametrize("role", ["url", "admin_url"])
def test_an_episode_is_removed_by_its_own_rows(filled: Filled, role: str):
    state = filled.store.recall_state(ANA)
    assert state is not None
    this = {"episode_": filled.writes[20].episode_id, "scope_": state.scope_id}
    for table in ("recall", "work"):
        name = f"close._drop_{table}({RowPart.ALL!r},)"
        assert filled.rows_read(f"octopus_{table}", name, this, role) <= 61


def test_work_is_claimed_from_its_beginning(filled: Filled):
    now = START + timedelta(days=1)
    filled.store.claim(WorkKind.EMBED, worker_id="me", limit=10, now=now, until=now)
    given = {"kind_": KINDS[WorkKind.EMBED], "now_": now}
    assert filled.rows_read("octopus_work", "work._waiting(10,)", given) == 10


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


def test_an_error_amid_what_was_sent_together_changes_nothing(store: PostgresStore):
    write = make_append(ANA, "hello")
    store.append(write)
    before = store.recall_state(ANA)
    # An episode of this id is there already, which the server says when all was sent.
    with pytest.raises(StoreBusy):
        store.append(replace(write, session_id="another"))
    assert store.recall_state(ANA) == before
    assert store.session(ANA, "another") is None
    store.append(make_next(write, "world"))
    assert [turn.text for turn in store.turns(ANA, write.episode_id)] == ["hello", "world"]
