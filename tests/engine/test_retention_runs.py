"""The nightly run as a whole: when it comes, one at a time, and what goes wrong in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from octopus_memory import (
    ArchiveMode,
    EpisodicMemory,
    MemoryRetentionJob,
    MemoryScope,
    RetentionCounts,
    RetentionReport,
    StoreBusy,
)
from octopus_memory.engine import retention
from octopus_memory.engine import worker as worker_module
from octopus_memory.engine.core.leases import new_worker_id
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import FakeSummarizer, FixedClock
from octopus_memory.testing.store.holds import record_run
from tests.support.polling import wait_until
from tests.support.retention_dialogue import TALK, policy, tell

pytestmark = pytest.mark.both_databases


# Trouble


class Troubled:
    """A store some of whose calls go wrong."""

    def __init__(self, store: EpisodeStore, **wrong: Callable[..., Any]) -> None:
        self._store = store
        self._wrong = wrong

    def __getattr__(self, name: str) -> Any:
        return self._wrong.get(name) or getattr(self._store, name)


def trouble(memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch, **wrong: Any) -> None:
    troubled = Troubled(memory.runtime.store, **wrong)
    runtime = memory.runtime
    monkeypatch.setitem(runtime.__dict__, "store", troubled)


def test_an_episode_that_cannot_be_moved_stops_no_other(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    bad, held, restored, fine = (tell(scope, clock, days=100 - n) for n in range(4))
    store = memory.runtime.store
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


def test_an_episode_restored_during_a_run_is_not_purged(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    episode = tell(scope, clock)
    scope.delete(episode.id)
    clock.advance(days=8)
    real = memory.runtime.store.purge

    def purge(*args: Any, **more: Any) -> Any:
        # Restored, and deleted again: it has its days of grace anew.
        scope.restore(episode.id)
        scope.delete(episode.id)
        return real(*args, **more)

    with monkeypatch.context() as patch:
        trouble(memory, patch, purge=purge)
        assert memory.run_retention().counts == RetentionCounts()
    assert len(scope.deleted()) == 1


def test_an_episode_restored_during_a_run_is_not_deleted(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    memory.configure("hr", policy(archive_mode=ArchiveMode.COLD))
    episode = tell(scope, clock, days=91)
    memory.run_retention()
    clock.advance(days=300)
    real = memory.runtime.store.delete

    def delete(*args: Any, **more: Any) -> Any:
        scope.restore(episode.id)
        return real(*args, **more)

    with monkeypatch.context() as patch:
        trouble(memory, patch, delete=delete)
        assert memory.run_retention().counts == RetentionCounts()
    assert len(scope.get(episode.id).turns) == 2


class Killed(BaseException):
    pass


def test_the_next_run_resumes_a_killed_one(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(retention, "_BATCH", 2)
    for _ in range(5):
        tell(scope, clock, days=91)

    def strike(report: RetentionReport) -> None:
        if report.counts.archived == 2:
            raise Killed

    with pytest.raises(Killed):
        memory.run_retention(progress=strike)
    assert memory.runtime.store.last_run("retention") is None
    # What was done is in the log, though the run has no report.
    [entry] = [e for e in memory.runtime.store.audit("acme") if e.action == "retention"]
    assert entry.detail["archived"] == 2
    assert memory.run_retention().counts == RetentionCounts(archived=3)
    assert memory.runtime.store.last_run("retention") == clock.now()


# One at a time


def test_a_second_run_reports_that_one_is_under_way(
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
def test_a_run_that_lost_its_lease_stops(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(retention, "_BATCH", 1)
    for _ in range(3):
        tell(scope, clock, days=91)
    job = MemoryRetentionJob(memory.runtime, "another-machine/1/x")
    others: list[RetentionReport] = []

    def sleep_too_long(report: RetentionReport) -> None:
        if report.counts.archived == 1 and not others:
            clock.advance(minutes=6)
            others.append(job.run())

    report = memory.run_retention(progress=sleep_too_long)
    assert (report.complete, report.counts.archived) == (False, 1)
    assert (others[0].complete, others[0].counts.archived) == (True, 2)


@pytest.mark.sqlite_alone
def test_a_slow_run_checks_its_lease_between_episodes(
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(retention, "_RENEW_SECONDS", -1.0)
    for _ in range(3):
        tell(scope, clock, days=91)
    other = MemoryRetentionJob(memory.runtime, "another-machine/1/x")
    others: list[RetentionReport] = []
    real = memory.runtime.store.archive

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


@pytest.mark.process
@pytest.mark.sqlite_alone
def test_the_lead_of_a_dead_process_ends_at_once(memory: EpisodicMemory, clock: FixedClock):
    import os
    import subprocess
    import sys

    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    store = memory.runtime.store
    for pid, elsewhere in ((dead.pid, False), (os.getpid(), True)):
        lead = store.lead(
            "retention", worker_id=new_worker_id().replace(str(os.getpid()), str(pid))
        )
        assert lead.__enter__() is not None
        assert memory.run_retention().elsewhere is elsewhere
        lead.__exit__(None, None, None)


# When it runs


@pytest.fixture
def worker(tmp_path: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Opens a memory whose thread looks often."""
    monkeypatch.setattr(worker_module, "_BETWEEN_ROUNDS", 0.01)
    opened: list[EpisodicMemory] = []

    def open_memory(**more: Any) -> EpisodicMemory:
        url = f"sqlite:///{tmp_path / 'worker.db'}"
        opened.append(EpisodicMemory.open(url, embedder="hashing", clock=clock, **more))
        return opened[-1]

    yield open_memory
    for memory in opened:
        memory.close()


