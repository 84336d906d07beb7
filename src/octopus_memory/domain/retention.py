"""Retention rules: when an episode is archived, deleted and purged, and reports of a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from .episode import Episode
from .policy import ArchiveMode, EpisodicRetentionPolicy


class Stage(StrEnum):
    """Retention stage of an ended episode."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    DELETED = "deleted"
    """Marked as deleted and invisible to every read, but not physically removed yet."""


class Step(StrEnum):
    """Next action of retention on an episode."""

    KEEP = "keep"
    ARCHIVE = "archive"
    DELETE = "delete"
    PURGE = "purge"


def next_step(
    stage: Stage, policy: EpisodicRetentionPolicy, *, since: datetime, now: datetime
) -> Step:
    """The step that is due now.

    `since` is the time of the episode's end, of its restoring, or of its deletion.
    """
    age = now - since
    match stage:
        case Stage.DELETED:
            return Step.PURGE if age >= timedelta(days=policy.purge_grace_days) else Step.KEEP
        case Stage.ACTIVE if age < timedelta(days=policy.active_retention_days):
            return Step.KEEP
        case Stage.ACTIVE if not policy.archive_on_expiry:
            return Step.DELETE
    if policy.delete_after_archival_period and age >= timedelta(days=policy.archive_retention_days):
        return Step.DELETE
    return Step.ARCHIVE if stage is Stage.ACTIVE else Step.KEEP


def is_overdue(
    stage: Stage, policy: EpisodicRetentionPolicy, *, since: datetime, now: datetime
) -> bool:
    """True if the next retention run would archive or delete an episode that is imported now."""
    return next_step(stage, policy, since=since, now=now) is not Step.KEEP


def overdue_warning(what: str) -> str:
    """Warning for a caller that imports or restores overdue episodes."""
    return (
        f"{what} older than the agent's retention policy allows: the next retention run archives "
        "or deletes them, unless the policy is changed or a hold is placed first"
    )


def policy_in_words(policy: EpisodicRetentionPolicy) -> str:
    """Description of a policy in one sentence."""
    active, archive = policy.active_retention_days, policy.archive_retention_days
    gone = f"and removed for good {policy.purge_grace_days:g} days after that"
    if not policy.archive_on_expiry:
        return f"episodes are deleted after {active:g} days, {gone}"
    is_cold = policy.archive_mode is ArchiveMode.COLD
    turns = "turns kept, restorable" if is_cold else "turns removed, summary and key facts kept"
    archived = f"episodes are archived after {active:g} days ({turns})"
    if not policy.delete_after_archival_period:
        return f"{archived}, and then kept for good"
    return f"{archived}, deleted after {archive:g} days, {gone}"


def shortest_stay(stage: Stage, policy: EpisodicRetentionPolicy) -> timedelta | None:
    """Minimum age at which an episode of this stage is due; None if it never is."""
    match stage:
        case Stage.DELETED:
            return timedelta(days=policy.purge_grace_days)
        case Stage.ACTIVE:
            return timedelta(days=policy.active_retention_days)
    if not policy.delete_after_archival_period:
        return None
    return timedelta(days=policy.archive_retention_days)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionCounts:
    """Episodes that a run moved, held and failed to move, and facts that go with them."""

    timed_out: int = 0
    """Open episodes that were closed because they timed out."""
    archived: int = 0
    deleted: int = 0
    purged: int = 0
    held: int = 0
    """Due, but under a legal hold."""
    failed: int = 0
    """Due, but an error occurred; the next run retries."""
    facts: int = 0
    """Standing facts that go with deleted episodes: those that are over, and all but pinned ones
    of a user who has no other episode."""

    @property
    def moved(self) -> int:
        return self.timed_out + self.archived + self.deleted + self.purged

    def plus(self, **more: int) -> RetentionCounts:
        """Counts with some added, such as `archived=1`."""
        return replace(self, **{name: getattr(self, name) + n for name, n in more.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRetention:
    """Counts of one agent's episodes."""

    tenant: str
    agent: str
    counts: RetentionCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """Report of a retention run, or of what it would do for a dry run."""

    dry_run: bool = False
    started_at: datetime
    finished_at: datetime
    counts: RetentionCounts = field(default_factory=RetentionCounts)
    agents: tuple[AgentRetention, ...] = ()
    """Agents with counts above zero, sorted by tenant and name."""
    batches: int = 0
    elsewhere: bool = False
    """True if another process is running it: this call did nothing."""
    complete: bool = True
    """True if the run finished; otherwise the next one continues where it stopped."""
    compacted: bool | None = None
    """True if the files were rewritten afterwards; None if that was not requested."""

    @property
    def tenants(self) -> dict[str, RetentionCounts]:
        """Counts by tenant."""
        found: dict[str, RetentionCounts] = {}
        for one in self.agents:
            sofar = found.get(one.tenant, RetentionCounts())
            found[one.tenant] = sofar.plus(**asdict(one.counts))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Aged:
    """An ended episode with its retention stage."""

    episode: Episode
    stage: Stage
    since: datetime
    """Start of its retention days: its end, its restoring, or its deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A legal hold. Until it is lifted, a user's episodes, or one, are not archived or erased."""

    id: UUID
    tenant: str
    user: str | None = None
    episode_id: UUID | None = None
    reason: str
    placed_at: datetime
    placed_by: str

    def stops(self, episode: Episode) -> bool:
        """True if the hold covers this episode of its tenant."""
        return self.episode_id == episode.id or self.user == episode.scope.user
