"""A model of retention that shares no code with the engine: days, a policy, stages."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from octopus_memory import (
    EpisodicRetentionPolicy,
)

DAY = timedelta(days=1)
IDLE = timedelta(minutes=30)
SCOPES = [
    ("acme", "hr", "ana"),
    ("acme", "hr", "ben"),
    ("acme", "it", "ana"),
    ("zeta", "hr", "ana"),
]
OPEN, ACTIVE, ARCHIVED, DELETED, GONE = "open", "active", "archived", "deleted", "gone"


@dataclass
class ModelEpisode:
    """An episode as the model knows it."""

    id: UUID
    session_id: str
    scope: int
    word: str
    turns: int
    stage: str
    since: datetime
    """The time that its days count from; while it is open, that of its last message."""
    marked: datetime | None = None
    lost: bool = False
    """True when its turns are purged."""
    cold: bool = False

    def place(self) -> tuple[Any, ...]:
        return (self.stage, self.since, self.marked, self.lost, self.cold)


@dataclass
class RetentionModel:
    policies: dict[str, EpisodicRetentionPolicy] = field(default_factory=dict)
    holds: dict[UUID, tuple[str, str | UUID]] = field(default_factory=dict)

    def is_held(self, kept: ModelEpisode) -> bool:
        tenant, _, user = SCOPES[kept.scope]
        return any(hold in ((tenant, user), (tenant, kept.id)) for hold in self.holds.values())

    def run(self, kept: ModelEpisode, now: datetime) -> list[str]:
        """Move the episode to its stage after a run at `now`, and return what the run counts."""
        policy = self.policies.get(SCOPES[kept.scope][1], EpisodicRetentionPolicy())
        done = []
        if kept.stage == OPEN and now - kept.since > IDLE:
            kept.stage = ACTIVE
            done.append("timed_out")
        if kept.stage == OPEN:
            return done
        wanted = self._wanted(kept, policy, now)
        if wanted == kept.stage:
            return done
        if self.is_held(kept):
            return [*done, "held"]
        if wanted == ARCHIVED:
            kept.cold = policy.archive_mode == "cold"
            kept.lost = not kept.cold
            kept.stage = ARCHIVED
            return [*done, "archived"]
        if kept.stage != DELETED:
            kept.stage, kept.marked = DELETED, now
            done.append("deleted")
            if policy.purge_grace_days:
                return done
        kept.stage = GONE
        return [*done, "purged"]

    def _wanted(self, kept: ModelEpisode, policy: EpisodicRetentionPolicy, now: datetime) -> str:
        if kept.stage == GONE:
            return GONE
        if kept.stage == DELETED:
            assert kept.marked is not None
            return GONE if now >= kept.marked + policy.purge_grace_days * DAY else DELETED
        if kept.stage == ACTIVE and now < kept.since + policy.active_retention_days * DAY:
            return ACTIVE
        over = now >= kept.since + policy.archive_retention_days * DAY
        if over and policy.delete_after_archival_period:
            return DELETED
        return ARCHIVED if policy.archive_on_expiry or kept.stage == ARCHIVED else DELETED
