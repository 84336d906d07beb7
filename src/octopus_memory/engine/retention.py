"""The retention job, which moves episodes to the stage that their agent's policy demands."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias
from uuid import UUID

from ..domain.episode import Episode, Scope, check_name, check_time
from ..domain.errors import EpisodeChanged, EpisodeNotFound, InvalidSetting, LegalHold, OctopusError
from ..domain.facts import Fact, FactOrigin, current
from ..domain.policy import ArchiveMode, EpisodicRetentionPolicy
from ..domain.retention import (
    Aged,
    AgentRetention,
    Hold,
    RetentionCounts,
    RetentionReport,
    Stage,
    Step,
    next_step,
    shortest_stay,
)
from ..ports.privacy import Lead
from ..ports.values import EpisodeQuery
from .core import audit
from .core.runtime import Runtime
from .privacy import erasure
from .work import pending
from .write import close

_BATCH = 100
"""Episodes per read."""
_USERS = 1_000
"""Users whose facts a dry run keeps in memory."""
COUNTED = {Step.ARCHIVE: "archived", Step.DELETE: "deleted", Step.PURGE: "purged"}


class RunCounts:
    """The counts of a run."""

    def __init__(self, runtime: Runtime, now: datetime, *, dry_run: bool) -> None:
        self.batches = 0
        self._runtime = runtime
        self._now = now
        self._dry_run = dry_run
        self._counts: dict[tuple[str, str], RetentionCounts] = defaultdict(RetentionCounts)

    def add(self, episode: Episode, name: str, count: int = 1) -> None:
        whose = (episode.scope.tenant, episode.scope.agent)
        self._counts[whose] = self._counts[whose].plus(**{name: count})

    def report(self, *, complete: bool = True, compacted: bool | None = None) -> RetentionReport:
        total = RetentionCounts()
        for counts in self._counts.values():
            total = total.plus(**asdict(counts))
        return RetentionReport(
            dry_run=self._dry_run,
            started_at=self._now,
            finished_at=max(self._now, self._runtime.clock.now()),
            counts=total,
            agents=tuple(
                AgentRetention(tenant=tenant, agent=agent, counts=counts)
                for (tenant, agent), counts in sorted(self._counts.items())
            ),
            batches=self.batches,
            complete=complete,
            compacted=compacted,
        )


def due(
    runtime: Runtime,
    stage: Stage,
    *,
    now: datetime,
    held: bool = False,
    after_page: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Aged, Step]]:
    """Yield each episode that is due to leave a stage, and its step; with `held`, those on hold."""
    stay = _shortest(runtime, stage)
    if stay is None:
        return
    after: tuple[datetime, UUID] | None = None
    while page := runtime.store.aged(
        stage, before=now - stay, after=after, limit=_BATCH, held=held
    ):
        for aged in page:
            step = _step(runtime, aged, now)
            if step is not Step.KEEP:
                yield aged, step
        after = (page[-1].since, page[-1].episode.id)
        after_page()


def _shortest(runtime: Runtime, stage: Stage) -> timedelta | None:
    policies = [runtime.defaults.retention, *(c.retention for c in pending.usable_configs(runtime))]
    stays = [shortest_stay(stage, policy) for policy in policies]
    return min((stay for stay in stays if stay is not None), default=None)


def _step(runtime: Runtime, aged: Aged, now: datetime) -> Step:
    scope = aged.episode.scope
    try:
        policy = runtime.config(scope.tenant, scope.agent).retention
    except InvalidSetting:
        # The agent's settings are invalid, so its episodes stay.
        return Step.KEEP
    return next_step(aged.stage, policy, since=aged.since, now=now)


def foretell(runtime: Runtime, now: datetime) -> RetentionReport:
    """Count what a run would do now, without changing anything."""
    foretold = _Foretold(runtime, now)
    tally = foretold.tally
    holds: dict[str, list[Hold]] = {}
    for episode in pending.expired(runtime, now=now):
        tally.add(episode, "timed_out")
        # Once closed, its age counts from the last message, so it may be due at once.
        aged = Aged(episode=episode, stage=Stage.ACTIVE, since=episode.last_message_at)
        step = _step(runtime, aged, now)
        if step is Step.KEEP:
            continue
        tenant = episode.scope.tenant
        if tenant not in holds:
            holds[tenant] = runtime.store.holds(tenant)
        if any(hold.stops(episode) for hold in holds[tenant]):
            tally.add(episode, "held")
        else:
            foretold.add(aged, step)
    for stage in Stage:
        for aged, _ in due(runtime, stage, now=now, held=True):
            tally.add(aged.episode, "held")
        for aged, step in due(runtime, stage, now=now):
            foretold.add(aged, step)
    return tally.report()


class _Known(NamedTuple):
    """A user's facts, and how many episodes a dry run found that are not deleted."""

    stored: list[Fact]
    holding: set[UUID]
    """Facts that are current."""
    episodes: int = 0


