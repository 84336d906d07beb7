"""The nightly run through the public calls: what moves, what it reports, when it runs."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import (
    ArchiveMode,
    Episode,
    EpisodicMemory,
    EpisodicRetentionPolicy,
    InvalidInput,
    LegalHold,
    MemoryConfig,
    MemoryRetentionJob,
    MemoryScope,
    RetentionCounts,
    RetentionReport,
    StoreBusy,
)
from octopus_memory.engine import background
from octopus_memory.engine.keeping import due, retention
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import FakeSummarizer, FixedClock, make_append, make_closing

pytestmark = pytest.mark.both_databases

TALK = [
    ("user", "How many leave days do I have left?"),
    ("assistant", "You have 12 days remaining."),
]


def policy(**days: Any) -> MemoryConfig:
    return MemoryConfig(retention=EpisodicRetentionPolicy(**days))


def tell(scope: MemoryScope, clock: FixedClock, *, days: float = 0, **more: Any) -> Episode:
    """A conversation that ended so many days ago."""
    ended = clock.now() - timedelta(days=days)
    return scope.store(TALK, at=ended, ended_at=ended, **more)


def eventually(holds: Callable[[], bool], seconds: float = 30) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


# What moves


def test_an_episode_goes_through_its_stages(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    episode = tell(scope, clock)
    clock.advance(days=89, hours=23)
    assert memory.run_retention().counts == RetentionCounts()
    clock.advance(hours=1)
    report = memory.run_retention()
    assert report.counts == RetentionCounts(archived=1)
    assert (report.started_at, report.complete, report.elsewhere) == (clock.now(), True, False)
    replay = scope.get(episode.id)
    assert (replay.turns, replay.episode.archived_at) == ((), clock.now())
    clock.advance(days=275)
    assert memory.run_retention().counts == RetentionCounts(deleted=1)
    assert [deleted.id for deleted in scope.deleted()] == [episode.id]
    clock.advance(days=6, hours=23)
    assert memory.run_retention().counts == RetentionCounts()
    clock.advance(hours=1)
    assert memory.run_retention().counts == RetentionCounts(purged=1)
    assert memory.stats().episodes == memory.stats().scopes == 0


def test_one_that_is_very_old_is_in_its_stage_after_one_run(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    tell(scope, clock, days=400)
    memory.configure("at once", policy(purge_grace_days=0))
    tell(memory.scope(agent="at once", user="u"), clock, days=400)
    memory.configure("for good", policy(delete_after_archival_period=False))
    kept = tell(memory.scope(agent="for good", user="u"), clock, days=4_000)
    for dry in (True, False):
        report = memory.run_retention(dry_run=dry)
        assert report.counts == RetentionCounts(archived=1, deleted=2, purged=1)
    assert len(scope.deleted()) == 1
    assert memory.scope(agent="at once", user="u").deleted() == []
    assert memory.scope(agent="for good", user="u").get(kept.id).episode.is_archived
    assert memory.run_retention().counts == RetentionCounts()


def test_each_agent_has_its_own_policy(memory: EpisodicMemory, clock: FixedClock):
    memory.configure("short", policy(active_retention_days=1, archive_retention_days=2))
    memory.configure("short", policy(active_retention_days=50), tenant="acme")
    told = {
        (tenant, agent): tell(memory.scope(tenant=tenant, agent=agent, user="u"), clock, days=1.5)
        for tenant in ("acme", "zeta")
        for agent in ("short", "long")
    }
    report = memory.run_retention()
    assert report.counts == RetentionCounts(archived=1)
    [row] = report.agents
    assert (row.tenant, row.agent, row.counts) == ("zeta", "short", RetentionCounts(archived=1))
    assert report.tenants == {"zeta": RetentionCounts(archived=1)}
    for (tenant, agent), episode in told.items():
        found = memory.scope(tenant=tenant, agent=agent, user="u").get(episode.id).episode
        assert found.is_archived == ((tenant, agent) == ("zeta", "short"))


def test_more_than_a_batch(
    memory: EpisodicMemory, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(due, "_BATCH", 3)
    memory.configure("short", policy(active_retention_days=1))
    for number in range(10):
        tell(memory.scope(agent="short", user=str(number)), clock, days=2)
        # Read with the others, since theirs is the shortest policy, and left.
        tell(memory.scope(agent="long", user=str(number)), clock, days=2)
    seen: list[RetentionReport] = []
    report = memory.run_retention(progress=seen.append)
    assert report.counts == RetentionCounts(archived=10)
    assert [one.batches for one in seen] == list(range(1, report.batches + 1))
    moved = [one.counts.moved for one in seen]
    assert moved == sorted(moved)
    assert moved[-1] == 10
    assert max(b - a for a, b in zip([0, *moved], moved, strict=False)) <= 3
    assert not any(one.complete for one in seen)


def test_idle_sessions_are_closed_and_what_is_old_moves_on(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    old = scope.open_episode("old")
    scope.add(old.id, TALK)
    clock.advance(days=100)
    young = scope.open_episode("young")
    scope.add(young.id, TALK)
    clock.advance(minutes=31)
    expected = RetentionCounts(timed_out=2, archived=1)
    assert memory.run_retention(dry_run=True).counts == expected
    assert scope.get(old.id).episode.is_open
    assert memory.run_retention().counts == expected
    found = scope.get(old.id).episode
    assert (found.end_reason, found.ended_at) == ("timeout", old.started_at)
    assert found.is_archived
    assert scope.get(young.id).episode.end_reason == "timeout"
    assert not scope.get(young.id).episode.is_archived


def test_a_run_for_another_time(memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock):
    episode = tell(scope, clock)
    later = clock.now() + timedelta(days=91)
    assert memory.run_retention(dry_run=True, now=later).counts == RetentionCounts(archived=1)
    assert memory.run_retention(now=later).counts == RetentionCounts(archived=1)
    assert scope.get(episode.id).episode.archived_at == later
    with pytest.raises(InvalidInput, match="time zone"):
        memory.run_retention(now=datetime(2025, 1, 1))


def test_what_has_no_summary_gets_one_before_its_turns_go(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    empty = tell(scope, clock, summary="", key_facts=["Likes tea."])
    # As another program may have left it.
    closing = make_closing(at=clock.now(), summary=None)
    none = make_append(
        scope.scope, "How many sick days do I have left?", at=clock.now(), closing=closing
    )
    memory.parts.store.append(none)
    clock.advance(days=91)
    memory.run_retention()
    for episode_id, word in ((empty.id, "leave"), (none.episode_id, "sick")):
        found = scope.get(episode_id).episode
        assert found.is_archived
        assert f"{word} days" in (found.summary or "")
        assert scope.recall(f"{word} days", limit=1)[0].episode_id == episode_id
    assert scope.get(empty.id).episode.key_facts == ("Likes tea.",)


def test_one_in_which_nothing_was_said(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    episode = scope.open_episode("s")
    scope.close_session("s")
    clock.advance(days=91)
    assert memory.run_retention().counts.archived == 1
    found = scope.get(episode.id)
    assert (found.episode.is_archived, found.episode.summary) == (True, None)
    assert "no summary" in str(found.messages()[0]["content"])
    clock.advance(days=400)
    memory.run_retention()
    assert scope.restore(episode.id).is_archived


def test_a_better_summary_that_was_waited_for_is_not_asked_for_without_turns(
    tmp_path: Path, clock: FixedClock
):
    model = FakeSummarizer("by the model")
    model.fail(times=1)
    url = f"sqlite:///{tmp_path / 'm.db'}"
    with EpisodicMemory.open(
        url, embedder="hashing", clock=clock, summarizer=model, background=False
    ) as memory:
        scope = memory.scope(user="u")
        episode = tell(scope, clock)
        clock.advance(days=91)
        memory.run_retention()
        summary = scope.get(episode.id).episode.summary
        assert memory.run_pending().summarized == 0
        assert scope.get(episode.id).episode.summary == summary


# Holds


def test_a_held_episode_stays_and_is_counted(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    held, free = tell(scope, clock, days=91), tell(scope, clock, days=91)
    tell(scope, clock, days=5)
    tenant = memory.tenant("acme")
    hold = tenant.hold(episode_id=held.id, reason="case 17", actor="cli:lee")
    assert (hold.placed_at, hold.placed_by, hold.reason) == (clock.now(), "cli:lee", "case 17")
    expected = RetentionCounts(archived=1, held=1)
    for dry in (True, False):
        assert memory.run_retention(dry_run=dry).counts == expected
    assert len(scope.get(held.id).turns) == 2
    assert scope.get(free.id).episode.is_archived
    with pytest.raises(LegalHold):
        scope.delete(held.id)
    assert scope.recall("leave days")
    assert tenant.holds() == [hold]
    assert tenant.lift(hold) == hold
    assert tenant.holds() == []
    assert memory.run_retention().counts == RetentionCounts(archived=1)


def test_a_hold_on_a_user_is_for_every_agent_of_the_tenant(
    memory: EpisodicMemory, clock: FixedClock
):
    for tenant in ("acme", "zeta"):
        for agent in ("hr", "it"):
            for user in ("ana", "ben"):
                tell(memory.scope(tenant=tenant, agent=agent, user=user), clock, days=91)
    # An open one is closed, as idle sessions are, and kept.
    memory.scope(tenant="acme", agent="hr", user="ana").add("s", TALK)
    clock.advance(days=91)
    memory.tenant("acme").hold(user="ana", reason="case 17")
    expected = RetentionCounts(timed_out=1, archived=6, held=3)
    for dry in (True, False):
        report = memory.run_retention(dry_run=dry)
        assert report.counts == expected
        assert report.tenants["acme"].held == 3
        assert report.tenants["zeta"].held == 0


# Trouble


class Troubled:
    """A store some of whose calls go wrong."""

    def __init__(self, store: EpisodeStore, **wrong: Callable[..., Any]) -> None:
        self._store = store
        self._wrong = wrong

    def __getattr__(self, name: str) -> Any:
        return self._wrong.get(name) or getattr(self._store, name)


def trouble(memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch, **wrong: Any) -> None:
    troubled = Troubled(memory.parts.store, **wrong)
    parts = memory.parts
    monkeypatch.setitem(parts.__dict__, "store", troubled)


def test_an_episode_that_cannot_be_moved_stops_no_other(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    bad, held, restored, fine = (tell(scope, clock, days=100 - n) for n in range(4))
    store = memory.parts.store
    real = store.archive

    def archive(scope_: Any, episode_id: Any, **more: Any) -> Any:
        if episode_id == bad.id:
            raise StoreBusy("another process is writing")
        if episode_id == held.id:
            memory.tenant("acme").hold(episode_id=held.id, reason="case 17")
        if episode_id == restored.id:
            store.delete(scope_, episode_id, at=clock.now())
            scope.restore(episode_id)
        return real(scope_, episode_id, **more)

    with monkeypatch.context() as patch:
        trouble(memory, patch, archive=archive)
        report = memory.run_retention()
    assert report.counts == RetentionCounts(archived=1, held=1, failed=1)
    assert report.complete
    for episode in (bad, held, restored):
        assert len(scope.get(episode.id).turns) == 2
    assert scope.get(fine.id).episode.is_archived
    assert "StoreBusy" in caplog.text
    assert "leave days" not in caplog.text
    assert memory.run_retention().counts == RetentionCounts(archived=1, held=1)


def test_what_is_restored_while_a_run_looks_at_it_is_not_purged(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    episode = tell(scope, clock)
    scope.delete(episode.id)
    clock.advance(days=8)
    real = memory.parts.store.purge

    def purge(*args: Any, **more: Any) -> Any:
        # Restored, and deleted again: it has its days of grace anew.
        scope.restore(episode.id)
        scope.delete(episode.id)
        return real(*args, **more)

    with monkeypatch.context() as patch:
        trouble(memory, patch, purge=purge)
        assert memory.run_retention().counts == RetentionCounts()
    assert len(scope.deleted()) == 1


def test_nor_deleted(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    memory.configure("hr", policy(archive_mode=ArchiveMode.COLD))
    episode = tell(scope, clock, days=91)
    memory.run_retention()
    clock.advance(days=300)
    real = memory.parts.store.delete

    def delete(*args: Any, **more: Any) -> Any:
        scope.restore(episode.id)
        return real(*args, **more)

    with monkeypatch.context() as patch:
        trouble(memory, patch, delete=delete)
        assert memory.run_retention().counts == RetentionCounts()
    assert len(scope.get(episode.id).turns) == 2


class Killed(BaseException):
    pass


def test_a_run_that_is_killed_is_gone_on_with(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(due, "_BATCH", 2)
    for _ in range(5):
        tell(scope, clock, days=91)

    def strike(report: RetentionReport) -> None:
        if report.counts.archived == 2:
            raise Killed

    with pytest.raises(Killed):
        memory.run_retention(progress=strike)
    assert memory.parts.store.last_run("retention") is None
    # What was done is in the log, though the run has no report.
    [entry] = [e for e in memory.parts.store.audit("acme") if e.action == "retention"]
    assert entry.detail["archived"] == 2
    assert memory.run_retention().counts == RetentionCounts(archived=3)
    assert memory.parts.store.last_run("retention") == clock.now()


# One at a time


def test_while_one_runs_another_is_told_so(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    tell(scope, clock, days=91)
    inner: list[RetentionReport] = []
    report = memory.run_retention(progress=lambda _: inner.append(memory.run_retention()))
    assert report.counts == RetentionCounts(archived=1)
    assert {(one.elsewhere, one.complete, one.counts.moved) for one in inner} == {(True, False, 0)}
    # Looking is always allowed.
    assert memory.run_retention(dry_run=True).elsewhere is False


@pytest.mark.sqlite_alone
def test_one_that_is_taken_over_stops(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(due, "_BATCH", 1)
    for _ in range(3):
        tell(scope, clock, days=91)
    job = MemoryRetentionJob(memory.parts, "another-machine/1/x")
    others: list[RetentionReport] = []

    def sleep_too_long(report: RetentionReport) -> None:
        if report.counts.archived == 1 and not others:
            clock.advance(minutes=6)
            others.append(job.run())

    report = memory.run_retention(progress=sleep_too_long)
    assert (report.complete, report.counts.archived) == (False, 1)
    assert (others[0].complete, others[0].counts.archived) == (True, 2)


@pytest.mark.sqlite_alone
def test_a_slow_one_notices_between_two_episodes(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(retention, "_RENEW_SECONDS", -1.0)
    for _ in range(3):
        tell(scope, clock, days=91)
    other = MemoryRetentionJob(memory.parts, "another-machine/1/x")
    others: list[RetentionReport] = []
    real = memory.parts.store.archive

    def archive(*args: Any, **more: Any) -> Any:
        done = real(*args, **more)
        if not others:
            others.append(RetentionReport(started_at=clock.now(), finished_at=clock.now()))
            clock.advance(minutes=6)
            others[:] = [other.run()]
        return done

    with monkeypatch.context() as patch:
        trouble(memory, patch, archive=archive)
        report = memory.run_retention()
    assert (report.complete, report.counts.archived) == (False, 1)
    assert others[0].counts.archived == 2


@pytest.mark.sqlite_alone
def test_the_lead_of_a_dead_process_ends_at_once(memory: EpisodicMemory, clock: FixedClock):
    import os
    import socket
    import subprocess
    import sys

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    store = memory.parts.store
    for pid, elsewhere in ((dead.pid, False), (os.getpid(), True)):
        lead = store.lead("retention", owner=f"{socket.gethostname()}/{pid}/x")
        assert lead.__enter__() is not None
        assert memory.run_retention().elsewhere is elsewhere
        lead.__exit__(None, None, None)


# What is left behind


def test_each_tenant_has_an_entry_in_its_log(memory: EpisodicMemory, clock: FixedClock):
    for tenant in ("acme", "zeta"):
        tell(memory.scope(tenant=tenant, user="u"), clock, days=91)
    tell(memory.scope(tenant="idle", user="u"), clock)
    memory.run_retention(dry_run=True)
    assert memory.parts.store.audit("acme") == []
    memory.run_retention(actor="cli:lee")
    for tenant in ("acme", "zeta"):
        [entry] = memory.parts.store.audit(tenant)
        assert (entry.action, entry.actor, entry.outcome) == ("retention", "cli:lee", "done")
        assert entry.subject is None
        assert entry.detail == {
            "timed_out": 0, "archived": 1, "deleted": 0, "purged": 0, "held": 0, "failed": 0
        }  # fmt: skip
    assert memory.parts.store.audit("idle") == []


@pytest.mark.both_databases(as_owner=True)
def test_files_are_rewritten_after_a_run_that_removed_something(
    tmp_path: Path, memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    store = memory.parts.store
    assert memory.run_retention().compacted is None
    tell(scope, clock, days=91)
    assert memory.run_retention(compact=False).compacted is None
    assert store.owes_compaction()
    # The next run makes up for it, though it removes nothing itself.
    report = memory.run_retention()
    assert (report.counts.moved, report.compacted) == (0, True)
    assert not store.owes_compaction()
    assert memory.run_retention().compacted is None


@pytest.mark.sqlite_alone
def test_what_cannot_be_rewritten_now_is_said(
    tmp_path: Path, memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    tell(scope, clock, days=91)
    reader = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM octopus_turns").fetchall()
    try:
        report = memory.run_retention()
    finally:
        reader.close()
    assert (report.counts.archived, report.compacted) == (1, False)
    assert memory.run_retention().compacted is True


def test_the_settings_can_leave_the_rewriting_out(
    tmp_path: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OCTOPUS_RETENTION_COMPACT", "false")
    url = f"sqlite:///{tmp_path / 'm.db'}"
    with EpisodicMemory.open(url, embedder="hashing", clock=clock, background=False) as memory:
        tell(memory.scope(user="u"), clock, days=91)
        assert memory.run_retention().compacted is None
        assert memory.run_retention(compact=True).compacted is True


def test_old_idempotency_keys_go_too(memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock):
    scope.add("s", TALK, idempotency_key="k")
    clock.advance(minutes=5)
    memory.run_retention(dry_run=True)
    memory.run_retention()
    assert scope.add("s", TALK, idempotency_key="k")[0].ordinal == 0
    clock.advance(days=8)
    memory.run_retention()
    assert memory.parts.store.prune_idempotency(before=clock.now()) == 0


def test_nothing_that_was_removed_stays_in_memory(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    tell(scope, clock, days=400)
    assert scope.recall("leave days")
    forgotten: list[bool] = []
    real = memory.parts.index.forget
    memory.parts.index.forget = lambda: (forgotten.append(True), real())  # type: ignore[method-assign]
    memory.run_retention()
    assert forgotten


@pytest.mark.sqlite_alone
def test_who_runs_it_must_have_a_name(memory: EpisodicMemory):
    with pytest.raises(InvalidInput, match="actor"):
        memory.run_retention(actor="")


# When it runs


@pytest.fixture
def worker(tmp_path: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Opens a memory whose thread looks often."""
    monkeypatch.setattr(background, "_BETWEEN_ROUNDS", 0.01)
    opened: list[EpisodicMemory] = []

    def open_memory(**more: Any) -> EpisodicMemory:
        url = f"sqlite:///{tmp_path / 'worker.db'}"
        opened.append(EpisodicMemory.open(url, embedder="hashing", clock=clock, **more))
        return opened[-1]

    yield open_memory
    for memory in opened:
        memory.close()


