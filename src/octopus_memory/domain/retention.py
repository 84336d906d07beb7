"""How long an episode stays in each stage: policy and time to what is to be done."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from .episode import Episode
from .policy import ArchiveMode, EpisodicRetentionPolicy


class Stage(StrEnum):
    """Where an episode that has ended stands."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    DELETED = "deleted"
    """Marked, gone from every read, and not yet removed."""


class Step(StrEnum):
    """What is to be done with an episode."""

    KEEP = "keep"
    ARCHIVE = "archive"
    DELETE = "delete"
    PURGE = "purge"


def next_step(
    stage: Stage, policy: EpisodicRetentionPolicy, *, since: datetime, now: datetime
) -> Step:
    """`since` is when the episode ended (or was restored); when it was marked, if it is deleted."""
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
    """Whether the next retention run archives or deletes an episode that comes in now."""
    return next_step(stage, policy, since=since, now=now) is not Step.KEEP


def overdue_warning(what: str) -> str:
    """What a caller should know who brings episodes that are overdue."""
    return (
        f"{what} older than the agent's retention policy allows: the next retention run archives "
        "or deletes them, unless the policy is changed or a hold is placed first"
    )


def policy_in_words(policy: EpisodicRetentionPolicy) -> str:
    """What becomes of episodes by a policy, and when."""
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
    """No episode of this stage is due before so long after its `since`; None if none ever is."""
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
    """How many episodes a run moved, and how many it left where they are."""

    timed_out: int = 0
    """Open ones whose time was over: they were closed."""
    archived: int = 0
    deleted: int = 0
    purged: int = 0
    held: int = 0
    """Due, and kept by a legal hold."""
    failed: int = 0
    """Due, and left because of an error; the next run tries again."""

    @property
    def moved(self) -> int:
        return self.timed_out + self.archived + self.deleted + self.purged

    def plus(self, **more: int) -> RetentionCounts:
        """These counts with `archived=1` and the like added."""
        return replace(self, **{name: getattr(self, name) + n for name, n in more.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRetention:
    """What a run did to one agent's episodes."""

    tenant: str
    agent: str
    counts: RetentionCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """What a retention run did; what it would do, if it was dry."""

    dry_run: bool = False
    started_at: datetime
    finished_at: datetime
    counts: RetentionCounts = field(default_factory=RetentionCounts)
    agents: tuple[AgentRetention, ...] = ()
    """Those that have any, by tenant and name."""
    batches: int = 0
    elsewhere: bool = False
    """Somebody else runs it right now: nothing was done here."""
    complete: bool = True
    """Whether the run came to its end; another one goes on where it stopped."""
    compacted: bool | None = None
    """Whether the files were rewritten afterwards; None where nothing asked for it."""

    @property
    def tenants(self) -> dict[str, RetentionCounts]:
        """The counts of each tenant."""
        found: dict[str, RetentionCounts] = {}
        for one in self.agents:
            sofar = found.get(one.tenant, RetentionCounts())
            found[one.tenant] = sofar.plus(**asdict(one.counts))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Aged:
    """An episode that has ended, as retention sees it."""

    episode: Episode
    stage: Stage
    since: datetime
    """What its days are counted from: its end, its restoring, or its mark if it is deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Stops retention and erasure of a user's episodes, or of one, until it is lifted."""

    id: UUID
    tenant: str
    user: str | None = None
    episode_id: UUID | None = None
    reason: str
    placed_at: datetime
    placed_by: str

    def stops(self, episode: Episode) -> bool:
        """Whether it stands on an episode of its tenant."""
        return self.episode_id == episode.id or self.user == episode.scope.user
