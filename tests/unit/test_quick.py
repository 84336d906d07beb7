"""Values made by `maker` equal those made by the constructor."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from datetime import UTC, datetime

import pytest

from octopus_memory.domain.episode import SignalShare, Turn, TurnHit
from octopus_memory.domain.ids import new_id
from octopus_memory.domain.message import Message, Role
from octopus_memory.domain.quick import maker

USUAL = Turn(
    id=new_id(),
    episode_id=new_id(),
    session_id="s",
    ordinal=3,
    message=Message({"role": "user", "content": "hello"}),
    tokens=5,
    at=datetime(2026, 1, 2, tzinfo=UTC),
)

SIGNALS = (SignalShare(signal="meaning", value=0.5, contribution=1.2, words="cosine 0.50"),)
HIT = TurnHit(
    id=USUAL.id,
    episode_id=USUAL.episode_id,
    session_id="s",
    ordinal=3,
    role=Role.USER,
    text="hello",
    at=USUAL.at,
    score=0.7,
    signals=SIGNALS,
)


def made() -> Turn:
    return maker(Turn)(*(getattr(USUAL, field.name) for field in dataclasses.fields(Turn)))


def test_nothing_tells_it_from_a_usual_one() -> None:
    turn = made()
    assert type(turn) is Turn
    assert turn == USUAL
    assert repr(turn) == repr(USUAL)
    assert dataclasses.asdict(turn) == dataclasses.asdict(USUAL)
    assert pickle.loads(pickle.dumps(turn)) == USUAL
    assert dataclasses.replace(turn, ordinal=4) == dataclasses.replace(USUAL, ordinal=4)


def test_it_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        made().ordinal = 4  # type: ignore[misc]


def test_every_value_is_needed() -> None:
    with pytest.raises(TypeError):
        maker(Turn)(new_id(), new_id())


class Why:
    asked = 0

    def __call__(self) -> tuple[SignalShare, ...]:
        self.asked += 1
        return SIGNALS


def hit(why: Why) -> TurnHit:
    values = [getattr(HIT, field.name) for field in dataclasses.fields(TurnHit)]
    return maker(TurnHit, {"signals": "why"})(*values[:-1], why)


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
