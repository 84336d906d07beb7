"""The command line's `demo` and `chat`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from octopus_memory.testing.openai_server import FakeOpenAIServer
from tests.support.command_line import errors_on_terminal, run, run_json, use_folder

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="there is no pty on Windows")
PROGRAM = [sys.executable, "-m", "octopus_memory"]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


@pytest.fixture
def server(monkeypatch):
    with FakeOpenAIServer(dimension=64) as server:
        monkeypatch.setenv("OCTOPUS_OPENAI_BASE_URL", server.base_url)
        yield server


def talk(*said, options=(), code=0):
    """A chat through a pipe; its events."""
    done = run("chat", "--json", *options, stdin="".join(f"{line}\n" for line in said), code=code)
    return [json.loads(line) for line in done.stdout.splitlines()]


def of_kind(events, kind):
    return [event for event in events if event["event"] == kind]


def on_terminal(*args, columns=80):
    """What a terminal of so many columns gets, with and without its escape sequences."""
    import pty

    master, slave = pty.openpty()
    env = os.environ | {"COLUMNS": str(columns), "TERM": "xterm-256color"}
    with subprocess.Popen([*PROGRAM, *args], stdin=slave, stdout=slave, stderr=slave, env=env) as p:
        os.close(slave)
        raw = b""
        while True:
            try:
                got = os.read(master, 65536)
            except OSError:
                break
            if not got:
                break
            raw += got
    os.close(master)
    assert p.returncode == 0, raw.decode()
    text = raw.decode().replace("\r\n", "\n")
    return text, re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text)


def test_demo_tells_the_story():
    done = run("demo")
    story = done.stdout
    parts = [
        "session leave-balance",
        "get_leave_balance(",
        "key facts  - ",
        "26 May 2025",
        "Without memory (written beforehand, no model was asked):",
        "With memory (written beforehand, no model was asked):",
        "8 will be left",
        "What memory found",
        "relevance 0.",
        "meaning: ",
        "[Past Conversations]",
        "1  system  [Past Conversations]",
        "2  user    Good morning!",
        "Another user (sam) asked Aria the same and got nothing",
        "removed now",
        "octopus chat",
        "octopus doctor",
    ]
    places = [story.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)
    assert not re.search("[\x1b\u2500-\u257f]", story)
    removed = Path(re.search(r"in (\S+), removed now", story)[1])
    assert not removed.parent.exists()
    assert not list(Path.cwd().iterdir())


def test_demo_keeps_its_database_and_runs_again():
    first = run_json("demo", "--keep", "demo.db")
    again = run_json("demo", "--keep", "demo.db")
    assert again["episodes"] == first["episodes"]
    assert [episode["session_id"] for episode in first["episodes"]] == [
        "leave-balance",
        "june-holiday",
        "travel-expenses",
    ]
    assert all(episode["key_facts"] for episode in first["episodes"])
    best = {snippet["session_id"] for snippet in first["recalled"][:2]}
    assert best == {"leave-balance", "june-holiday"}
    assert first["context"]["text"] == first["context"]["messages"][1]["content"]
    assert first["recalled_for_another_user"] == []
    scope = ["--db", "demo.db", "--agent", "aria", "--user", "dana"]
    assert len(run_json("recent", *scope)) == 3
    assert run_json("stats", "--db", "demo.db")["sessions"] == 3


@pytest.mark.process
def test_a_live_demo_asks_the_model_with_and_without_memory(server):
    server.answer("I do not know.")
    server.answer("8 days, Ms Weber.")
    shown = run_json("demo", "--live")
    assert shown["answers"]["without_memory"] == "I do not know."
    assert shown["answers"]["with_memory"] == "8 days, Ms Weber."
    bare, full = (request.body["messages"] for request in server.requests[-2:])
    assert "[Past Conversations]" not in json.dumps(bare)
    assert full == shown["context"]["messages"]


def test_a_live_demo_without_a_model_names_the_setting():
    assert "OPENAI_BASE_URL" in run("demo", "--live", code=1).stderr


def test_the_demo_is_either_printed_or_served():
    assert (
        "--serve: must not be given with --json" in run("demo", "--serve", "--json", code=1).stdout
    )


def test_demo_leaves_other_databases_alone():
    run("add", "s", "mine")
    error = run("demo", "--keep", "memory.db", code=1).stderr
    assert (
        error
        == "error: --keep: the file exists and was not created by the demo: choose another path\n"
    )
    assert run_json("stats")["sessions"] == 1


@pytest.mark.process
@POSIX
def test_demo_fits_a_narrow_terminal():
    raw, shown = on_terminal("demo", columns=80)
    assert "\x1b[" in raw
    assert "╭─ context block" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.process
@POSIX
def test_progress_is_shown_on_a_terminal_alone():
    Path("talk.jsonl").write_text('{"role": "user", "content": "Hello there."}\n' * 300)
    script = ["sh", "-c", '"$@" < talk.jsonl', "sh", *PROGRAM, "add", "s", "-"]
    piped = subprocess.run(script, capture_output=True, text=True, check=True)
    assert piped.stderr == ""
    assert b"storing" in errors_on_terminal(*script)


def test_a_chat_is_remembered_by_the_next():
    first = talk("My favourite tea is Darjeeling.")
    assert [event["event"] for event in first] == ["start", "context", "answer", "end"]
    assert first[0]["model"] == "echo"
    assert first[1]["context"]["text"] == ""
    assert first[3]["episode"]["end_reason"] == "user_closed"
    second = talk("Which tea is my favourite?")
    assert second[0]["session_id"] != first[0]["session_id"]
    [added] = of_kind(second, "context")
    assert "Darjeeling" in added["context"]["text"]
    assert "Darjeeling" in added["context"]["messages"][1]["content"]


@pytest.mark.process
def test_a_chat_through_pipes_reads_as_a_transcript():
    done = subprocess.run(
        [*PROGRAM, "chat"], input="Tea, please.\n", capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    shown = done.stdout
    for part in (
        "No model is configured, so an echo answers",
        "you> Tea, please.\n(memory has nothing to add)\nagent> You said: Tea, please.\n",
        "Session closed.",
        "summary    ",
    ):
        assert part in shown


def test_a_quiet_chat_does_not_show_what_memory_adds():
    talk("My favourite tea is Darjeeling.")
    loud = run("chat", stdin="Which tea?\n").stdout
    quiet = run("chat", "--quiet", stdin="Which tea?\n").stdout
    assert "[Past Conversations]" in loud
    assert "[Past Conversations]" not in quiet
    assert "agent> You said: Which tea?" in quiet
    assert not of_kind(talk("Which tea?", options=["--quiet"]), "context")


def test_a_chat_has_commands():
    talk("My favourite tea is Darjeeling.")
    events = talk("/recall tea", "/recent", "/help", "/recall", "/magic", " /not a command", "/end")
    kinds = [event["event"] for event in events]
    assert kinds[:6] == ["start", "recall", "recent", "help", "unknown", "unknown"]
    assert kinds[6:] == ["context", "answer", "end"]
    assert "Darjeeling" in events[1]["snippets"][0]["summary"]
    assert events[5]["command"] == "/magic"
    assert of_kind(events, "answer")[0]["content"] == "You said: /not a command"
    shown = run("chat", stdin="/recall tea\n/recent\n/help\n/recall\n/magic\n").stdout
    assert "relevance" in shown
    assert "/recall QUERY" in shown
    assert "/recall needs a query" in shown
    assert "/magic is not a command" in shown


def test_nothing_after_the_end_is_said():
    events = talk("One.", "/end", "Two.")
    assert len(of_kind(events, "answer")) == 1


def test_a_chat_without_a_word_stores_nothing():
    assert talk("", "/help")[-1]["episode"] is None
    assert run_json("stats")["sessions"] == 0
    assert "Nothing was said" in run("chat", stdin="").stdout


def test_a_session_goes_on(server):
    talk("My name is Kim.", options=["--session", "tea"])
    events = talk("What is my name?", options=["--session", "tea"])
    assert events[0] == {
        "event": "start",
        "session_id": "tea",
        "model": "gpt-4o-mini",
        "messages_before": 2,
        "remembered": None,
    }
    sent = server.requests[-1].body["messages"]
    assert [m["content"] for m in sent if m["role"] == "user"] == [
        "My name is Kim.",
        "What is my name?",
    ]
    assert len(run_json("replay", "tea")["episodes"]) == 2


def test_the_model_gets_the_memory(server, monkeypatch):
    monkeypatch.setenv("OCTOPUS_CHAT_MODEL", "tea-model")
    talk("My favourite tea is Darjeeling.")
    server.answer("Buy Darjeeling.")
    events = talk("Which tea is my favourite?")
    assert of_kind(events, "answer")[0]["content"] == "Buy Darjeeling."
    body = server.requests[-1].body
    assert body["model"] == "tea-model"
    assert [message["role"] for message in body["messages"]] == ["system", "system", "user"]
    assert "Darjeeling" in body["messages"][1]["content"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda s: s.fail(status=401), "did not accept the key"),
        (lambda s: s.fail(status=404), "check OCTOPUS_CHAT_MODEL"),
        (lambda s: s.fail(status=418), "refused (status 418)"),
        (lambda s: s.send(b"<html>"), "gave no chat completion"),
        (lambda s: s.send({"choices": []}), "gave no chat completion"),
        (lambda s: s.answer(""), "answered without text"),
        (lambda s: s.drop(times=3), "cannot be reached"),
    ],
)
def test_a_failing_model_loses_nothing(server, fault, message):
    fault(server)
    events = talk("Remember the milk.", "Are you there?", code=1)
    [error] = of_kind(events, "error")
    assert error["error"]["type"] == "ModelError"
    assert message in error["error"]["message"]
    assert "milk" not in error["error"]["message"]
    assert len(of_kind(events, "answer")) == 1
    [replay] = run_json("replay", events[0]["session_id"])["episodes"]
    assert [turn["message"]["role"] for turn in replay["turns"]] == ["user", "user", "assistant"]


def test_a_model_needs_its_extra(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    assert "pip install 'octopus-memory[openai]'" in run("chat", code=1).stderr


@pytest.fixture
def heeding_ctrl_c():
    """Whoever starts the tests in the background has their children ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.process
@POSIX
@pytest.mark.usefixtures("heeding_ctrl_c")
def test_ctrl_c_closes_the_session():
    with subprocess.Popen(
        [*PROGRAM, "chat", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as chat:
        chat.stdin.write("Remember the milk.\n")
        chat.stdin.flush()
        while '"answer"' not in chat.stdout.readline():
            pass
        chat.send_signal(signal.SIGINT)
        rest, errors = chat.stdout.read(), chat.stderr.read()
    assert (chat.returncode, errors) == (0, "")
    assert json.loads(rest)["episode"]["end_reason"] == "user_closed"