def test_the_thread_runs_it_every_night(worker: Any, clock: FixedClock):
    memory = worker()
    scope = memory.scope(user="u")
    first = tell(scope, clock, days=91)
    store = memory.parts.store
    # The first sight of a database only sets the time.
    assert eventually(lambda: store.last_run("retention") == clock.now())
    assert not scope.get(first.id).episode.is_archived
    assert memory.next_retention() == datetime(2025, 3, 15, 2, 0, tzinfo=UTC)
    clock.set(datetime(2025, 3, 15, 2, 0, tzinfo=UTC))
    assert eventually(lambda: scope.get(first.id).episode.is_archived)
    assert eventually(lambda: store.last_run("retention") == clock.now())
    # Three nights later it runs once, for all of them.
    tell(scope, clock, days=91)
    clock.advance(days=3, hours=1)
    assert eventually(lambda: store.last_run("retention") == clock.now())
    runs = [entry.actor for entry in store.audit("default") if entry.action == "retention"]
    assert runs == ["worker", "worker"]
    assert memory.next_retention() == datetime(2025, 3, 19, 2, 0, tzinfo=UTC)


def test_an_empty_schedule_never_comes(
    worker: Any, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OCTOPUS_RETENTION_SCHEDULE", "")
    memory = worker(background=False)
    assert memory.next_retention() is None
    assert retention.run_if_due(memory.parts, "owner") is None
    assert memory.parts.store.last_run("retention") is None


def test_run_pending_leaves_it_alone(memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock):
    tell(scope, clock, days=91)
    memory.parts.store.set_last_run("retention", clock.now() - timedelta(days=9))
    memory.run_pending()
    assert memory.run_retention(dry_run=True).counts.archived == 1
    report = retention.run_if_due(memory.parts, "owner")
    assert report is not None
    assert report.counts.archived == 1
    assert retention.run_if_due(memory.parts, "owner") is None


def test_closing_stops_a_run_between_batches(
    worker: Any, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(due, "_BATCH", 1)
    memory = worker(background=False)
    for number in range(40):
        tell(memory.scope(user=str(number)), clock, days=91)
    memory.parts.store.set_last_run("retention", clock.now() - timedelta(days=9))
    memory.close()
    begun = threading.Event()
    real = background.Background._between_batches

    def slowly(self: Any, report: RetentionReport) -> None:
        if report.counts.archived:
            begun.set()
            time.sleep(0.01)
        real(self, report)

    monkeypatch.setattr(background.Background, "_between_batches", slowly)
    memory = worker()
    memory.wake()
    assert begun.wait(30)
    memory.close()
    again = worker(background=False)
    left = again.run_retention(dry_run=True).counts.archived
    assert 0 < left < 40
    assert again.parts.store.last_run("retention") == clock.now() - timedelta(days=9)
    assert again.run_retention(compact=False).counts.archived == left


def test_what_is_said_meanwhile_is_embedded(
    worker: Any, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(due, "_BATCH", 1)
    memory = worker(background=False)
    for number in range(3):
        tell(memory.scope(user=str(number)), clock, days=91)
    assert memory.flush()
    thread = background.Background(memory.parts, "owner")
    waiting: list[int] = []

    def said(report: RetentionReport) -> None:
        memory.scope(user="new").add("s", TALK)
        thread._between_batches(report)
        waiting.append(sum(b.waiting for b in memory.stats().backlog.values()))

    memory.parts.store.set_last_run("retention", clock.now() - timedelta(days=9))
    retention.run_if_due(memory.parts, "owner", said)
    assert set(waiting) == {0}


@pytest.mark.sqlite_alone
def test_settings_of_an_agent_that_nobody_can_read_keep_its_episodes(
    tmp_path: Path,
    memory: EpisodicMemory,
    clock: FixedClock,
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.WARNING)
    memory.configure("newer", policy(active_retention_days=1))
    for agent in ("newer", "other"):
        tell(memory.scope(agent=agent, user="u"), clock, days=91)
    conn = sqlite3.connect(tmp_path / "memory.db")
    unknown = json.dumps({"retention": {"phase_of_the_moon": 3}})
    conn.execute("UPDATE octopus_agents SET config = ?", (unknown,))
    conn.commit()
    conn.close()
    report = memory.run_retention()
    assert [row.agent for row in report.agents if row.counts.archived] == ["other"]
    assert "phase_of_the_moon" in caplog.text


def test_cold_is_a_choice_of_the_policy(memory: EpisodicMemory, clock: FixedClock):
    memory.configure("cold", policy(archive_mode=ArchiveMode.COLD))
    for agent in ("cold", "plain"):
        episode = tell(memory.scope(agent=agent, user="u"), clock, days=91)
        memory.run_retention()
        found = memory.scope(agent=agent, user="u").get(episode.id).episode
        assert (found.is_archived, found.is_cold) == (True, agent == "cold")
