"""Counts of calls by the minute, and of the background work."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory, InvalidInput
from octopus_memory.domain.errors import StoreUnavailable
from octopus_memory.engine.core import counts as module
from octopus_memory.engine.core.counts import MINUTES, Counts, Rate
from octopus_memory.ports.recall_rows import WorkKind


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000 * 60.0

    def __call__(self) -> float:
        return self.now


def test_counts_are_kept_by_minute_and_tenant():
    clock = Clock()
    counts = Counts(clock)
    counts.count("a", Rate.MESSAGES, 3)
    counts.count("b", Rate.RECALLS)
    clock.now += 60
    counts.count("a", Rate.MESSAGES)
    counts.count("a", Rate.ERRORS)
    of_a = counts.minutes("a")
    assert len(of_a) == MINUTES
    assert [each[1:] for each in of_a[-2:]] == [(3, 0, 0), (1, 0, 1)]
    assert of_a[-1].at == datetime.fromtimestamp(clock.now, UTC)
    assert [each[1:] for each in counts.minutes()[-2:]] == [(3, 1, 0), (1, 0, 1)]
    assert not any(any(each[1:]) for each in counts.minutes("unknown"))


def test_an_hour_is_kept():
    clock = Clock()
    counts = Counts(clock)
    counts.count("a", Rate.MESSAGES, 3)
    clock.now += 59 * 60
    assert counts.minutes("a")[0].messages == 3
    clock.now += 60
    assert not any(each.messages for each in counts.minutes("a"))
    counts.count("a", Rate.MESSAGES, 4)
    assert sum(each.messages for each in counts.minutes("a")) == 4


def test_tenants_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_TENANTS", 2)
    counts = Counts(Clock())
    for tenant in ("a", "b", "a", "c"):
        counts.count(tenant, Rate.RECALLS)
    assert [sum(each.recalls for each in counts.minutes(name)) for name in "abc"] == [2, 0, 1]
    assert sum(each.recalls for each in counts.minutes()) == 4


def test_calls_of_a_scope_are_counted(memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch):
    scope = memory.scope(tenant="acme", user="ana")
    scope.add("s", [("user", "Hello."), ("assistant", "Hello.")])
    scope.store([("user", "Hello.")])
    scope.recall("hello")
    scope.recall_turns("hello")
    scope.context("hello")
    with pytest.raises(InvalidInput):
        scope.recall("hello", limit=-1)

    def fail(*_: object, **__: object) -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr("octopus_memory.engine.read.recall.recall", fail)
    with pytest.raises(StoreUnavailable):
        scope.recall("hello")
    found = memory.counts.minutes("acme")
    totals = tuple(sum(each[place] for each in found) for place in (1, 2, 3))
    assert totals == (3, 3, 1)


def test_processes_of_one_service_read_the_sum_of_their_counts(tmp_path: Path):
    """Each has a file of its own, as they have here; one that ended is still counted."""
    clock = Clock()
    one, other, alone = Counts(clock), Counts(clock), Counts(clock)
    one.count("a", Rate.MESSAGES, 3)
    one.count_work(WorkKind.EMBED, done=5, failed=1)
    one.share(tmp_path)
    one.share(tmp_path)
    clock.now += 60
    later = Counts(clock)
    for each in (other, later):
        each.share(tmp_path)
        each.count("b", Rate.RECALLS)
        each.count("a", Rate.MESSAGES)
        each.count_work(WorkKind.EMBED, done=1)
    alone.count("a", Rate.MESSAGES)
    del later
    for each in (one, other):
        assert [minute[1:] for minute in each.minutes("a")[-2:]] == [(3, 0, 0), (2, 0, 0)]
        assert [minute[1:] for minute in each.minutes()[-2:]] == [(3, 0, 0), (2, 2, 0)]
        assert each.work()[WorkKind.EMBED] == (7, 1)
        assert each.since == datetime.fromtimestamp(clock.now - 60, UTC)
    assert sum(minute.messages for minute in alone.minutes()) == 1
