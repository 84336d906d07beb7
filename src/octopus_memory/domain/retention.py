"""How long an episode stays in each stage: policy and time to what is to be done."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from .policy import EpisodicRetentionPolicy


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


def shortest_stay(stage: Stage, policy: EpisodicRetentionPolicy) -> timedelta:
    """No episode of this stage is due before so long after its `since`."""
    match stage:
        case Stage.DELETED:
            return timedelta(days=policy.purge_grace_days)
        case Stage.ARCHIVED:
            return timedelta(days=policy.archive_retention_days)
        case Stage.ACTIVE:
            return timedelta(days=policy.active_retention_days)
