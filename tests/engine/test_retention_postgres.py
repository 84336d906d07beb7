"""The same runs where several machines share a PostgreSQL server."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest

from octopus_memory import (
    ArchiveMode,
    EpisodicMemory,
    EpisodicRetentionPolicy,
    MemoryConfig,
    RetentionCounts,
    RetentionReport,
)
from octopus_memory.engine import retention
from octopus_memory.testing import FixedClock
from tests.support.postgres_installation import Database

TALK = [("user", "How many leave days do I have left?"), ("assistant", "You have 12 days.")]


def open_memory(database: Database, clock: FixedClock) -> EpisodicMemory:
    return EpisodicMemory.open(database.url, embedder="hashing", clock=clock, background=False)


def test_an_episode_goes_through_its_stages_and_back(
    postgres_database: Database, clock: FixedClock
):
    with open_memory(postgres_database, clock) as memory:
        cold = EpisodicRetentionPolicy(archive_mode=ArchiveMode.COLD)
        memory.configure("hr", MemoryConfig(retention=cold))
        scope = memory.scope(tenant="acme", agent="hr", user="u")
        episode = scope.store(TALK)
        hold = memory.tenant("acme").hold(user="u", reason="case 17")
        clock.advance(days=90)
        assert memory.run_retention(compact=False).counts == RetentionCounts(held=1)
        memory.tenant("acme").lift(hold)
        assert memory.run_retention(dry_run=True).counts == RetentionCounts(archived=1)
        assert memory.run_retention(compact=False).counts == RetentionCounts(archived=1)
        assert [s.is_archived for s in scope.recall("leave days")] == [True]
        assert scope.restore(episode.id) == episode
        assert [turn.text for turn in scope.get(episode.id).turns] == [text for _, text in TALK]
        clock.advance(days=365)
        assert memory.run_retention(compact=False).counts == RetentionCounts(deleted=1)
        assert scope.recall("leave days") == []
        clock.advance(days=7)
        assert memory.run_retention(compact=False).counts == RetentionCounts(purged=1)
        assert memory.stats().scopes == 0
        actions = [entry.action for entry in memory.runtime.store.audit("acme")]
        assert actions.count("retention") == 3


def test_two_jobs_at_once_beside_writers(
    postgres_database: Database, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retention, "_BATCH", 5)
    ended = clock.now() - timedelta(days=91)
    first, second = (open_memory(postgres_database, clock) for _ in range(2))
    for number in range(20):
        first.scope(user=str(number)).store(TALK, at=ended, ended_at=ended)
    others: list[RetentionReport] = []
    errors: list[BaseException] = []

    def write(user: str) -> None:
        try:
            for number in range(10):
                # One of them in a scope that the run is at.
                second.scope(user=user).add("live", ("user", f"what I said as number {number}"))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test shows it
            errors.append(error)

    def meanwhile(_: Any) -> None:
        others.append(second.run_retention(compact=False))

    writers = [threading.Thread(target=write, args=(user,)) for user in ("3", "new", "17")]
    for writer in writers:
        writer.start()
    report = first.run_retention(progress=meanwhile, compact=False)
    for writer in writers:
        writer.join()
    assert errors == []
    assert report.counts == RetentionCounts(archived=20)
    assert {(one.elsewhere, one.counts.moved) for one in others} == {(True, 0)}
    assert second.run_retention(compact=False).counts == RetentionCounts()
    assert second.stats().turns == 30
    first.close()
    second.close()