def test_the_background_thread_runs_retention_every_night(worker: Any, clock: FixedClock):
    memory = worker()
    scope = memory.scope(user="u")
    first = tell(scope, clock, days=91)
    store = memory.runtime.store
    # The first sight of a database only sets the time.
    assert wait_until(lambda: store.last_run("retention") == clock.now())
    assert not scope.get(first.id).episode.is_archived
    assert memory.next_retention() == datetime(2025, 3, 15, 2, 0, tzinfo=UTC)
    clock.set(datetime(2025, 3, 15, 2, 0, tzinfo=UTC))
    assert wait_until(lambda: scope.get(first.id).episode.is_archived)
    assert wait_until(lambda: store.last_run("retention") == clock.now())
    # Three nights later it runs once, for all of them.
    tell(scope, clock, days=91)
    clock.advance(days=3, hours=1)
    assert wait_until(lambda: store.last_run("retention") == clock.now())
    runs = [entry.actor for entry in store.audit("default") if entry.action == "retention"]
    assert runs == ["worker", "worker"]
    assert memory.next_retention() == datetime(2025, 3, 19, 2, 0, tzinfo=UTC)


def test_an_empty_schedule_never_runs(
    worker: Any, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OCTOPUS_RETENTION_SCHEDULE", "")
    memory = worker(background=False)
    assert memory.next_retention() is None
    assert retention.run_if_due(memory.runtime, "owner") is None
    assert memory.runtime.store.last_run("retention") is None


def test_run_pending_does_not_run_retention(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    tell(scope, clock, days=91)
    record_run(memory.runtime.store, "retention", clock.now() - timedelta(days=9))
    memory.run_pending()
    assert memory.run_retention(dry_run=True).counts.archived == 1
    report = retention.run_if_due(memory.runtime, "owner")
    assert report is not None
    assert report.counts.archived == 1
    assert retention.run_if_due(memory.runtime, "owner") is None


def test_what_a_run_closes_and_archives_has_the_models_summary(worker: Any, clock: FixedClock):
    memory = worker(background=False, summarizer=FakeSummarizer("Likes tea."))
    memory.scope(user="u").add("s", TALK)
    clock.advance(days=100)
    counts = memory.run_retention(compact=False).counts
    assert (counts.timed_out, counts.archived) == (1, 1)
    [archived] = memory.scope(user="u").episodes()
    assert archived.summary == "Likes tea."


def test_a_run_for_a_future_day_does_not_skip_the_nights_before_it(worker: Any, clock: FixedClock):
    memory = worker(background=False)
    memory.run_retention(now=clock.now() + timedelta(days=400), compact=False)
    assert memory.runtime.store.last_run("retention") == clock.now()


def test_closing_stops_a_run_between_batches(
    worker: Any, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retention, "_BATCH", 1)
    memory = worker(background=False)
    for number in range(40):
        tell(memory.scope(user=str(number)), clock, days=91)
    record_run(memory.runtime.store, "retention", clock.now() - timedelta(days=9))
    memory.close()
    begun = threading.Event()
    real = worker_module.BackgroundWorker._between_batches

    def slowly(self: Any, report: RetentionReport) -> None:
        if report.counts.archived:
            begun.set()
            time.sleep(0.01)
        real(self, report)

    monkeypatch.setattr(worker_module.BackgroundWorker, "_between_batches", slowly)
    memory = worker()
    memory.wake()
    assert begun.wait(30)
    memory.close()
    again = worker(background=False)
    left = again.run_retention(dry_run=True).counts.archived
    assert 0 < left < 40
    assert again.runtime.store.last_run("retention") == clock.now() - timedelta(days=9)
    assert again.run_retention(compact=False).counts.archived == left


def test_turns_added_during_a_run_are_embedded(
    worker: Any, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retention, "_BATCH", 1)
    memory = worker(background=False)
    for number in range(3):
        tell(memory.scope(user=str(number)), clock, days=91)
    assert memory.flush()
    thread = worker_module.BackgroundWorker(memory.runtime, "owner")
    waiting: list[int] = []

    def said(report: RetentionReport) -> None:
        memory.scope(user="new").add("s", TALK)
        thread._between_batches(report)
        waiting.append(sum(b.waiting for b in memory.stats().backlog.values()))

    record_run(memory.runtime.store, "retention", clock.now() - timedelta(days=9))
    retention.run_if_due(memory.runtime, "owner", said)
    assert set(waiting) == {0}
