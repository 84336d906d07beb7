"""What processes share on a real server: work that nobody does twice, and one that leads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest

from octopus_memory.adapters.stores.postgres.store import PostgresStore
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.testing import make_append, make_scope
from octopus_memory.testing.store.base import FAR, at_once, raised
from tests.support.polling import wait_until
from tests.support.postgres_installation import Database, kill_connections


@pytest.fixture
def store(postgres_database: Database) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres_database.url)
    yield store
    store.close()


def test_two_workers_claim_nothing_twice(postgres_database: Database):
    stores = [PostgresStore(postgres_database.url) for _ in range(2)]
    for number in range(20):
        stores[0].append(make_append(make_scope(f"user {number}"), *"abcde"))

    def work(number: int) -> list[int]:
        store, taken = stores[number % 2], []
        while claimed := store.claim(
            WorkKind.EMBED, worker_id=str(number), limit=7, now=FAR, until=FAR + timedelta(hours=1)
        ):
            taken += [piece.id for piece in claimed]
        return taken

    outcomes = at_once(work, threads=4)
    assert raised(outcomes) == []
    taken = [piece for outcome in outcomes for piece in outcome]  # type: ignore[union-attr]
    assert len(taken) == len(set(taken)) == 100
    for store in stores:
        store.close()


def test_one_worker_leads_at_a_time(postgres_database: Database):
    first, second = PostgresStore(postgres_database.url), PostgresStore(postgres_database.url)
    with first.lead("retention", worker_id="one") as lead:
        assert lead is not None
        assert lead.renew()
        with second.lead("retention", worker_id="two") as other:
            assert other is None
        with second.lead("another", worker_id="two") as other:
            assert other is not None
    with second.lead("retention", worker_id="two") as lead:
        assert lead is not None
        kill_connections(postgres_database)
        assert not lead.renew()
        assert not lead.renew()
        with first.lead("retention", worker_id="one") as other:
            assert other is not None
    first.close()
    second.close()


_LEADING = """
import sys
from octopus_memory.adapters.stores.postgres.store import PostgresStore
with PostgresStore(sys.argv[1]).lead("retention", worker_id="child") as lead:
    print(lead is not None, flush=True)
    sys.stdin.read()
"""


@pytest.mark.process
def test_a_leader_that_is_killed_leads_no_more(postgres_database: Database, store: PostgresStore):
    with subprocess.Popen(
        [sys.executable, "-c", _LEADING, postgres_database.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout
        assert child.stdout.readline() == "True\n"
        with store.lead("retention", worker_id="parent") as lead:
            assert lead is None
        child.kill()
        child.wait()
    assert wait_until(lambda: _leads(store))


def _leads(store: PostgresStore) -> bool:
    with store.lead("retention", worker_id="parent") as lead:
        return lead is not None
