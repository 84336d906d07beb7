"""Values that are decoded from rows by the fast constructor are like all others."""

from __future__ import annotations

import dataclasses
import pickle
from datetime import UTC, datetime

import pytest

from octopus_memory.adapters.stores.sql.rows import maker
from octopus_memory.domain.episode import Turn
from octopus_memory.domain.ids import new_id
from octopus_memory.domain.message import Message

USUAL = Turn(
    id=new_id(),
    episode_id=new_id(),
    session_id="s",
    ordinal=3,
    message=Message({"role": "user", "content": "hello"}),
    tokens=5,
    at=datetime(2026, 1, 2, tzinfo=UTC),
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
