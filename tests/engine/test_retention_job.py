"""The nightly run through the public calls: what moves, and what it reports."""

from __future__ import annotations

import json
import logging
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from octopus_memory import (
    ArchiveMode,
    EpisodicMemory,
    InvalidInput,
    LegalHold,
    MemoryScope,
    RetentionCounts,
    RetentionReport,
)
from octopus_memory.engine import retention
from octopus_memory.testing import FakeSummarizer, FixedClock, make_append, make_closing
from tests.support.retention_dialogue import TALK, policy, tell

pytestmark = pytest.mark.both_databases

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


def test_a_very_old_episode_reaches_its_stage_in_one_run(
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
    longer = policy(active_retention_days=50, archive_retention_days=365)
    memory.configure("short", longer, tenant="acme")
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


def test_more_episodes_than_a_batch_are_moved(
    memory: EpisodicMemory, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retention, "_BATCH", 3)
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


def test_a_dry_run_reads_the_facts_of_a_user_once(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
):
    for number in range(5):
        said = [("user", f"I live in Vienna. My sister is called Ana{number}.")]
        scope.store(said, session_id=f"s{number}", at=clock.now() - timedelta(days=400 + number))
    memory.flush()
    scope.add_fact("Prefers tea.", "preference", pinned=True)
    store, read = memory.runtime.store, []
    facts = type(store).facts
    monkeypatch.setattr(type(store), "facts", lambda *a, **k: read.append(a) or facts(*a, **k))
    expected = memory.run_retention(dry_run=True).counts
    assert len(read) == 1
    assert expected.deleted == 5
    assert expected.facts > 1
    assert memory.run_retention().counts == expected


def test_a_run_can_be_made_for_another_time(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    episode = tell(scope, clock)
    later = clock.now() + timedelta(days=91)
    assert memory.run_retention(dry_run=True, now=later).counts == RetentionCounts(archived=1)
    assert memory.run_retention(now=later).counts == RetentionCounts(archived=1)
    assert scope.get(episode.id).episode.archived_at == later
    with pytest.raises(InvalidInput, match="time zone"):
        memory.run_retention(now=datetime(2025, 1, 1))


def test_an_episode_without_a_summary_gets_one_before_archiving(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    empty = tell(scope, clock, summary="", key_facts=["Likes tea."])
    # As another program may have left it.
    closing = make_closing(at=clock.now(), summary=None)
    none = make_append(
        scope.scope, "How many sick days do I have left?", at=clock.now(), closing=closing
    )
    memory.runtime.store.append(none)
    clock.advance(days=91)
    memory.run_retention()
    for episode_id, word in ((empty.id, "leave"), (none.episode_id, "sick")):
        found = scope.get(episode_id).episode
        assert found.is_archived
        assert f"{word} days" in (found.summary or "")
        assert scope.recall(f"{word} days", limit=1)[0].episode_id == episode_id
    assert scope.get(empty.id).episode.key_facts == ("Likes tea.",)


def test_an_empty_episode_is_archived_without_a_summary(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    memory.configure("hr", policy(archive_mode=ArchiveMode.SUMMARY))
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


# What is left behind


def test_each_tenant_has_an_entry_in_its_log(memory: EpisodicMemory, clock: FixedClock):
    for tenant in ("acme", "zeta"):
        tell(memory.scope(tenant=tenant, user="u"), clock, days=91)
    tell(memory.scope(tenant="idle", user="u"), clock)
    memory.run_retention(dry_run=True)
    assert memory.runtime.store.audit("acme") == []
    memory.run_retention(actor="cli:lee")
    for tenant in ("acme", "zeta"):
        [entry] = memory.runtime.store.audit(tenant)
        assert (entry.action, entry.actor, entry.outcome) == ("retention", "cli:lee", "done")
        assert entry.subject is None
        assert entry.detail == {
            "timed_out": 0, "archived": 1, "deleted": 0, "purged": 0, "held": 0, "failed": 0,
            "facts": 0,
        }  # fmt: skip
    assert memory.runtime.store.audit("idle") == []


@pytest.mark.both_databases(as_owner=True)
def test_files_are_rewritten_after_a_run_that_removed_something(
    tmp_path: Path, memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    store = memory.runtime.store
    assert memory.run_retention().compacted is None
    tell(scope, clock, days=91)
    assert memory.run_retention(compact=False).compacted is None
    assert store.state().owes_compaction
    # The next run makes up for it, though it removes nothing itself.
    report = memory.run_retention()
    assert (report.counts.moved, report.compacted) == (0, True)
    assert not store.state().owes_compaction
    assert memory.run_retention().compacted is None


@pytest.mark.sqlite_alone
def test_a_failed_rewrite_is_reported(
    tmp_path: Path,
    memory: EpisodicMemory,
    scope: MemoryScope,
    clock: FixedClock,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("octopus_memory.adapters.stores.sqlite.store._CHECKPOINTS", 2)
    monkeypatch.setattr("octopus_memory.adapters.stores.sqlite.store._CHECKPOINT_MS", 10)
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
    assert memory.runtime.store.prune_idempotency_keys(before=clock.now()) == 0


def test_nothing_that_was_removed_stays_in_memory(
    memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock
):
    tell(scope, clock, days=400)
    assert scope.recall("leave days")
    forgotten: list[bool] = []
    real = memory.runtime.index.clear_cache
    memory.runtime.index.clear_cache = lambda: (forgotten.append(True), real())  # type: ignore[method-assign]
    memory.run_retention()
    assert forgotten


@pytest.mark.sqlite_alone
def test_who_runs_it_must_have_a_name(memory: EpisodicMemory):
    with pytest.raises(InvalidInput, match="actor"):
        memory.run_retention(actor="")


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


def test_an_archive_is_cold_unless_the_policy_wants_summaries(
    memory: EpisodicMemory, clock: FixedClock
):
    memory.configure("bare", policy(archive_mode=ArchiveMode.SUMMARY))
    for agent in ("bare", "usual"):
        episode = tell(memory.scope(agent=agent, user="u"), clock, days=91)
        memory.run_retention()
        found = memory.scope(agent=agent, user="u").get(episode.id).episode
        assert (found.is_archived, found.is_cold) == (True, agent == "usual")
