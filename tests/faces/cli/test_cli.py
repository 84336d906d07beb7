"""The command line: looking, storing, errors and output."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from octopus_memory import EpisodicMemory, ToolCall
from octopus_memory.__main__ import program
from octopus_memory.adapters.embedders.minilm import MiniLMEmbedder
from octopus_memory.faces.cli.database import parse_since, parse_until
from octopus_memory.faces.given import actor_of
from octopus_memory.testing.openai_server import FakeOpenAIServer
from tests.support.command_line import run, run_json, use_folder

READ_ONLY = "sqlite:///memory.db?mode=ro"


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


def lines(*messages):
    return "".join(json.dumps(message) + "\n" for message in messages)


@pytest.fixture
def tea():
    """One closed session and one open one."""
    run("add", "monday", "My favourite tea is Darjeeling.", "--at", "2025-03-10T09:00", "--end")
    run("add", "friday", "The printer on the third floor is out of paper.")


def test_recall_finds_what_was_stored(tea):
    found = run_json("recall", "Which tea do I like?", "--limit", 1)
    assert [snippet["session_id"] for snippet in found] == ["monday"]
    assert 0 < found[0]["relevance"] <= 1
    assert found[0]["date"] == "2025-03-10T09:00:00Z"
    assert "Darjeeling" in run("recall", "tea", "--limit", 1).stdout


def test_recall_explains(tea):
    plain = run("recall", "favourite tea", "--limit", 1).stdout
    explained = run("recall", "favourite tea", "--limit", 1, "--explain").stdout
    assert explained.startswith(plain.rstrip("\n"))
    assert "matched  user: My favourite tea is Darjeeling." in explained
    assert re.search(r"[+-]\d\.\d\d  \w+: ", explained)


def test_recall_finds_turns(tea):
    hits = run_json("recall", "favourite tea", "--turns", "--limit", 1)
    assert [(hit["role"], hit["text"]) for hit in hits] == [
        ("user", "My favourite tea is Darjeeling.")
    ]
    assert "user  My favourite tea" in run("recall", "tea", "--turns", "--limit", 1).stdout


@pytest.mark.parametrize(
    ("options", "sessions"),
    [
        (["--until", "2025-03-10"], {"monday"}),
        (["--until", "2025-03-09"], set()),
        (["--since", "2025-03-10", "--until", "2025-03-11"], {"monday"}),
        (["--since", "2025-03-10T09:00:01"], {"friday"}),
        (["--min-score", "1"], set()),
        (["--user", "another"], set()),
        (["--agent", "another"], set()),
        (["--tenant", "another"], set()),
        (["--mode", "semantic", "--min-score", "0"], {"monday", "friday"}),
    ],
)
def test_recall_keeps_to_its_options(tea, options, sessions):
    found = run_json("recall", "tea and paper", *options)
    assert {snippet["session_id"] for snippet in found} == sessions


def test_an_empty_result_names_the_scope_that_was_searched(tea):
    assert run("recall", "tea", "--user", "bo").stdout == (
        "Nothing found for tenant default, agent default, user bo.\n"
        "It holds conversations of:\n"
        "  --tenant default --agent default --user me\n"
    )
    assert "user bo" in run("recent", "--user", "bo").stdout
    assert run_json("recent", "--user", "bo") == []


def test_recent_is_newest_first(tea):
    assert [s["session_id"] for s in run_json("recent")] == ["friday", "monday"]
    assert [s["session_id"] for s in run_json("recent", "--limit", 1)] == ["friday"]
    shown = run("recent").stdout
    assert shown.index("session friday") < shown.index("session monday")
    assert "relevance" not in shown


def test_reads_are_recorded_with_the_name_of_the_operator(tea, monkeypatch):
    monkeypatch.setenv("OCTOPUS_AUDIT_READS", "true")
    run("recall", "tea")
    run("recent")
    run("replay", "monday")
    run("restore")
    run("chat", "--quiet", stdin="/recent\n")
    entries = run_json("audit", "list")
    assert {entry["actor"] for entry in entries} == {actor_of("cli")}
    assert {"recall", "recent", "session", "deleted"} <= {entry["action"] for entry in entries}


def test_replay_shows_everything():
    call = ToolCall(tool_call_id="c1", function_name="brew", arguments={"cups": 2}, result="done")
    with EpisodicMemory.open() as memory, memory.scope(user="me").episode("s") as episode:
        episode.add("user", "Tea, please.")
        episode.add_tool_call("brew", call.arguments, call.result, tool_call_id="c1")
        episode.add("assistant", "Here you are.")
    shown = run("replay", "s").stdout
    for part in ("session s  ended, 3 messages", "user  Tea, please.", "user_closed", "summary  "):
        assert part in shown
    assert 'tool  brew({"cups": 2}) → done' in shown
    told = run_json("replay", "s")
    assert told["session"]["status"] == "ended"
    assert [t["message"]["role"] for t in told["episodes"][0]["turns"]] == [
        "user",
        "tool",
        "assistant",
    ]
    listed = json.loads(run("replay", "s", "--messages").stdout)
    assert [message["role"] for message in listed] == ["user", "assistant", "tool", "assistant"]


def test_replay_shows_the_end_of_a_session():
    with EpisodicMemory.open() as memory:
        scope = memory.scope(user="me")
        scope.store([("user", "Tea, please.")], session_id="s")
        scope.add("s", [("user", "And a biscuit."), ("assistant", "Here you are.")])
    shown = run("replay", "s", "--last", 1).stdout
    assert "session s  active, the last 1 message\n" in shown
    assert "episode ·" in shown
    assert "biscuit" not in shown
    listed = json.loads(run("replay", "s", "--last", 2, "--messages").stdout)
    assert [message["content"] for message in listed] == ["And a biscuit.", "Here you are."]
    assert run("replay", "s", "--last", 0, code=2).stdout == ""


def test_stats_count(tea):
    counted = run_json("stats")
    assert (counted["sessions"], counted["episodes"], counted["turns"]) == (2, 2, 2)
    assert counted["open_episodes"] == 1
    assert counted["backlog"]["embed"]["waiting"] == 0
    assert "2 (1 open)" in run("stats").stdout


def test_add_stores_lines_of_json():
    told = run_json(
        "add",
        "s",
        "-",
        "--end",
        stdin=lines(
            {"role": "user", "content": "When is the meeting?"},
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "On Tuesday."}],
                "name": "A",
            },
        ),
    )
    assert (told["stored"], told["session_id"], told["waiting"]) == (2, "s", 0)
    assert told["episode"]["end_reason"] == "user_closed"
    assert told["episode"]["summary"]
    turns = run_json("replay", "s")["episodes"][0]["turns"]
    assert turns[1]["message"] == {
        "role": "assistant",
        "content": [{"type": "text", "text": "On Tuesday."}],
        "name": "A",
    }


def test_add_stores_long_input_in_order():
    many = [{"role": "user", "content": f"Message {number}."} for number in range(450)]
    assert run("add", "s", "-", stdin=lines(*many)).stdout == "Stored 450 messages in session s.\n"
    assert json.loads(run("replay", "s", "--messages").stdout) == many


def test_add_takes_a_role_and_a_time():
    run("add", "s", "Hello.", "--role", "assistant", "--at", "2025-03-10T10:00+01:00")
    [turn] = run_json("replay", "s")["episodes"][0]["turns"]
    assert (turn["message"]["role"], turn["at"]) == ("assistant", "2025-03-10T09:00:00Z")


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        ("", "standard input: must not be empty"),
        ("nonsense\n", "line 1: must be JSON"),
        ('{"role": "user", "content": "a"}\n\n[1]\n', "line 3: must be an object"),
        ('{"role": "user", "content": "a"}\n{"role": "user"}\n', "line 2.content: is missing"),
        (b"\xff\n", "line 1: must be JSON"),
        ('{"role": "tool", "tool_call_id": "x", "content": "y"}\n', "tool_call_id"),
    ],
)
def test_a_bad_line_stores_nothing(stdin, message):
    assert message in run("add", "s", "-", stdin=stdin, code=1).stderr
    assert run_json("stats")["turns"] == 0


def test_an_error_on_the_way_says_what_is_stored():
    many = [{"role": "user", "content": "a"}] * 200
    orphan = {"role": "tool", "tool_call_id": "x", "content": "y"}
    done = run("add", "s", "-", stdin=lines(*many, orphan), code=1)
    assert "note: 200 messages before the error were stored" in done.stderr
    assert "error: message 201.tool_call_id: names no open call" in done.stderr
    assert run_json("stats")["turns"] == 200


def test_work_left_by_a_failing_embedder_is_done_later(monkeypatch):
    monkeypatch.setenv("OCTOPUS_EMBEDDER", "openai")
    monkeypatch.setenv("OCTOPUS_EMBEDDING_DIMENSION", "64")
    with FakeOpenAIServer(dimension=64) as server:
        monkeypatch.setenv("OCTOPUS_OPENAI_BASE_URL", server.base_url)
        server.fail(status=400, times=3)
        done = run("add", "s", "My favourite tea is Darjeeling.")
        assert "warning: stored, but not embedded yet" in done.stderr
        assert "1 text not embedded yet" in done.stdout
        server.clear()
        with EpisodicMemory.open(background=False) as memory:
            work = memory.runtime.store
            work.postpone(work_of(work), until=datetime(2025, 1, 1, tzinfo=UTC))
        told = run_json("run-pending")
    assert told == {"embedded": 1, "summarized": 0, "timed_out": 0, "waiting": 0}


def work_of(store):
    """Every piece of waiting work, claimed as if its wait were over."""
    far = datetime(2100, 1, 1, tzinfo=UTC)
    return store.claim("embed", worker_id="test", limit=9, now=far, until=far)


def test_reembed_counts_its_vectors(tea, monkeypatch):
    texts = sum(run_json("stats")["vectors"].values())
    monkeypatch.setenv("OCTOPUS_EMBEDDER", "minilm")
    model = MiniLMEmbedder().model
    assert run_json("reembed") == {"model": model, "embedded": texts, "waiting": 0}
    assert run_json("reembed")["embedded"] == 0


def test_run_pending_without_work(tea):
    assert "Embedded 0 texts" in run("run-pending").stdout


@pytest.mark.parametrize(
    ("args", "kind", "message"),
    [
        (["replay", "nope"], "SessionNotFound", "no session 'nope' here: octopus recent"),
        (["add", "", "hello"], "InvalidInput", "session_id: must have 1 to 256 characters"),
        (["add", "s", " "], "InvalidMessage", "text: must not be empty"),
        (["add", "s", "hello", "--db", READ_ONLY], "StoreReadOnly", "open it without"),
        (["run-pending", "--db", READ_ONLY], "StoreReadOnly", "open it without"),
        (["recent", "--db", "missing.db"], "StoreUnavailable", "there is no database missing.db"),
        (["stats", "--db", "."], "StoreUnavailable", "unable to open"),
        (["stats", "--db", "x" * 300], "InvalidSetting", "database_url: must name a possible file"),
        (
            ["migrate", "--from", "no.db", "--to", "x.db"],
            "InvalidInput",
            "--from: no such file",
        ),
        (["recent", "--db", "sqlite://memory.db"], "InvalidSetting", "three slashes"),
        (["recent", "--db", "sqlite:///a#1.db"], "InvalidSetting", "write %23"),
        (["recent", "--db", "nosuch://u:secret@h/x"], "InvalidSetting", "'nosuch' is not known"),
        (["recent", "--db", ""], "InvalidSetting", "db: must be a path or a URL"),
        (
            ["reembed", "--dimension", "99"],
            "InvalidSetting",
            "dimension: must not be given for hashing",
        ),
        (["recent", "--tenant", ""], "InvalidInput", "tenant: must have"),
        (["export", "--out", "."], "InvalidInput", "out: '.' is a folder"),
        (["stats", "--db", "text.txt"], "StoreCorrupt", "not an SQLite file"),
    ],
)
def test_errors_are_one_line(tea, args, kind, message):
    Path("text.txt").write_text("This is no database at all. " * 10)
    done = run(*args, code=1)
    assert done.stdout == ""
    assert re.fullmatch(r"error: .+\n", done.stderr)
    assert message in done.stderr
    assert "secret" not in done.stderr
    error = run_json(*args, code=1)["error"]
    assert error["type"] == kind
    assert message in error["message"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["recall"], "Missing argument"),
        (["recall", "x", "--limit", "0"], "--limit"),
        (["recall", "x", "--mode", "magic"], "--mode"),
        (["recall", "x", "--min-score", "2"], "--min-score"),
        (["recall", "x", "--since", "yesterday"], "is not a date or time"),
        (["recall", "x", "--until", "2025-13-01"], "is not a date or time"),
        (["add", "s", "x", "--role", "tool"], "--role"),
        (["recent", "--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
    ],
)
def test_usage_errors(args, message):
    done = run(*args, code=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_setting_is_named(monkeypatch):
    monkeypatch.setenv("OCTOPUS_CACHE_MB", "lots")
    assert run("recent", code=1).stderr.startswith("error: cache_mb: ")
    Path("octopus.toml").write_text("database_url = [")
    assert run("recent", code=1).stderr.startswith("error: octopus.toml: ")


def test_a_variable_much_like_a_setting_is_pointed_out(monkeypatch, caplog):
    for name in ("OCTOPUS_EMBEDER", "OCTOPUS_SERVER_PORT", "OCTOPUS_ARMS"):
        monkeypatch.setenv(name, "8")
    run("config", "show")
    assert "OCTOPUS_EMBEDER is not a setting: did you mean OCTOPUS_EMBEDDER?" in caplog.text
    assert "did you mean OCTOPUS_SERVER__PORT?" in caplog.text
    assert "OCTOPUS_ARMS" not in caplog.text


@pytest.mark.parametrize(
    "args",
    [
        "recall x|recent|replay x|stats|doctor|run-pending|keys list|keys rotate k|keys revoke k",
        "index verify|index rebuild|index drop|reembed|erase --user u --yes|compact|restore",
        "scrub --yes|holds list|retention run|audit list|export --user u",
    ],
)
def test_only_commands_that_add_create_a_database(args):
    for each in args.split("|"):
        CliRunner().invoke(program(), each.split())
        assert not list(Path.cwd().iterdir()), each


def test_a_read_only_database_can_be_looked_into(tea):
    assert run_json("recall", "tea", "--db", READ_ONLY)[0]["session_id"] == "monday"
    assert run_json("stats", "--db", READ_ONLY)["sessions"] == 2


def test_a_path_is_a_database_too():
    odd = Path("a folder") / "50%20?#é.db"
    run("add", "s", "hello", "--db", odd)
    assert odd.exists()
    assert len(run_json("recent", "--db", odd.absolute())) == 1


def test_nothing_stored_reaches_the_terminal_as_a_command():
    evil = "red \x1b[31m, title \x9d0;x\x07, \u202ebackwards, [bold]markup[/bold] :tea:"
    run("add", "s", evil)
    shown = run("recent").stdout
    assert (
        "red \ufffd[31m, title \ufffd0;x\ufffd, \ufffdbackwards, [bold]markup[/bold] :tea:" in shown
    )
    raw = run("replay", "s", "--messages").stdout
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", raw)
    assert json.loads(raw)[0]["content"] == evil


@pytest.mark.process
def test_the_output_takes_what_its_encoding_has(tea):
    run("add", "tea", "草 Tee mit Öl")

    for extra in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "octopus_memory", "recent", "--limit", "1", *extra],
            env=os.environ | {"PYTHONIOENCODING": "ascii"},
            capture_output=True,
            check=True,
        )
        assert done.stderr == b""
    assert "草" in json.loads(done.stdout)[0]["summary"]


def test_dates_mean_whole_days_in_utc():
    assert parse_since("2025-03-14") == datetime(2025, 3, 14, tzinfo=UTC)
    assert parse_until("2025-03-14") == datetime(2025, 3, 14, 23, 59, 59, 999999, tzinfo=UTC)
    assert parse_until("2025-03-14T10:00+02:00") == datetime(2025, 3, 14, 8, tzinfo=UTC)
