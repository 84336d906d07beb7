"""`octopus forget`: a preview, then the removal."""

from __future__ import annotations

from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from tests.support.command_line import run, run_json, use_folder


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


@pytest.fixture
def talk() -> None:
    with EpisodicMemory.open("sqlite:///memory.db", embedder="hashing", background=False) as memory:
        memory.scope(user="me").store(
            [("user", "My dog Fidibus sleeps on the sofa. It rains."), ("user", "Good dog!")]
        )


@pytest.mark.usefixtures("talk")
def test_a_preview_names_the_token_that_removes_it() -> None:
    shown = run("forget", "Fidibus").stdout
    assert "My dog Fidibus sleeps on the sofa." in shown
    assert "says it" in shown
    assert "Nothing is removed yet" in shown
    token = shown.split("--confirm ")[1].split()[0]
    assert "state    complete" in run("forget", "--confirm", token).stdout
    assert b"Fidibus" not in Path("memory.db").read_bytes()
    assert "It rains." in run("recall", "rain", "--turns").stdout
    assert "expired" in run("forget", "--confirm", token, code=1).output


@pytest.mark.usefixtures("talk")
def test_yes_removes_it_at_once() -> None:
    found = run_json("forget", "Fidibus", "--yes")
    assert found["preview"]["is_clear"]
    assert found["receipt"]["complete"]
    assert found["receipt"]["removed"]["rewritten turns"] == 1


@pytest.mark.usefixtures("talk")
def test_what_is_not_clear_stays_and_is_named_by_its_id() -> None:
    unclear = run("forget", "my cat's paw", code=1)
    assert "nothing is removed" in unclear.stdout
    with EpisodicMemory.open("sqlite:///memory.db", background=False) as memory:
        scope = memory.scope(user="me")
        turn = scope.session(scope.sessions().items[0].id).turns[1]
    found = run_json("forget", "--turn", str(turn.id), "--yes")
    assert found["receipt"]["removed"]["turns"] == 1
    run("forget", "dog", "--confirm", "x", code=2)