def _known(runtime: Runtime, scope: Scope, now: datetime) -> _Known:
    stored = [fact for fact in runtime.store.facts(scope) if not fact.is_deleted]
    return _Known(stored, {fact.id for fact in current(stored, now=now)})


def sort_facts(runtime: Runtime, episode: Episode, now: datetime) -> tuple[list[UUID], int]:
    """Return the facts that outlive an episode that retention deletes, and how many do not.

    A pinned fact stays. A current one stays while the user has another episode; with the last, the
    facts that were kept of earlier ones go, too.
    """
    of_user = EpisodeQuery(of=episode.scope, limit=2, count=False)
    found, _ = runtime.store.list_episodes(of_user)
    is_active = any(each.id != episode.id for each in found)
    return _sorted(_known(runtime, episode.scope, now), episode, is_active=is_active)


def _sorted(
    user: _Known, episode: Episode, *, is_active: bool, gone: Collection[UUID] = ()
) -> tuple[list[UUID], int]:
    """Sort facts; a dry run names in `gone` what it would have deleted before this episode."""
    own = [fact for fact in user.stored if fact.episode_id == episode.id]
    if is_active:
        keep = [fact.id for fact in own if fact.is_pinned or fact.id in user.holding]
        return keep, len(own) - len(keep)
    kept = [
        fact
        for fact in user.stored
        if (fact.episode_id is None and fact.origin is not FactOrigin.CALLER)
        or (fact.episode_id in gone and fact.id in user.holding)
    ]
    return [], sum(not fact.is_pinned for fact in (*own, *kept))


class _Foretold:
    """What a dry run counts of each episode.

    It reads a user's facts once, because reading them for each of many thousand episodes would take
    minutes.
    """

    def __init__(self, runtime: Runtime, now: datetime) -> None:
        self.tally = RunCounts(runtime, now, dry_run=True)
        self._runtime = runtime
        self._now = now
        self._deleted: dict[Scope, set[UUID]] = defaultdict(set)
        self._users = lru_cache(maxsize=_USERS)(self._user)

    def _user(self, scope: Scope) -> _Known:
        episodes = self._runtime.store.list_episodes(EpisodeQuery(of=scope, limit=1))[1]
        return _known(self._runtime, scope, self._now)._replace(episodes=episodes)

    def add(self, aged: Aged, step: Step) -> None:
        episode, now = aged.episode, self._now
        self.tally.add(episode, COUNTED[step])
        if step is Step.DELETE:
            user, gone = self._users(episode.scope), self._deleted[episode.scope]
            is_active = user.episodes > len(gone) + 1
            self.tally.add(
                episode, "facts", _sorted(user, episode, is_active=is_active, gone=gone)[1]
            )
            gone.add(episode.id)
        marked = Aged(episode=episode, stage=Stage.DELETED, since=now)
        if step is Step.DELETE and _step(self._runtime, marked, now) is Step.PURGE:
            self.tally.add(episode, "purged")


log = logging.getLogger(__name__)

