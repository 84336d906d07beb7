"""Retention rules: boundaries, schedules and counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from octopus_memory import EpisodicRetentionPolicy, InvalidSetting, RetentionCounts
from octopus_memory.adapters.schedules import CronSchedule
from octopus_memory.domain.retention import (
    AgentRetention,
    RetentionReport,
    Stage,
    Step,
    next_step,
    shortest_stay,
)
from octopus_memory.settings import load
from octopus_memory.wiring import make_schedule

END = datetime(2025, 3, 14, 9, 22, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def step(stage: Stage, days: float, *, less: timedelta = timedelta(0), **policy: Any) -> Step:
    now = END + timedelta(days=days) - less
    return next_step(stage, EpisodicRetentionPolicy(**policy), since=END, now=now)


@pytest.mark.parametrize(
    ("stage", "days", "policy", "expected"),
    [
        (Stage.ACTIVE, 90, {}, Step.ARCHIVE),
        (Stage.ACTIVE, 365, {}, Step.DELETE),
        (Stage.ACTIVE, 365, {"delete_after_archival_period": False}, Step.ARCHIVE),
        (Stage.ACTIVE, 90, {"archive_on_expiry": False}, Step.DELETE),
        (
            Stage.ACTIVE,
            400,
            {"active_retention_days": 400, "archive_on_expiry": False},
            Step.DELETE,
        ),
        (Stage.ACTIVE, 0.5, {"active_retention_days": 0.5}, Step.ARCHIVE),
        (Stage.ARCHIVED, 365, {}, Step.DELETE),
        (Stage.ARCHIVED, 365, {"archive_on_expiry": False}, Step.DELETE),
        (Stage.DELETED, 7, {}, Step.PURGE),
        (Stage.DELETED, 0, {"purge_grace_days": 0}, Step.PURGE),
    ],
)
def test_a_stage_ends_on_its_day_and_not_before(
    stage: Stage, days: float, policy: dict[str, Any], expected: Step
):
    assert step(stage, days, **policy) is expected
    before = {Step.DELETE: Step.ARCHIVE} if (stage, days) == (Stage.ACTIVE, 365) else {}
    kept = before.get(expected, Step.KEEP)
    if "delete_after_archival_period" not in policy:
        assert step(stage, days, less=TICK, **policy) is kept


@pytest.mark.parametrize("days", [365, 10_000])
def test_an_archive_that_is_kept_for_good(days: int):
    assert step(Stage.ARCHIVED, days, delete_after_archival_period=False) is Step.KEEP


def test_an_archived_episode_is_not_archived_again():
    assert step(Stage.ARCHIVED, 200) is Step.KEEP
    assert step(Stage.ARCHIVED, 200, archive_on_expiry=False) is Step.KEEP


@pytest.mark.parametrize("stage", Stage)
def test_nothing_is_due_before_the_shortest_stay(stage: Stage):
    policy = EpisodicRetentionPolicy(
        active_retention_days=3, archive_retention_days=8, purge_grace_days=2
    )
    stay = shortest_stay(stage, policy)
    assert stay is not None
    assert next_step(stage, policy, since=END, now=END + stay) is not Step.KEEP
    assert next_step(stage, policy, since=END, now=END + stay - TICK) is Step.KEEP


def test_an_archive_that_is_kept_for_good_is_never_looked_at():
    policy = EpisodicRetentionPolicy(delete_after_archival_period=False)
    assert shortest_stay(Stage.ARCHIVED, policy) is None
    assert shortest_stay(Stage.ACTIVE, policy) == timedelta(days=90)


def test_counts_of_a_tenant_are_those_of_its_agents():
    one = RetentionCounts(archived=2, held=1)
    two = RetentionCounts(archived=3, purged=4, timed_out=1, failed=1)
    agents = tuple(
        AgentRetention(tenant=tenant, agent=agent, counts=counts)
        for tenant, agent, counts in (("a", "x", one), ("a", "y", two), ("b", "x", one))
    )
    report = RetentionReport(started_at=END, finished_at=END, agents=agents)
    both = RetentionCounts(archived=5, purged=4, held=1, timed_out=1, failed=1)
    assert report.tenants == {"a": both, "b": one}
    assert (one.moved, both.moved) == (2, 10)


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        ("0 2 * * *", datetime(2025, 3, 14, 1, 59, 59, tzinfo=UTC), (14, 2, 0)),
        ("0 2 * * *", datetime(2025, 3, 14, 2, 0, tzinfo=UTC), (15, 2, 0)),
        ("  */15   * * * * ", datetime(2025, 3, 14, 2, 1, tzinfo=UTC), (14, 2, 15)),
        ("30 4 * * SUN", datetime(2025, 3, 14, tzinfo=UTC), (16, 4, 30)),
        # 00:30 in Paris is still the day before.
        (
            "0 2 * * *",
            datetime(2025, 3, 15, 0, 30, tzinfo=timezone(timedelta(hours=1))),
            (15, 2, 0),
        ),
    ],
)
def test_a_schedule_is_in_utc(expression: str, after: datetime, expected: tuple[int, ...]):
    following = CronSchedule(expression).next_after(after)
    assert (following.day, following.hour, following.minute) == expected
    assert following.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "expression", ["daily", "0 2 * *", "* 0 2 * * *", "61 2 * * *", "0 0 30 2 *", "0 2 * * FUNDAY"]
)
def test_a_schedule_that_cannot_be_is_refused(expression: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OCTOPUS_RETENTION_SCHEDULE", expression)
    with pytest.raises(InvalidSetting, match="0 2 \\* \\* \\*") as caught:
        make_schedule(load())
    assert caught.value.field == "retention_schedule"


def test_the_schedule_comes_from_the_settings(monkeypatch: pytest.MonkeyPatch):
    assert str(make_schedule(load())) == "0 2 * * *"
    for empty in ("", "  "):
        monkeypatch.setenv("OCTOPUS_RETENTION_SCHEDULE", empty)
        assert make_schedule(load()) is None
