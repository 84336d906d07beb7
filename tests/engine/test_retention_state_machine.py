"""Random policies, clocks, holds, kills and restarts: every episode is where it must be."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from octopus_memory import (
    EpisodeArchived,
    EpisodeNotFound,
    EpisodicMemory,
    EpisodicRetentionPolicy,
    LegalHold,
    MemoryConfig,
    MemoryScope,
    SessionNotFound,
)
from octopus_memory.engine import retention
from octopus_memory.testing import FixedClock
from tests.support.retention_model import (
    ACTIVE,
    ARCHIVED,
    DAY,
    DELETED,
    GONE,
    IDLE,
    OPEN,
    SCOPES,
    ModelEpisode,
    RetentionModel,
)

START = datetime(2025, 1, 1, tzinfo=UTC)
EXAMPLES, STEPS = 12, 25


class Killed(BaseException):
    """As a process ends that nobody asked."""


policies = st.builds(
    lambda active, more, **rest: EpisodicRetentionPolicy(
        active_retention_days=active, archive_retention_days=active + more, **rest
    ),
    st.sampled_from([0.5, 3, 10]),
    st.sampled_from([0, 4, 20]),
    archive_on_expiry=st.booleans(),
    delete_after_archival_period=st.booleans(),
    archive_mode=st.sampled_from(["summary", "cold"]),
    purge_grace_days=st.sampled_from([0, 1, 5]),
)
scope_numbers = st.integers(0, len(SCOPES) - 1)


class Retention(RuleBasedStateMachine):
    kept = Bundle("kept")
    holds = Bundle("holds")

    blank: Path

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        shutil.copy(self.blank, self.folder / "memory.db")
        self.clock = FixedClock(START)
        self.model = RetentionModel()
        self.episodes: list[ModelEpisode] = []
        self.settled = False
        self.open()

    def open(self) -> None:
        url = f"sqlite:///{self.folder / 'memory.db'}"
        self.memory = EpisodicMemory.open(
            url, embedder="hashing", clock=self.clock, background=False
        )

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.memory.close()
            shutil.rmtree(self.folder)

    def scope(self, number: int) -> MemoryScope:
        tenant, agent, user = SCOPES[number]
        return self.memory.scope(tenant=tenant, agent=agent, user=user)

    def keep(self, scope: int, turns: int, stage: str, since: datetime, **ids: Any) -> ModelEpisode:
        kept = ModelEpisode(scope=scope, turns=turns, stage=stage, since=since, **ids)
        self.episodes.append(kept)
        return kept

    # What people do

    @rule(target=kept, scope=scope_numbers, age=st.sampled_from([0, 2, 3, 9, 40]))
    def tell(self, scope: int, age: int) -> ModelEpisode:
        """A conversation that ended so many days ago."""
        word = f"topic{len(self.episodes)}"
        ended = self.clock.now() - age * DAY
        said = [("user", f"I want to know about {word}."), ("assistant", f"Here is {word}.")]
        stored = self.scope(scope).store(said, at=ended, ended_at=ended)
        return self.keep(
            scope, 2, ACTIVE, ended, id=stored.id, session_id=stored.session_id, word=word
        )

    @rule(target=kept, scope=scope_numbers, empty=st.booleans())
    def begin_talking(self, scope: int, empty: bool) -> ModelEpisode:
        """A conversation that goes on, in which something was said or nothing."""
        word = f"topic{len(self.episodes)}"
        opened = self.scope(scope).open_episode()
        if not empty:
            self.scope(scope).add(opened.id, ("user", f"I want to know about {word}."))
        ids = {"id": opened.id, "session_id": opened.session_id, "word": word}
        return self.keep(scope, 0 if empty else 1, OPEN, self.clock.now(), **ids)

    @rule(kept=kept)
    def stop_talking(self, kept: ModelEpisode) -> None:
        self.settled = False
        if kept.stage == OPEN and kept.turns:
            self.scope(kept.scope).close_episode(kept.id, at=self.clock.now())
            kept.stage, kept.since = ACTIVE, self.clock.now()

    @rule(hours=st.sampled_from([1, 12, 24, 72, 120, 480]))
    def wait(self, hours: int) -> None:
        self.clock.advance(hours=hours)

    @rule(agent=st.sampled_from(["hr", "it"]), policy=policies)
    def configure(self, agent: str, policy: EpisodicRetentionPolicy) -> None:
        self.memory.configure(agent, MemoryConfig(retention=policy))
        self.model.policies[agent] = policy

    @rule(target=holds, scope=scope_numbers)
    def hold_user(self, scope: int) -> UUID:
        tenant, _, user = SCOPES[scope]
        hold = self.memory.tenant(tenant).hold(user=user, reason="case 17")
        self.model.holds[hold.id] = (tenant, user)
        return hold.id

    @rule(target=holds, kept=kept)
    def hold_episode(self, kept: ModelEpisode) -> UUID | None:
        tenant = self.memory.tenant(SCOPES[kept.scope][0])
        if kept.stage == GONE:
            with pytest.raises(EpisodeNotFound):
                tenant.hold(episode_id=kept.id, reason="case 18")
            return None
        hold = tenant.hold(episode_id=kept.id, reason="case 18")
        self.model.holds[hold.id] = (SCOPES[kept.scope][0], kept.id)
        return hold.id

    @rule(hold=consumes(holds))
    def lift(self, hold: UUID | None) -> None:
        if hold is not None:
            tenant, _ = self.model.holds.pop(hold)
            self.memory.tenant(tenant).lift(hold)

    @rule(kept=kept)
    def delete(self, kept: ModelEpisode) -> None:
        self.settled = False
        scope = self.scope(kept.scope)
        if kept.stage == GONE:
            with pytest.raises(EpisodeNotFound):
                scope.delete(kept.id)
        elif kept.stage != DELETED and self.model.is_held(kept):
            with pytest.raises(LegalHold):
                scope.delete(kept.id)
        else:
            scope.delete(kept.id)
            if kept.stage != DELETED:
                if kept.stage == OPEN and self.clock.now() - kept.since <= IDLE:
                    kept.since = self.clock.now()
                kept.stage, kept.marked = DELETED, self.clock.now()

    @rule(kept=kept)
    def restore(self, kept: ModelEpisode) -> None:
        self.settled = False
        scope = self.scope(kept.scope)
        if kept.stage == GONE:
            with pytest.raises(EpisodeNotFound):
                scope.restore(kept.id)
        elif kept.stage == ARCHIVED and kept.lost:
            with pytest.raises(EpisodeArchived):
                scope.restore(kept.id)
        else:
            back = scope.restore(kept.id)
            assert back.id == kept.id
            if kept.stage in (ARCHIVED, DELETED):
                kept.stage = ARCHIVED if kept.lost else ACTIVE
                kept.since, kept.marked, kept.cold = self.clock.now(), None, False

    @rule()
    def restart(self) -> None:
        self.memory.close()
        self.open()

    # What the job does

    def counts(self, done: list[str]) -> dict[str, int]:
        names = ("timed_out", "archived", "deleted", "purged", "held", "failed")
        # No fact is found in these turns, so none goes.
        return {name: done.count(name) for name in names} | {"facts": 0}

    @rule()
    def run(self) -> None:
        self.settled = False
        done = [c for kept in self.episodes for c in self.model.run(kept, self.clock.now())]
        report = self.memory.run_retention(compact=False)
        assert vars_of(report.counts) == self.counts(done)
        assert report.complete

    @rule()
    def dry_run(self) -> None:
        self.settled = False
        before = [kept.place() for kept in self.episodes]
        done = [c for kept in self.episodes for c in self.model.run(kept, self.clock.now())]
        for kept, place in zip(self.episodes, before, strict=True):
            kept.stage, kept.since, kept.marked, kept.lost, kept.cold = place
        report = self.memory.run_retention(dry_run=True)
        assert vars_of(report.counts) == self.counts(done)

    @rule(batch=st.integers(1, 6))
    def killed_run(self, batch: int) -> None:
        """Each episode is where it was, or further on its way; none is in between."""
        self.settled = False

        def strike(report: Any) -> None:
            if report.batches == batch:
                raise Killed

        killed = False
        try:
            self.memory.run_retention(compact=False, progress=strike)
        except Killed:
            killed = True
        for kept in self.episodes:
            before = kept.place()
            self.model.run(kept, self.clock.now())
            if killed and self.seen(kept) != kept.stage:
                wanted = kept.place()
                kept.stage, kept.since, kept.marked, kept.lost, kept.cold = before
                self.half_way(kept, wanted)

    def half_way(self, kept: ModelEpisode, wanted: tuple[Any, ...]) -> None:
        stage = self.seen(kept)
        if stage == kept.stage:
            return
        # Closed and not moved on yet, or marked and not purged yet.
        assert (stage, kept.stage) == (ACTIVE, OPEN) or (stage, wanted[0]) == (DELETED, GONE)
        kept.stage = stage
        if stage == DELETED:
            kept.marked = self.clock.now()

    # What is seen

    def seen(self, kept: ModelEpisode) -> str:
        scope = self.scope(kept.scope)
        if kept.id in [episode.id for episode in scope.deleted()]:
            return DELETED
        try:
            episode = scope.get(kept.id).episode
        except EpisodeNotFound:
            return GONE
        return OPEN if episode.is_open else ARCHIVED if episode.is_archived else ACTIVE

    @invariant()
    def every_episode_is_where_it_must_be(self) -> None:
        if self.settled:
            return
        self.settled = True
        for number in {kept.scope for kept in self.episodes}:
            scope = self.scope(number)
            mine = [kept for kept in self.episodes if kept.scope == number]
            shown = {kept.id: kept for kept in mine if kept.stage not in (DELETED, GONE)}
            assert {episode.id for episode in scope.episodes(1, 500)} == set(shown)
            assert {e.id for e in scope.deleted()} == {k.id for k in mine if k.stage == DELETED}
            found = {s.episode_id: s for s in scope.recall("know about", limit=500)}
            assert set(found) == {kept.id for kept in shown.values() if kept.turns}
            for kept in mine:
                self.look_at(scope, kept)
                if kept.id in found:
                    assert found[kept.id].is_archived == (kept.stage == ARCHIVED)

    def look_at(self, scope: MemoryScope, kept: ModelEpisode) -> None:
        if kept.stage in (DELETED, GONE):
            with pytest.raises(EpisodeNotFound):
                scope.get(kept.id)
            with pytest.raises(SessionNotFound):
                scope.session(kept.session_id)
            return
        replay = scope.get(kept.id)
        [same] = scope.session(kept.session_id).episodes
        assert same == replay
        assert replay.episode.is_open == (kept.stage == OPEN)
        assert replay.episode.is_archived == (kept.stage == ARCHIVED)
        assert replay.episode.is_cold == (kept.stage == ARCHIVED and kept.cold)
        assert len(replay.turns) == (0 if kept.stage == ARCHIVED else kept.turns)
        if kept.stage == ARCHIVED and kept.turns:
            assert kept.word in (replay.episode.summary or "")
            [message] = replay.messages()
            assert "[Archived conversation]" in str(message["content"])
            best = scope.recall(kept.word, limit=1)
            assert [snippet.episode_id for snippet in best] == [kept.id]


def vars_of(counts: Any) -> dict[str, int]:
    return {name: getattr(counts, name) for name in counts.__slots__}


@pytest.mark.slow
def test_no_episode_leaves_its_stage_early_or_stays_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Several batches, of the few episodes that there are.
    monkeypatch.setattr(retention, "_BATCH", 2)
    blank = tmp_path / "blank.db"
    EpisodicMemory.open(f"sqlite:///{blank}", embedder="hashing", background=False).close()
    monkeypatch.setattr(Retention, "blank", blank, raising=False)
    run_state_machine_as_test(
        Retention,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