JOB = "retention"
_RENEW_SECONDS = 30.0
"""Seconds after which a runner renews its lead."""
_SKEW = timedelta(hours=1)
"""The largest difference allowed between two machines' clocks."""

Progress: TypeAlias = Callable[[RetentionReport], None]


class MemoryRetentionJob:
    """Archives, deletes and purges due episodes, and closes idle sessions.

    One process runs it at a time. It may be killed at any point: the next run continues.
    """

    def __init__(self, runtime: Runtime, worker_id: str) -> None:
        self._runtime = runtime
        self._worker_id = worker_id

    def run(
        self,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
        now: datetime | None = None,
        compact: bool | None = None,
        actor: str = "library",
    ) -> RetentionReport:
        """Move every episode that is due at `now`; with `dry_run`, only count them.

        `progress` is called with the report after every batch. `compact` says whether the files are
        rewritten after a removal, and defaults to the settings.
        """
        runtime = self._runtime
        check_name("actor", actor)
        now = runtime.clock.now() if now is None else check_time("now", now)
        runtime.clear_config_cache()
        pending.warn_of_unusable(runtime)
        if dry_run:
            return foretell(runtime, now)
        with runtime.store.lead(JOB, worker_id=self._worker_id) as lead:
            if lead is None:
                return RetentionReport(
                    started_at=now, finished_at=now, elsewhere=True, complete=False
                )
            run = _Run(runtime, now, lead, progress)
            complete = run.whole(actor)
            # Clear the caches of removed content.
            runtime.check_for_removals()
            if compact is None:
                compact = runtime.compact_after_retention
            compacted = (
                erasure.compact_if_owed(runtime, actor=actor) if compact and complete else None
            )
            return run.tally.report(complete=complete, compacted=compacted)


def run_if_due(
    runtime: Runtime, worker_id: str, progress: Progress | None = None
) -> RetentionReport | None:
    """Run if the schedule says so. One run makes up for all that were missed."""
    if runtime.schedule is None:
        return None
    now, last = runtime.clock.now(), runtime.store.last_run(JOB)
    if last is None or last > now + _SKEW:
        # Nothing is removed only because a database is opened for the first time. A last run in the
        # future, by a clock that was ahead, would delay every run until then.
        with runtime.store.lead(JOB, worker_id=worker_id) as lead:
            if lead is not None:
                lead.ran(now)
        return None
    if runtime.schedule.next_after(last) > now:
        return None
    report = MemoryRetentionJob(runtime, worker_id).run(progress=progress, actor="worker")
    if not report.elsewhere:
        done = ", ".join(f"{name} {count:,}" for name, count in asdict(report.counts).items())
        log.info("retention ran: %s", done)
    return report


def next_run(runtime: Runtime) -> datetime | None:
    """Return the time of the next scheduled run; None without a schedule."""
    if runtime.schedule is None:
        return None
    now, last = runtime.clock.now(), runtime.store.last_run(JOB)
    if last is None or last > now + _SKEW:
        return runtime.schedule.next_after(now)
    return runtime.schedule.next_after(last)


class _LeadLost(Exception):
    """Another process has taken the lead."""


