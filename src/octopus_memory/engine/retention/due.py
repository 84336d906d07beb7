"""Episodes that are due for retention, and the counts of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from uuid import UUID

from ...domain.episode import Episode, Scope
from ...domain.errors import InvalidSetting
from ...domain.facts import FactOrigin, current
from ...domain.retention import (
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
from ...ports.values import EpisodeQuery
from ..core.runtime import Runtime
from ..work import pending

_BATCH = 100
"""Episodes per read."""
COUNTED = {Step.ARCHIVE: "archived", Step.DELETE: "deleted", Step.PURGE: "purged"}


class RunCounts:
    """The counts of a run."""

    def __init__(self, runtime: Runtime, now: datetime, *, dry_run: bool) -> None:
        self.batches = 0
        self.deleted: dict[Scope, list[UUID]] = defaultdict(list)
        """Episodes that a dry run would delete."""
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
    tally = RunCounts(runtime, now, dry_run=True)
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
            _foretell(runtime, tally, aged, step, now)
    for stage in Stage:
        for aged, _ in due(runtime, stage, now=now, held=True):
            tally.add(aged.episode, "held")
        for aged, step in due(runtime, stage, now=now):
            _foretell(runtime, tally, aged, step, now)
    return tally.report()


def sort_facts(
    runtime: Runtime, episode: Episode, now: datetime, gone: Collection[UUID] = ()
) -> tuple[list[UUID], int]:
    """Return the facts that outlive an episode that retention deletes, and how many do not.

    A pinned fact stays. A current one stays while the user has another episode; with the last, the
    facts that were kept of earlier ones go, too. A dry run names in `gone` the user's episodes that
    it would have deleted before this one.
    """
    stored = [fact for fact in runtime.store.facts(episode.scope) if not fact.is_deleted]
    holding = {fact.id for fact in current(stored, now=now)}
    own = [fact for fact in stored if fact.episode_id == episode.id]
    if _is_active(runtime, episode, gone):
        keep = [fact.id for fact in own if fact.is_pinned or fact.id in holding]
        return keep, len(own) - len(keep)
    kept = [
        fact
        for fact in stored
        if (fact.episode_id is None and fact.origin is not FactOrigin.CALLER)
        or (fact.episode_id in gone and fact.id in holding)
    ]
    return [], sum(not fact.is_pinned for fact in (*own, *kept))


def _is_active(runtime: Runtime, episode: Episode, gone: Collection[UUID]) -> bool:
    """Return whether the user has another episode with this agent that is not deleted."""
    left_out = {episode.id, *gone}
    of_user = EpisodeQuery(of=episode.scope, limit=len(left_out) + 1, count=False)
    found, _ = runtime.store.list_episodes(of_user)
    return any(each.id not in left_out for each in found)


def _foretell(runtime: Runtime, tally: RunCounts, aged: Aged, step: Step, now: datetime) -> None:
    tally.add(aged.episode, COUNTED[step])
    if step is Step.DELETE:
        gone = tally.deleted[aged.episode.scope]
        tally.add(aged.episode, "facts", sort_facts(runtime, aged.episode, now, gone)[1])
        gone.append(aged.episode.id)
    marked = Aged(episode=aged.episode, stage=Stage.DELETED, since=now)
    if step is Step.DELETE and _step(runtime, marked, now) is Step.PURGE:
        tally.add(aged.episode, "purged")
