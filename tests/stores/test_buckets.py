"""Every statement names its bucket: the store suite on a PostgreSQL whose tables have buckets.

Nothing here needs Citus: the column that chooses the node there is the same on one server.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from octopus_memory.adapters.stores.postgres import distribute
from octopus_memory.adapters.stores.postgres.buckets import OF_SCOPE, bucket_of, placed_tables
from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.adapters.stores.sql.statement_cache import StatementCache
from octopus_memory.adapters.stores.sql.transactions import Person, Reach
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import StoreSuite, make_append, make_scope
from octopus_memory.testing.store.base import Reopen
from tests.support.lookalike_names import FEW
from tests.support.postgres_installation import Database, Installation
from tests.support.postgres_server import connected

ACROSS = {
    "work.claim_unlocked": "a worker takes what waits of any user",
    "work.leases": "leases of a worker that is gone are of any user",
    "work.release_leases": "leases of a worker that is gone are of any user",
    "work.finish": "a removal for the mirror names no user, who may be erased by then",
    "work.postpone": "a removal for the mirror names no user, who may be erased by then",
    "work.backlog": "statistics",
    "stats.stats": "statistics",
    "index_turns.unindexed_turns": "a worker looks for turns of any user",
    "listing.open_episodes": "the job that ends idle sessions looks at every user",
    "listing.any_page": "the list of a tenant's episodes, for an operator",
    "listing.scopes": "the list of users",
    "listing.locate": "finds the user of an episode",
    "overview.tenants": "lists for an operator",
    "overview.agents": "lists for an operator",
    "overview.people": "lists for an operator",
    "retention.aged": "retention looks at every user",
    "vectors.use_model": "another model embeds every user's rows",
    "mirror.use": "a new mirror gets every user's rows",
    "mirror.queue_all": "a new mirror gets every user's rows",
    "mirror.waiting_removals": "an erasure keeps the numbers of scopes, and no user's name",
    "erasure.left_of": "an erasure keeps the numbers of scopes, and no user's name",
    "idempotency.prune": "removes old keys of every user",
    "forget.prune_previews": "removes old previews of every user",
}
"""The calls that run over all nodes, with the reason."""
_SAYS = re.compile(r"\b(?:FROM|JOIN|UPDATE|,)\s+(octopus_\w+)\b(?!\.)(?: AS (\w+))?")


def unplaced(text: str) -> list[str]:
    """The tables in a statement that it does not hold to its bucket."""
    if into := re.match(r"INSERT INTO (\w+) \((.*?)\)", text):
        is_held = into[1] not in placed_tables() or "bucket" in into[2].split(", ")
        return [] if is_held else [into[1]]
    found = [(name, alias or name) for name, alias in _SAYS.findall(text)]
    return [
        name
        for name, called in found
        if name in placed_tables()
        and text.count(f"{called}.bucket = ") < sum(each == called for _, each in found)
    ]


class WatchedStore(PostgresStore):
    """Notes the statements about one user that lack its bucket, and the calls across users."""

    def __init__(self, url: str) -> None:
        self.lacking: list[str] = []
        self.across: set[str] = set()
        self._running = threading.local()
        super().__init__(url)
        assert self._placing is not None
        self._watch(self._placing.in_one, self._note_in_one)
        self._watch(self._placing.across, self._note_across)

    def _watch(self, cache: StatementCache[Any], note: Callable[[str], None]) -> None:
        find = cache.find

        def watched(statement: Any, keys: Any) -> Any:
            made = find(statement, keys)
            note(made[0].text)
            return made

        cache.find = watched  # type: ignore[method-assign]

    def _note_in_one(self, text: str) -> None:
        if unplaced(text):
            self.lacking.append(text)

    def _note_across(self, text: str) -> None:
        if any(name in placed_tables() for name in re.findall(r"octopus_\w+", text)):
            self.across.add(self._running.name)

    def _attempt_read(self, reach: Reach, do: Any, *args: Any, **named: Any) -> Any:
        self._running.name = _name(do)
        return super()._attempt_read(reach, do, *args, **named)

    def _attempt_write(self, reach: Reach, do: Any, *args: Any, **named: Any) -> Any:
        self._running.name = _name(do)
        return super()._attempt_write(reach, do, *args, **named)


def _name(do: Any) -> str:
    return f"{do.__module__.rpartition('.')[2]}.{do.__name__}"


@pytest.fixture(scope="module")
def placed(postgres: Installation) -> Iterator[Database]:
    with postgres.new_database() as database:
        with connected(database.admin_url) as conn:
            for table in placed_tables().values():
                for statement in distribute.add_bucket(table):
                    conn.execute(statement.encode())
        yield database


@pytest.fixture(scope="module")
def opened(placed: Database) -> Iterator[WatchedStore]:
    store = WatchedStore(placed.url)
    yield store
    store.close()


class TestBuckets(StoreSuite):
    @pytest.fixture
    def store(
        self, postgres: Installation, placed: Database, opened: WatchedStore
    ) -> Iterator[EpisodeStore]:
        yield opened
        postgres.empty(placed.name)
        assert opened.lacking == []
        assert opened.across <= ACROSS.keys()

    @pytest.fixture
    def reopen(self, placed: Database, store: EpisodeStore) -> Iterator[Reopen]:
        made: list[EpisodeStore] = [store]

        def again() -> EpisodeStore:
            made[-1].close()
            made.append(PostgresStore(placed.url))
            return made[-1]

        yield again
        made[-1].close()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT octopus_turns.id FROM octopus_turns WHERE octopus_turns.tenant = 'a'",
        "UPDATE octopus_turns SET tokens=1",
        "INSERT INTO octopus_turns (id, tenant) VALUES (1, 2)",
        "SELECT 1 FROM octopus_turns, octopus_episodes AS e WHERE e.bucket = %(bucket_)s",
    ],
)
def test_a_statement_without_its_bucket_is_noticed(text: str):
    assert unplaced(text) == ["octopus_turns"]


@pytest.mark.parametrize("user", FEW)
def test_the_server_makes_the_same_bucket_of_a_name(placed: Database, user: str):
    store = PostgresStore(placed.url)
    store.append(make_append(make_scope(tenant="acme", user=user), "hello"))
    store.close()
    with connected(placed.admin_url) as conn:
        made = conn.execute(f"SELECT bucket, {OF_SCOPE} FROM octopus_scopes").fetchall()
        conn.execute("DELETE FROM octopus_scopes")
    expected = bucket_of(Person("acme", user), store._alone.dialect)
    assert made == [(expected, expected)]
