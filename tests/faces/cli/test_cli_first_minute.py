"""The command line's first minute: help, chat, an import that fails, other people's databases."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from octopus_memory import EpisodicMemory
from octopus_memory.__main__ import program
from tests.support.command_line import errors_on_terminal, run, run_json, use_folder

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="there is no pty on Windows")
PROGRAM = [sys.executable, "-m", "octopus_memory"]
COMMANDS = [
    [name, *part]
    for name, command in typer.main.get_command(program()).commands.items()
    for part in ([], *([inner] for inner in getattr(command, "commands", {})))
]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


# --- Help ---


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_help_gives_no_value_to_a_switch(command: list[str]):
    shown = run(*command, "--help").stdout
    assert "--help" in shown
    assert "bool" not in shown.lower()


@pytest.mark.parametrize("command", [[], *COMMANDS], ids=" ".join)
def test_help_fits_80_columns_and_cuts_nothing(command: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run(*command, "--help").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown


def test_help_fills_its_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("chat", "--help").stdout
    paragraph = shown[shown.index("An OpenAI") : shown.index("╭")].strip().splitlines()
    assert len(paragraph) > 2
    assert all(len(line.strip()) > 55 for line in paragraph[:-1])


# --- Demo ---


def test_what_the_demo_suggests_works_after_it(monkeypatch: pytest.MonkeyPatch):
    assert "\n  octopus demo --serve\n" in run("demo").stdout
    monkeypatch.setattr("octopus_memory.faces.inspector.command.find_spec", lambda _: None)
    shown = run("demo").stdout
    assert "pip install 'octopus-memory[server]' && octopus demo --serve" in shown


# --- Context ---


def test_context_prints_the_block_for_a_message():
    run("add", "monday", "I am allergic to peanuts.", "--end")
    shown = run("context", "What should I not eat?").stdout
    assert shown.startswith("[Past Conversations]")
    assert "llergic to peanuts" in shown
    made = run_json("context", "What should I not eat?", "--budget", 300)
    assert "llergic to peanuts" in made["text"]
    assert made["messages"][-1]["content"] == "What should I not eat?"


def test_context_of_a_user_without_a_memory_names_the_others():
    run("add", "monday", "I am allergic to peanuts.", "--end")
    shown = run("context", "What should I not eat?", "--user", "ben").stdout
    assert shown.startswith("Nothing to show for tenant default, agent default, user ben.")
    assert "me" in shown


# --- Chat ---


def talk(*said: str, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    done = run("chat", "--json", *options, stdin="".join(f"{line}\n" for line in said))
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_new_session_remembers_the_one_before():
    events = talk("My favourite tea is Darjeeling.", "/new", "Which tea do I like?", "/quit", "x")
    assert [event["event"] for event in events] == [
        *("start", "context", "answer", "end"),
        *("start", "context", "answer", "end"),
    ]
    first, second = events[0]["session_id"], events[4]["session_id"]
    assert first != second
    assert (events[3]["session_id"], events[7]["session_id"]) == (first, second)
    assert events[0]["remembered"] is None
    assert events[4]["remembered"]["session_id"] == first
    assert "Darjeeling" in events[5]["context"]["text"]
    assert {found["session_id"] for found in run_json("recent")} == {first, second}


def test_a_new_session_after_an_empty_one():
    events = talk("/new", "Hello.")
    assert [event["event"] for event in events][:3] == ["start", "end", "start"]
    assert events[1]["episode"] is None
    assert len(run_json("recent")) == 1


def test_a_chat_tells_what_to_try_and_then_what_it_remembers():
    first = run("chat", stdin="My favourite tea is Darjeeling.\n/new\nWhich tea?\n").stdout
    tip, new, shown = (
        re.search(part, first)
        for part in ("Tell it something about yourself, then /new", "New session", r"adds \d+ tok")
    )
    assert tip
    assert new
    assert shown
    assert tip.start() < new.start() < shown.start()
    again = run("chat", stdin="/quit\n").stdout
    assert re.search(r"remembers earlier sessions\. The last, \d{4}-\d\d-\d\d: ", again)
    assert "Tell it something" not in again
    for command in ("/new", "/quit"):
        assert command in run("chat", stdin="/help\n").stdout


# --- Import ---


BROKEN = {
    "no such thing": ("conversations", "hello"),
    "nobody's": ("talk.jsonl", '{"messages": [{"role": "user", "content": "Hello."}]}\n'),
    "a bad role": ("talk.jsonl", '{"messages": [{"role": "nobody", "content": "x"}]}\n'),
    "empty": ("nothing.jsonl", ""),
}


@pytest.mark.parametrize("way", ["file", "standard input"])
@pytest.mark.parametrize("case", BROKEN)
def test_an_import_that_fails_leaves_no_new_database(case: str, way: str):
    name, text = BROKEN[case]
    options = ["--user", "ana"] if case == "a bad role" else []
    Path(name).write_text(text)
    if way == "file":
        run("import", name, "--db", "new.db", *options, code=1)
    else:
        run("import", "-", "--db", "new.db", *options, stdin=text, code=1)
    assert not [path.name for path in Path.cwd().iterdir() if path.name.startswith("new.db")]


def test_an_import_that_fails_leaves_a_database_that_was_there():
    run("add", "s", "hello", "--db", "new.db")
    Path("x").write_text("hello")
    run("import", "x", "--db", "new.db", code=1)
    assert run_json("stats", "--db", "new.db")["episodes"] == 1


def test_conversations_imported_before_a_fault_stay():
    good = '{"messages": [{"role": "user", "content": "Hello."}]}\n'
    Path("talk.jsonl").write_text(good + '{"messages": [{"role": "nobody"}]}\n')
    error = run("import", "talk.jsonl", "--user", "ana", "--db", "new.db", code=1).stderr
    assert "the 1 before it are in" in error
    assert run_json("stats", "--db", "new.db")["episodes"] == 1


def test_a_database_that_another_has_open_is_not_removed(monkeypatch: pytest.MonkeyPatch):
    """Another process may be about to write to it."""
    from octopus_memory.engine.tenant import MemoryTenant

    opened: list[sqlite3.Connection] = []

    def fails(*_: object, **__: object) -> None:
        other = sqlite3.connect("new.db")
        other.execute("SELECT count(*) FROM octopus_episodes").fetchone()
        opened.append(other)
        raise OSError("the disk is gone")

    monkeypatch.setattr(MemoryTenant, "import_user", fails)
    Path("talk.jsonl").write_text('{"messages": []}\n')
    run("import", "talk.jsonl", "--user", "ana", "--db", "new.db", code=1)
    assert Path("new.db").exists()
    for other in opened:
        other.close()


@pytest.mark.process
@POSIX
@pytest.mark.parametrize("way", ["file", "standard input"])
def test_an_import_shows_its_progress_on_a_terminal_alone(way: str):
    line = {"messages": [{"role": "user", "content": "Hello there."}]}
    Path("talk.jsonl").write_text(f"{json.dumps(line)}\n" * 200)
    command = '"$@" talk.jsonl' if way == "file" else '"$@" - < talk.jsonl'
    script = ["sh", "-c", command, "sh", *PROGRAM, "import", "--user", "ana"]
    piped = subprocess.run(script, capture_output=True, text=True, check=True)
    assert piped.stderr == ""
    Path("memory.db").unlink()
    assert b"importing" in errors_on_terminal(*script)


# --- Whose database it is ---


def test_recent_says_whose_conversations_there_are():
    run("add", "s", "hello", "--tenant", "acme", "--agent", "hr", "--user", "ana")
    shown = run("recent").stdout
    assert "Nothing stored for tenant default, agent default, user me." in shown
    assert "--tenant acme --agent hr --user ana" in shown
    assert "--tenant acme --agent hr --user ana" in run("recall", "hello").stdout
    assert run_json("recent") == []


def test_recent_names_a_few_of_many():
    for number in range(8):
        run("add", "s", "hello", "--user", f"user-{number}")
    shown = run("recent").stdout
    assert shown.count("--user user-") == 5
    assert "and others" in shown


def test_recent_in_an_empty_database_names_nobody():
    EpisodicMemory.open("memory.db", embedder="hashing", background=False).close()
    assert run("recent").stdout.count("\n") == 1


# --- A path for a database ---


@pytest.mark.parametrize("name", ["memory.db", "./a b/5%25 #1?.db", "sub/memory"])
def test_a_memory_opens_at_a_path(tmp_path: Path, name: str):
    Path(name).parent.mkdir(exist_ok=True)
    with EpisodicMemory.open(name, embedder="hashing", background=False) as memory:
        memory.scope(user="ana").add("s", ("user", "Hello."))
    assert (tmp_path / name).is_file()
    with EpisodicMemory.open(tmp_path / name, embedder="hashing", background=False) as memory:
        assert len(memory.scope(user="ana").session("s").turns) == 1


def test_a_database_in_memory_has_no_file():
    EpisodicMemory.open(":memory:", embedder="hashing", background=False).close()
    assert not list(Path.cwd().iterdir())
