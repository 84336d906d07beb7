"""Recall results whose signals are computed on first access are like all others."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from datetime import UTC, datetime

import pytest

from octopus_memory.domain.episode import SignalShare, TurnHit
from octopus_memory.domain.ids import new_id
from octopus_memory.domain.message import Role

SIGNALS = (SignalShare(signal="meaning", value=0.5, contribution=1.2, words="cosine 0.50"),)
HIT = TurnHit(
    id=new_id(),
    episode_id=new_id(),
    session_id="s",
    ordinal=3,
    role=Role.USER,
    text="hello",
    at=datetime(2026, 1, 2, tzinfo=UTC),
    score=0.7,
    signals=SIGNALS,
)


class Why:
    asked = 0

    def __call__(self) -> tuple[SignalShare, ...]:
        self.asked += 1
        return SIGNALS


def hit(why: Why) -> TurnHit:
    return dataclasses.replace(HIT).explained_by(why)


def test_why_a_turn_was_found_is_asked_once_by_whoever_looks() -> None:
    why = Why()
    found = hit(why)
    assert found.text == "hello"
    assert why.asked == 0
    assert found.signals is found.signals is SIGNALS
    assert why.asked == 1


def test_nothing_tells_a_hit_from_one_that_was_given_its_signals() -> None:
    assert hit(Why()) == HIT
    assert hash(hit(Why())) == hash(HIT)
    assert repr(hit(Why())) == repr(HIT)
    assert dataclasses.asdict(hit(Why())) == dataclasses.asdict(HIT)
    assert pickle.loads(pickle.dumps(hit(Why()))) == HIT
    assert copy.deepcopy(hit(Why())) == HIT
    assert dataclasses.replace(hit(Why()), score=0.1) == dataclasses.replace(HIT, score=0.1)
    assert hit(Why()).explain() == HIT.explain()


def test_a_hit_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="'TurnHit' object has no attribute 'texts'"):
        hit(Why()).texts  # type: ignore[attr-defined]  # noqa: B018