class _Run:
    """A run, for as long as this process has the lead."""

    def __init__(
        self, runtime: Runtime, now: datetime, lead: Lead, progress: Progress | None
    ) -> None:
        self.tally = RunCounts(runtime, now, dry_run=False)
        self._runtime = runtime
        self._now = now
        self._lead = lead
        self._progress = progress
        self._renewed = time.monotonic()

    def whole(self, actor: str) -> bool:
        """Run all stages; returns whether it finished. The audit log gets the counts anyway."""
        try:
            self._all_stages()
        except _LeadLost:
            log.warning("retention stopped: another process may have taken its lead")
            return False
        finally:
            self._record(actor)
        pending.prune(self._runtime)
        # A run with `now` in the future must not delay the scheduled ones.
        self._lead.ran(min(self._now, self._runtime.clock.now()))
        return True

    def _all_stages(self) -> None:
        for episode in pending.expired(self._runtime, now=self._now):
            self._try(episode, "timed_out", partial(self._close, episode))
        self._end_batch()
        for stage in Stage:
            for aged, _ in due(self._runtime, stage, now=self._now, held=True):
                self.tally.add(aged.episode, "held")
            for aged, step in due(self._runtime, stage, now=self._now, after_page=self._end_batch):
                self._try(aged.episode, COUNTED[step], partial(self._move, aged, step))

    def _try(self, episode: Episode, counted: str, do: Callable[[], bool]) -> None:
        """Process one episode; a failure does not stop the others."""
        try:
            if do():
                self.tally.add(episode, counted)
        except (EpisodeChanged, EpisodeNotFound):
            # It was restored, continued or erased since it was read.
            pass
        except LegalHold:
            self.tally.add(episode, "held")
        except OctopusError as error:
            log.warning("retention skipped an episode: %s", error.for_log())
            self.tally.add(episode, "failed")
        if time.monotonic() - self._renewed > _RENEW_SECONDS:
            self._renew()

    def _close(self, episode: Episode) -> bool:
        # Wait for the model, because the same run may archive the episode without its turns.
        return not close.close_expired(self._runtime, episode, wait=True).is_open

    def _move(self, aged: Aged, step: Step) -> bool:
        store, episode = self._runtime.store, aged.episode
        if step is Step.PURGE:
            return bool(store.purge(episode.scope, episode.id, since=aged.since))
        if step is Step.DELETE:
            keep, gone = sort_facts(self._runtime, episode, self._now)
            at = self._now
            store.delete(episode.scope, episode.id, at=at, since=aged.since, keep_facts=keep)
            self.tally.add(episode, "facts", gone)
            return True
        policy = self._runtime.config(episode.scope.tenant, episode.scope.agent).retention
        cold = policy.archive_mode is ArchiveMode.COLD
        close.ensure_summary(self._runtime, episode)
        store.archive(episode.scope, episode.id, cold=cold, at=self._now, since=aged.since)
        return True

    def _end_batch(self) -> None:
        self.tally.batches += 1
        if self._progress is not None:
            self._progress(self.tally.report(complete=False))
        self._renew()

    def _renew(self) -> None:
        if not self._lead.renew():
            raise _LeadLost
        self._renewed = time.monotonic()

    def _record(self, actor: str) -> None:
        for tenant, counts in self.tally.report().tenants.items():
            if counts.moved or counts.failed:
                outcome = "partly" if counts.failed else "done"
                audit.record(
                    self._runtime,
                    JOB,
                    tenant=tenant,
                    actor=actor,
                    outcome=outcome,
                    **asdict(counts),
                )


_PREVIEW_BATCH = 500


def preview(
    runtime: Runtime, tenant: str, agent: str, policy: EpisodicRetentionPolicy
) -> RetentionCounts:
    """Count what the next run would do to one agent's ended episodes under a policy."""
    now = runtime.clock.now()
    counts = RetentionCounts()
    for stage in Stage:
        for held in (False, True):
            counts = _stage(runtime, (tenant, agent), policy, stage, counts, now=now, held=held)
    return counts


def _stage(
    runtime: Runtime,
    whose: tuple[str, str],
    policy: EpisodicRetentionPolicy,
    stage: Stage,
    counts: RetentionCounts,
    *,
    now: datetime,
    held: bool,
) -> RetentionCounts:
    stay = shortest_stay(stage, policy)
    if stay is None:
        return counts
    after: tuple[datetime, UUID] | None = None
    while page := runtime.store.aged(
        stage, before=now - stay, after=after, limit=_PREVIEW_BATCH, held=held
    ):
        for aged in page:
            scope = aged.episode.scope
            step = next_step(stage, policy, since=aged.since, now=now)
            if (scope.tenant, scope.agent) == whose and step is not Step.KEEP:
                counts = counts.plus(**{"held" if held else COUNTED[step]: 1})
        after = (page[-1].since, page[-1].episode.id)
    return counts
