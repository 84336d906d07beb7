"""Erasing and recording with several processes on one database."""

from __future__ import annotations

import pytest

from tests.support import child_process, erase_child_actions
from tests.support.erase_child_actions import VICTIM

pytestmark = [pytest.mark.process, pytest.mark.both_databases]

THREADS, EACH = 3, 4


def test_another_process_that_only_reads_forgets_too(database_url: str):
    with erase_child_actions.open_memory(database_url) as memory:
        memory.scope(user=VICTIM).store([("user", "what I said before")])
        memory.run_pending()
        with child_process.running(erase_child_actions.recall_and_wait, database_url) as (_, pipe):
            assert pipe.recv() == 1
            memory.tenant().erase_user(VICTIM)
            assert pipe.poll(60)
            assert pipe.recv() == "gone"


def test_one_chain_from_many_threads_of_many_processes(database_url: str):
    with erase_child_actions.open_memory(database_url) as memory:
        barrier = child_process.CONTEXT.Barrier(3)
        started = [
            child_process.running(
                erase_child_actions.record_from_threads, database_url, name, THREADS, EACH, barrier
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
