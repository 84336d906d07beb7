"""Preview of a policy's effect on an agent's episodes, before a caller stores it."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ...domain.policy import EpisodicRetentionPolicy
from ...domain.retention import RetentionCounts, Stage, Step, next_step, shortest_stay
from ..core.runtime import Runtime
from .due import COUNTED

_BATCH = 500


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
        stage, before=now - stay, after=after, limit=_BATCH, held=held
    ):
        for aged in page:
            scope = aged.episode.scope
            step = next_step(stage, policy, since=aged.since, now=now)
            if (scope.tenant, scope.agent) == whose and step is not Step.KEEP:
                counts = counts.plus(**{"held" if held else COUNTED[step]: 1})
        after = (page[-1].since, page[-1].episode.id)
    return counts
