"""The retention job, which moves episodes to the stage that their agent's policy demands."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

from ...domain.episode import Episode, check_name, check_time
from ...domain.errors import EpisodeChanged, EpisodeNotFound, LegalHold, OctopusError
from ...domain.policy import ArchiveMode
from ...domain.retention import Aged, RetentionReport, Stage, Step
from ...ports.privacy import Lead
from ..core import audit
from ..core.runtime import Runtime
from ..privacy import erasure
from ..work import pending
from ..write import close
from .due import COUNTED, RunCounts, due, foretell, sort_facts

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
        runtime.store.set_last_run(JOB, now)
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
        self._runtime.store.set_last_run(JOB, min(self._now, self._runtime.clock.now()))
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
