"""Erasing and recording with several processes on one database."""

from __future__ import annotations

import erase_children
import pytest
from erase_children import VICTIM

import forked

pytestmark = pytest.mark.both_databases

THREADS, EACH = 3, 4


def test_another_process_that_only_reads_forgets_too(database_url: str):
    with erase_children.open_memory(database_url) as memory:
        memory.scope(user=VICTIM).store([("user", "what I said before")])
        memory.run_pending()
        with forked.child(erase_children.recall_and_wait, database_url) as (_, pipe):
            assert pipe.recv() == 1
            memory.tenant().erase_user(VICTIM)
            assert pipe.poll(60)
            assert pipe.recv() == "gone"


def test_one_chain_from_many_threads_of_many_processes(database_url: str):
    with erase_children.open_memory(database_url) as memory:
        barrier = forked.CONTEXT.Barrier(3)
        started = [
            forked.child(
                erase_children.record_from_threads, database_url, name, THREADS, EACH, barrier
            )
            for name in ("a", "b")
        ]
        with started[0] as (_, first), started[1] as (_, second):
            barrier.wait()
            assert first.recv() == []
            assert second.recv() == []
        found = memory.tenant().verify_audit()
        assert found.is_whole
        # Each erasure is recorded, and so is its receipt.
        assert found.entries == 2 * THREADS * EACH * 2
        actors = {entry.actor for entry in memory.tenant().audit()}
        assert actors == {f"{name}.{number}" for name in "ab" for number in range(THREADS)}
