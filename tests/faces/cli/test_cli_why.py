"""`octopus why`: which memories the model was given, with the words that the ledger points to."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopus_memory import ContextConfig, EpisodicMemory
from octopus_memory.__main__ import program
from tests.support.command_line import run, run_json, use_folder


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def _filled(_own_folder: None) -> None:
    run("add", "monday", "I am allergic to peanuts.")
    run("facts", "add", "Prefers tea.", "--kind", "preference", "--pin")
    with EpisodicMemory.open(background=False) as memory:
        memory.configure("default", ContextConfig(ledger="full"))  # type: ignore[arg-type]
        scope = memory.scope(user="me")
        scope.close_session("monday")
        memory.flush()
        scope.context("What am I allergic to?", session_id="tuesday")
        scope.add("tuesday", [("user", "What am I allergic to?"), ("assistant", "Peanuts.")])
        scope.context("Thank you, and the tea?", session_id="tuesday")
        scope.add("tuesday", [("user", "And the tea?"), ("assistant", "Green.")])


def test_a_session_is_explained_turn_by_turn():
    shown = run("why", "tuesday").stdout
    assert "turn 1" in shown
    assert "turn 3" in shown
    assert "I am allergic to peanuts." in shown
    assert "Prefers tea." in shown
    assert "pinned" in shown
    assert "What am I allergic to?" in shown


def test_an_answer_is_explained_by_the_message_that_it_answers():
    assert run("why", "tuesday", "2").stdout == run("why", "tuesday", "1").stdout
    assert "turn 3" in run("why", "tuesday", "4").stdout
    assert "turn 1" not in run("why", "tuesday", "4").stdout


def test_the_entries_as_json():
    first, second = run_json("why", "tuesday")["injections"]
    assert (first["ordinal"], second["ordinal"]) == (0, 2)
    kinds = {item["kind"] for item in first["shown"]}
    assert {"fact", "passage"} <= kinds
    assert "text" not in first["shown"][0]


def test_what_has_no_entry_is_said():
    assert "nothing for session monday" in run("why", "monday").stdout
    assert "nothing for turn 99" in run("why", "tuesday", "99").stdout
    failed = CliRunner().invoke(program(), ["why", "nothing"])
    assert failed.exit_code == 1
    assert "no session" in failed.stderr.lower()


def test_what_was_erased_is_not_repeated():
    episode = next(
        item["episode_id"]
        for item in run_json("why", "tuesday")["injections"][0]["shown"]
        if item["kind"] == "passage"
    )
    run("erase", "--user", "me", "--agent", "default", "--episode", episode, "--yes")
    assert "peanuts." not in run("why", "tuesday").stdout.replace("Peanuts.", "")
