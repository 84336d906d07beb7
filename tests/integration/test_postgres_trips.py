"""How often the hot calls go to a PostgreSQL server, and what it reads for them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from postgres_server import connected

from octopus_memory import EpisodicMemory, StoreBusy
from octopus_memory.adapters.stores.postgres.driver import Prepared
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.adapters.stores.statements import reads
from octopus_memory.testing import make_append, make_next
from octopus_memory.testing.store_tests import ANA
from postgres_installation import Database

pytestmark = pytest.mark.usefixtures("postgres")


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
        do()
        raw.pgconn.untrace()
        trace.seek(0)
        sent = [line.split("\t") for line in trace if "\tF\t" in line]
    return sum(message[3].strip() in {"Sync", "Query"} for message in sent)


def test_a_read_is_one_trip(store: PostgresStore):
    write = make_append(ANA, "hello", "world")
    store.append(write)
    places = [(write.episode_id, 0), (write.episode_id, 1)]
    assert _trips(store, lambda: store.recall_state(ANA)) == 1
    assert _trips(store, lambda: store.turns_at(ANA, places)) == 1
    assert _trips(store, lambda: store.episodes(ANA, [write.episode_id])) == 1
    assert _trips(store, lambda: store.list_episodes(ANA, offset=0, limit=5, count=False)) == 1
    assert _trips(store, lambda: store.config("acme", "hr")) == 1


def test_what_must_see_one_moment_takes_one_more_to_end_it(store: PostgresStore):
    store.append(make_append(ANA, "hello"))
    assert _trips(store, lambda: store.recall_block(ANA, after=0, late=[1, 2], model="m")) == 2


def test_the_loop_of_an_agent(postgres_database: Database):
    """A message is stored, and what was said before is recalled for it."""
    with EpisodicMemory.open(postgres_database.url, embedder="hashing", background=False) as memory:
        scope, store = memory.scope(user="ana"), memory.parts.store
        assert isinstance(store, PostgresStore)

        def add() -> None:
            scope.add("now", ("user", "And when does it come back?"))

        def recall() -> None:
            assert scope.recall("the ferry to Naxos")

        scope.store([("user", "The ferry to Naxos goes at 07:15."), ("assistant", "Noted.")])
        recall()
        # An agent's settings are looked at every two seconds, which may fall into any of these.
        rounds = [[_trips(store, call) for call in (add, recall, recall)] for _ in range(5)]
        # The first recall makes findable what was just said, and reads it.
        assert [min(trips) for trips in zip(*rounds, strict=True)] == [2, 9, 2]


def test_places_are_read_by_themselves(store: PostgresStore, postgres_database: Database):
    """Not every turn of a scope, however few episodes the server takes it to have."""
    writes = [make_append(ANA, *"abcde", session_id=f"s{number}") for number in range(40)]
    for write in writes:
        store.append(write)
    places = [(write.episode_id, 3) for write in writes[:5]]
    assert len(store.turns_at(ANA, places)) == 5
    [(statement, keys)] = [
        key for key in store._hot._known if key[0].name.endswith("_turns_at(5,)")
    ]
    prepared = Prepared(statement(), keys, store._engine.dialect)
    given = reads.who(ANA) | {
        name: value
        for number, place in enumerate(places)
        for name, value in zip((f"episode_{number}", f"ordinal_{number}"), place, strict=True)
    }
    with connected(postgres_database.admin_url) as conn:
        conn.execute("ANALYZE")
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {prepared.text}"
        [[[plan]]] = conn.execute(explain.encode(), prepared.values(given)).fetchall()
    looked_at = [
        node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0)
        for node in _nodes(plan["Plan"])
        if node.get("Relation Name") == "octopus_turns"
    ]
    assert sum(looked_at) == len(places)


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
