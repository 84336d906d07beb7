"""The commands about standing facts."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopus_memory.__main__ import program
from tests.support.command_line import run, run_json, use_folder


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


def test_a_fact_through_its_life():
    nuts = run_json("facts", "add", "Is allergic to nuts.", "--kind", "constraint", "--pin")
    assert (nuts["kind"], nuts["is_pinned"], nuts["origin"]) == ("constraint", True, "caller")
    ghent = run_json("facts", "add", "Lives in Ghent.", "--kind", "home")
    lyon = run_json("facts", "correct", ghent["id"], "Lives in Lyon.")
    assert lyon["replaces"] == ghent["id"]
    assert [fact["id"] for fact in run_json("facts", "list")["facts"]] == [nuts["id"], lyon["id"]]
    shown = run("facts", "list", "--history").stdout
    assert "Lives in Ghent." in shown
    assert "pinned" in shown
    assert "Ghent" not in run("facts", "list").stdout
    assert not run_json("facts", "pin", nuts["id"], "--off")["is_pinned"]
    assert "pinned" in run("facts", "pin", nuts["id"]).stdout
    assert run_json("facts", "list", "--as-of", "2020-01-01") == {"facts": []}
    home = run_json("facts", "list", "--kind", "home", "--kind", "work")["facts"]
    assert [fact["text"] for fact in home] == ["Lives in Lyon."]
    assert run_json("facts", "delete", lyon["id"], "--yes") == {"deleted": lyon["id"]}
    assert run("facts", "delete", nuts["id"], "--yes").stdout == f"Deleted fact {nuts['id']}.\n"
    assert run("facts", "list").stdout.startswith("No facts for tenant default")
    assert run_json("stats")["facts"] == 1
    assert "facts           1\n" in run("stats").stdout


def test_a_slot_makes_facts_replace_each_other():
    run("facts", "add", "Has a cat, Tom.", "--kind", "person", "--slot", "tom")
    run("facts", "add", "Tom died.", "--kind", "person", "--slot", "Tom")
    [fact] = run_json("facts", "list")["facts"]
    assert fact["text"] == "Tom died."
    assert run_json("facts", "list", "--user", "somebody else") == {"facts": []}


def test_invalid_calls_print_an_error():
    run("facts", "add", "Likes tea.")
    for command in (
        ("correct", "no-such", "x"),
        ("pin", "no-such"),
        ("delete", "no-such", "--yes"),
    ):
        done = run("facts", *command, code=1)
        assert done.stderr.startswith("error: no fact 'no-such' here: octopus facts list shows")
    assert run_json("facts", "add", " ", code=1)["error"]["type"] == "InvalidInput"
    assert "not one of 'name'" in run("facts", "add", "x", "--kind", "colour", code=2).stderr
    # Nobody can be asked here.
    done = run("facts", "delete", run_json("facts", "list")["facts"][0]["id"], code=2)
    assert "--yes" in done.stderr
    assert run_json("stats")["facts"] == 1


def test_only_facts_add_creates_a_database():
    for command in ("list", "correct x y", "pin x", "delete x --yes"):
        CliRunner().invoke(program(), ["facts", *command.split()])
        assert not list(Path.cwd().iterdir()), command
