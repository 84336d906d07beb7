"""Erasures that are finished later: what stood in the way, and what the receipts say of it."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from octopus_memory import (
    EpisodicMemory,
    MemoryScope,
    NotFound,
    StoreFull,
)
from octopus_memory.domain.erasure import StepState, Subject
from octopus_memory.engine import worker
from octopus_memory.engine.privacy import erasure
from octopus_memory.ports.recall_rows import WorkKind
from octopus_memory.ports.store import EpisodeStore
from octopus_memory.testing import FixedClock
from tests.support.leave_dialogue import TALK

pytestmark = pytest.mark.both_databases(as_owner=True)


class TestFinishedLater:
    def test_a_skipped_rewrite_is_done_later(self, memory: EpisodicMemory, scope: MemoryScope):
        tenant = memory.tenant("acme")
        other = memory.scope(tenant="acme", user="user-18")
        scope.store(TALK)
        other.store(TALK)
        made = [each.erase(physical=False) for each in (scope, other)]
        assert [(r.physical, r.is_complete, any(r.left.values())) for r in made] == [
            (False, False, False)
        ] * 2
        memory.run_pending()
        assert [r.physical for r in tenant.receipts()] == [False, False]
        assert memory.compact(actor="ops")
        assert [r.is_complete for r in tenant.receipts()] == [True, True]
        assert {r.id for r in tenant.receipts()} == {r.id for r in made}
        outcomes = [e.outcome for e in tenant.audit() if e.action == "erase_receipt"]
        assert outcomes == ["incomplete"] * 2 + ["complete"] * 2
        [compacted] = memory.runtime.store.audit("")
        assert (compacted.action, compacted.actor) == ("compact", "ops")

    @pytest.mark.sqlite_alone
    def test_a_reader_delays_the_rewrite(
        self, memory: EpisodicMemory, scope: MemoryScope, tmp_path: Path, monkeypatch
    ):
        monkeypatch.setattr("octopus_memory.adapters.stores.sqlite.store._CHECKPOINTS", 1)
        monkeypatch.setattr("octopus_memory.adapters.stores.sqlite.store._CHECKPOINT_MS", 10)
        scope.store(TALK)
        with reading(tmp_path / "memory.db"):
            receipt = scope.erase()
            assert not receipt.physical
            assert scope.recent() == []
            memory.run_pending()
            assert not memory.tenant("acme").receipt(receipt.id).physical
        memory.run_pending()
        assert memory.tenant("acme").receipt(receipt.id).is_complete
        # What did not change was not recorded again.
        outcomes = [entry.outcome for entry in memory.tenant("acme").audit()]
        assert outcomes == ["done", "incomplete", "complete"]

    def test_a_full_disk_delays_the_rewrite(
        self, memory: EpisodicMemory, scope: MemoryScope, monkeypatch, caplog
    ):
        scope.store(TALK)

        def full(_: EpisodeStore) -> bool:
            raise StoreFull("no space")

        with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
            patched.setattr(type(memory.runtime.store), "_rewrite", full)
            receipt = scope.erase()
        assert not receipt.is_complete
        assert "StoreFull" in caplog.text
        memory.run_pending()
        assert memory.tenant("acme").receipt(receipt.id).is_complete

    def test_an_erasure_interrupted_before_its_receipt_is_finished(
        self, memory: EpisodicMemory, scope: MemoryScope, monkeypatch
    ):
        scope.store(TALK)
        with monkeypatch.context() as patched:
            patched.setattr(erasure, "_settle", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                scope.erase()
        [begun] = memory.tenant("acme").receipts()
        assert begun.pending == (erasure.VERIFICATION,)
        assert not begun.is_complete
        assert memory.tenant("acme").receipt(begun.id) == begun
        memory.run_pending()
        [done] = memory.tenant("acme").receipts()
        assert (done.id, done.is_complete) == (begun.id, True)

    def test_the_background_thread_leaves_a_recent_erasure_to_its_caller(
        self, memory: EpisodicMemory, scope: MemoryScope, clock: FixedClock, monkeypatch
    ):
        scope.store(TALK)
        with monkeypatch.context() as patched:
            patched.setattr(erasure, "_settle", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                scope.erase()
        young = worker._STILL_ERASING
        assert erasure.finish(memory.runtime, younger_than=young) == 0
        clock.advance(seconds=young.total_seconds() + 1)
        assert erasure.finish(memory.runtime, younger_than=young) == 1

    def test_remaining_traces_are_reported_and_searched_again(
        self, memory: EpisodicMemory, scope: MemoryScope, monkeypatch
    ):
        scope.store(TALK)
        with monkeypatch.context() as patched:
            patched.setattr(type(memory.runtime.store), "left_of", lambda *_: {"turns": 3})
            receipt = scope.erase()
            assert receipt.left == {"turns": 3}
            assert not receipt.is_complete
            memory.run_pending()
            assert not memory.tenant("acme").receipt(receipt.id).is_complete
        memory.run_pending()
        assert memory.tenant("acme").receipt(receipt.id).is_complete

    def test_an_unreachable_remote_index_keeps_the_receipt_incomplete(
        self, memory: EpisodicMemory, scope: MemoryScope, monkeypatch
    ):
        store = memory.runtime.store
        store.use_mirror("remote")
        scope.store(TALK)
        memory.run_pending()
        left: list[int | None] = [None]
        monkeypatch.setattr(
            memory.runtime.index, "count_mirrored", lambda *_: left[0], raising=False
        )
        receipt = scope.erase()
        assert receipt.pending == ("remote",)
        assert receipt.physical
        assert not receipt.is_complete
        steps = erasure.progress(memory.runtime, "acme", receipt.id)
        assert (steps.mirror, steps.files) == (StepState.PENDING, StepState.DONE)
        memory.run_pending()
        assert memory.tenant("acme").receipt(receipt.id) == receipt
        now = memory.runtime.clock.now()
        removals = store.claim(WorkKind.UNINDEX, worker_id="o", limit=9, now=now, until=now)
        store.finish(removals)
        left[0] = 2
        memory.run_pending()
        found = memory.tenant("acme").receipt(receipt.id)
        assert (found.left["remote"], found.pending, found.is_complete) == (2, (), False)
        left[0] = 0
        memory.run_pending()
        assert memory.tenant("acme").receipt(receipt.id).is_complete
        steps = erasure.progress(memory.runtime, "acme", receipt.id)
        assert (steps.mirror, steps.is_over) == (StepState.DONE, True)

    def test_progress_is_read_from_the_database(self, memory: EpisodicMemory, scope: MemoryScope):
        scope.store(TALK)
        subject = Subject(tenant="acme", user=scope.scope.user)
        begun = erasure.begin(memory.runtime, subject, actor="test")
        steps = erasure.progress(memory.runtime, "acme", begun.id)
        assert (steps.rows, steps.mirror) == (StepState.DONE, StepState.NOT_NEEDED)
        assert (steps.files, steps.verification) == (StepState.PENDING, StepState.PENDING)
        assert not steps.is_over
        assert erasure.complete(memory.runtime, begun).is_complete
        steps = erasure.progress(memory.runtime, "acme", begun.id)
        assert (steps.files, steps.verification) == (StepState.DONE, StepState.DONE)
        assert steps.is_over
        with pytest.raises(NotFound):
            erasure.progress(memory.runtime, "other", begun.id)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Somebody looks at the database as it is now, and does not stop."""
    conn = sqlite3.connect(path, isolation_level=None)
    try:
        conn.execute("BEGIN")
        conn.execute("SELECT count(*) FROM octopus_turns").fetchone()
        yield
    finally:
        conn.close()
