"""Two services on one PostgreSQL, killed under load: the short form of `benchmarks.load`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from benchmarks import load_services
from benchmarks.load_books import User, faults_of, lives_in
from tests.support.postgres_installation import Database

TEXT, OLD = "The parcel abc of [1] went to Porto.", "The parcel xyz of [0] went to Graz."
KNOWN = {TEXT: ("id-0", 0)}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process")
def test_nothing_is_lost_doubled_or_stale(postgres_database: Database, tmp_path: Path) -> None:
    result = load_services.run(
        postgres_database.url,
        tmp_path,
        services=2,
        seconds=8,
        kill_every=3,
        least_kills=2,
        users=6,
        clients=4,
    )
    assert result.faults == {}
    assert result.kills >= 2
    assert {"added", "recalled", "read", "erased", "asked after an erasure"} <= set(result.seen)
    logs = "".join(log.read_text() for log in tmp_path.glob("*.log"))
    assert "Traceback" not in logs
    assert "parcel" not in logs


def _turn(text: str, number: int = 0) -> dict[str, Any]:
    return {"id": f"id-{number}", "ordinal": number, "message": {"content": text}}


@pytest.mark.parametrize(
    ("turns", "faults"),
    [
        ([_turn(TEXT)], {}),
        ([_turn(TEXT), _turn(f"{TEXT} More.", 1)], {}),
        ([], {"lost": 1}),
        ([_turn(TEXT, 1)], {"lost": 1, "out of order": 1}),
        ([_turn(TEXT), _turn(TEXT, 1)], {"lost": 1, "doubled": 1}),
        ([_turn(TEXT), _turn(OLD, 1)], {"erased, but read": 1}),
    ],
)
def test_the_load_notices_a_broken_promise(
    turns: list[dict[str, Any]], faults: dict[str, int]
) -> None:
    assert +faults_of(1, KNOWN, turns) == faults


def test_an_erasure_begins_another_life() -> None:
    user = User("ana")
    with user.writing():
        session, text = user.next_message()
        user.acknowledge(session, text, _turn(text))
    with user.erasing():
        assert not user.is_in(0)
        user.begin_again()
    assert user.is_in(1)
    assert user.now() == (1, {})
    assert lives_in([text, user.next_message()[1]]) == {0, 1}
