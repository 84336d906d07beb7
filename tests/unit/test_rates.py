"""Counts of calls by the minute."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from octopus_memory import EpisodicMemory, InvalidInput
from octopus_memory.domain.errors import StoreUnavailable
from octopus_memory.engine.core import rates
from octopus_memory.engine.core.rates import MINUTES, Rate, Rates


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000 * 60.0

    def __call__(self) -> float:
        return self.now


def test_counts_are_kept_by_minute_and_tenant():
    clock = Clock()
    counts = Rates(clock)
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
    counts = Rates(clock)
    counts.count("a", Rate.MESSAGES, 3)
    clock.now += 59 * 60
    assert counts.minutes("a")[0].messages == 3
    clock.now += 60
    assert not any(each.messages for each in counts.minutes("a"))
    counts.count("a", Rate.MESSAGES, 4)
    assert sum(each.messages for each in counts.minutes("a")) == 4


def test_tenants_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rates, "_MOST_TENANTS", 2)
    counts = Rates(Clock())
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
    found = memory.rates.minutes("acme")
    totals = tuple(sum(each[place] for each in found) for place in (1, 2, 3))
    assert totals == (3, 3, 1)
