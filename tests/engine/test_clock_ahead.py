"""A clock that was ahead for a while, and is set right: nothing stays undone until then."""

from __future__ import annotations

from datetime import timedelta

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.engine.retention import run_if_due
from octopus_memory.engine.write import index_turns
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.testing import FixedClock
from octopus_memory.testing.store.base import worker_ids

YEAR = timedelta(days=365)
OTHER = "another-machine/1/abc"
"""Of which nobody here can tell whether it runs."""


@pytest.mark.both_databases
@pytest.mark.parametrize("state", ["queued", "claimed", "put off"])
def test_waiting_work_is_done_after_the_clock_is_set_back(
    memory: EpisodicMemory, clock: FixedClock, state: str
):
    scope, store = memory.scope(agent="hr", user="ana"), memory.runtime.store
    now = clock.now()
    clock.set(now + YEAR)
    scope.add("s", [("user", "My dog is called Rex and likes to run")])
    index_turns.make_some(memory.runtime)
    until = clock.now() + timedelta(minutes=1)
    if state != "queued":
        work = store.claim(WorkKind.EMBED, worker_id=OTHER, limit=10, now=clock.now(), until=until)
        assert len(work) == 1
    if state == "put off":
        store.postpone(work, until=until)
    clock.set(now)
    assert memory.flush(timeout=10)
    assert memory.stats().backlog[WorkKind.EMBED].waiting == 0
    assert all(turn.embedding_ref for turn in scope.session("s").turns)


def test_work_claimed_by_another_worker_is_not_taken(memory: EpisodicMemory, clock: FixedClock):
    memory.scope(agent="hr", user="ana").add("s", [("user", "I have a dog that likes to run")])
    memory.run_pending()
    memory.scope(agent="hr", user="ana").add("s", [("user", "And a cat that sleeps all day")])
    index_turns.make_some(memory.runtime)
    until = clock.now() + timedelta(minutes=2)
    claimed = memory.runtime.store.claim(
        WorkKind.EMBED, worker_id=OTHER, limit=10, now=clock.now(), until=until
    )
    assert len(claimed) == 1
    memory.run_pending()
    assert worker_ids(memory.runtime.store) == [OTHER]
    assert memory.stats().backlog[WorkKind.EMBED].waiting == 1


def test_retention_runs_though_its_lease_ends_in_the_future(
    memory: EpisodicMemory, clock: FixedClock
):
    now = clock.now()
    clock.set(now + YEAR)
    killed = memory.runtime.store.lead("retention", worker_id=OTHER)
    assert killed.__enter__() is not None
    clock.set(now)
    assert not memory.run_retention().elsewhere
    killed.__exit__(None, None, None)


def test_retention_does_not_run_while_another_worker_leads(
    memory: EpisodicMemory, clock: FixedClock
):
    """By a machine whose clock is some minutes ahead."""
    now = clock.now()
    clock.set(now + timedelta(minutes=10))
    with memory.runtime.store.lead("retention", worker_id=OTHER):
        clock.set(now)
        assert memory.run_retention().elsewhere


def test_retention_runs_again_though_its_last_run_is_in_the_future(
    memory: EpisodicMemory, clock: FixedClock
):
    now = clock.now()
    clock.set(now + YEAR)
    memory.run_retention()
    clock.set(now)
    following = memory.next_retention()
    assert following is not None
    assert following <= now + timedelta(days=1)
    assert run_if_due(memory.runtime, "worker") is None
    clock.advance(days=1, hours=1)
    assert run_if_due(memory.runtime, "worker") is not None
