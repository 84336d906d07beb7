"""The commands that forget, and the audit log's."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.erasure import is_genuine
from tests.support.command_line import run, run_json, use_folder


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Two users, one of them in two sessions, and the id of the first's first episode."""
    path = tmp_path_factory.mktemp("filled") / "memory.db"
    with EpisodicMemory.open(f"sqlite:///{path}", embedder="hashing", background=False) as memory:
        ana, ben = memory.scope(user="anabella"), memory.scope(user="ben")
        [turn] = ana.add("monday", ("user", "My dog Fidibus sleeps on the sofa all day."))
        ana.add("tuesday", ("user", "Fidibus was at the vet because of his paw."))
        ben.add("monday", ("user", "My cat sleeps on the sofa all day."))
        memory.flush()
    return path, str(turn.episode_id)


@pytest.fixture
def talk(filled: tuple[Path, str]) -> str:
    path, episode_id = filled
    shutil.copy(path, "memory.db")
    return episode_id


def test_a_user_is_erased_and_the_files_are_searched(talk: str):
    found = run_json("erase", "--user", "anabella", "--verify", "--yes")
    receipt, files = found["receipt"], found["files"]
    assert receipt["complete"]
    assert receipt["removed"]["turns"] == 2
    assert is_genuine(receipt)
    assert files["sought"] > 10
    assert files["found"] == {}
    assert files["files"]["memory.db"] == Path("memory.db").stat().st_size
    assert b"Fidibus" not in Path("memory.db").read_bytes()
    assert "cat" in run("recall", "sofa", "--user", "ben").stdout


def test_the_search_finds_what_a_rewrite_would_have_removed(
    talk: str, monkeypatch: pytest.MonkeyPatch
):
    """So that its nothing means something."""
    prepare = SqliteStore._prepare

    def off(self: SqliteStore, conn: sqlite3.Connection) -> None:
        prepare(self, conn)
        conn.execute("PRAGMA secure_delete=OFF")

    monkeypatch.setattr(SqliteStore, "_prepare", off)
    monkeypatch.setattr(SqliteStore, "_rewrite", lambda _: True)
    found = run_json("erase", "--user", "anabella", "--verify", "--yes", code=1)["files"]["found"]
    assert {"turns", "scopes", "recall", "episodes"} <= set(found)


def test_text_that_another_user_wrote_too_is_no_trace(talk: str):
    for user in ("anabella", "ben"):
        run(
            "add",
            "wednesday",
            "We wish you a merry Christmas and a happy new year.",
            "--user",
            user,
        )
    found = run_json("erase", "--user", "anabella", "--verify", "--yes")
    assert found["files"]["found"] == {}
    assert "merry" in run("recall", "Christmas", "--user", "ben", "--turns").stdout


def test_one_episode(talk: str):
    scope = ("--user", "anabella", "--agent", "default")
    out = run("erase", *scope, "--episode", talk, "--verify", "--yes").stdout
    assert "complete" in out
    assert "byte strings searched in memory.db" in out
    assert "Fidibus was at the vet" in run("replay", "tuesday", "--user", "anabella").stdout
    run("replay", "monday", "--user", "anabella", code=1)
    assert (
        "EpisodeNotFound"
        in run("erase", *scope, "--episode", talk, "--yes", "--json", code=1).stdout
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--user", "anabella"), "--yes"),
        (("--user", "anabella", "--episode", "x", "--yes"), "--agent"),
        (
            ("--user", "anabella", "--agent", "a", "--episode", "x", "--yes"),
            "not the id of an episode",
        ),
        ((), "--user"),
    ],
)
def test_usage(talk: str, args: tuple[str, ...], message: str):
    assert message in run("erase", *args, code=2).output
    assert len(run_json("recent", "--user", "anabella")) == 2


@pytest.mark.parametrize(("answer", "left"), [("n", 2), ("y", 0)])
def test_erase_asks_for_confirmation_on_a_terminal(
    talk: str, answer: str, left: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("octopus_memory.faces.cli.terminal.can_ask", lambda: True)
    done = run("erase", "--user", "anabella", stdin=f"{answer}\n", code=0 if answer == "y" else 1)
    assert "removes 2 episodes of user anabella" in done.output
    assert len(run_json("recent", "--user", "anabella")) == left


def test_a_rewrite_left_for_later(talk: str):
    receipt = run_json("erase", "--user", "anabella", "--no-compact", "--yes")["receipt"]
    assert not receipt["complete"]
    assert "octopus compact" in run("receipts", "show", receipt["id"]).stdout
    assert run_json("compact")["compacted"]
    assert run_json("receipts", "show", receipt["id"])["complete"]


def test_compact_tells_of_no_growth(talk: str):
    run("compact")
    told = run_json("compact")
    assert told["bytes_after"] == told["bytes_before"]


def test_erasing_an_unknown_user_says_so(talk: str):
    done = run("erase", "--user", "anabela", "--yes").stdout
    assert "no data of user anabela in tenant default of sqlite:///memory.db." in done
    assert "Nothing was there" not in run("erase", "--user", "anabella", "--yes").stdout


def test_compact_says_when_it_cannot(talk: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SqliteStore, "_rewrite", lambda _: False)
    assert "again" in run("compact", code=1).stdout
    run("erase", "--user", "anabella", "--yes", code=1)


def test_a_hold_refuses(talk: str):
    run("holds", "place", "--user", "anabella", "--reason", "case 17")
    assert "LegalHold" in run("erase", "--user", "anabella", "--yes", "--json", code=1).stdout
    assert len(run_json("recent", "--user", "anabella")) == 2


def test_receipts(talk: str):
    assert "Nothing was erased" in run("receipts", "list").stdout
    first = run_json("erase", "--user", "anabella", "--yes")["receipt"]
    second = run_json("erase", "--user", "ben", "--yes")["receipt"]
    assert run_json("receipts", "list") == [second, first]
    assert run_json("receipts", "list", "--limit", 1) == [second]
    assert "1 turn, complete" in run("receipts", "list").stdout
    shown = run("receipts", "show", first["id"]).stdout
    assert first["sha256"] in shown
    assert "anabella" not in shown
    assert "receipts list" in run("receipts", "show", second["id"], "--tenant", "x", code=1).output
    assert "not the id of a receipt" in run("receipts", "show", "x", code=1).output


def test_the_audit_log(talk: str):
    assert "The log is empty" in run("audit", "list").stdout
    for user in ("anabella", "ben"):
        run("erase", "--user", user, "--yes")
    listed = run_json("audit", "list")
    assert [entry["action"] for entry in listed] == ["erase", "erase_receipt"] * 2
    assert all(entry["actor"].startswith("cli") for entry in listed)
    assert [entry["seq"] for entry in run_json("audit", "list", "--user", "ben")] == [3, 4]
    assert [entry["seq"] for entry in run_json("audit", "list", "--limit", 1)] == [4]
    assert "erase_receipt  complete" in run("audit", "list").stdout
    exported = [json.loads(line) for line in run("audit", "export").stdout.splitlines()]
    assert exported == listed
    run("compact")
    assert [e["action"] for e in run_json("audit", "list", "--installation")] == ["compact"]


def test_verifying_the_audit_log(talk: str):
    run("erase", "--user", "anabella", "--yes")
    whole = run_json("audit", "verify")
    assert (whole["whole"], whole["entries"], whole["knows_head"]) == (True, 2, None)
    run("erase", "--user", "ben", "--yes")
    assert "Intact: 4 entries" in run("audit", "verify", "--head", whole["head"]).stdout
    assert (
        "The given head is not in this log"
        in run("audit", "verify", "--head", "ab" * 32, code=1).stdout
    )
    conn = sqlite3.connect("memory.db")
    conn.execute("UPDATE octopus_audit SET actor = 'nobody' WHERE seq = 2")
    conn.commit()
    conn.close()
    assert "Broken at entry 2" in run("audit", "verify", code=1).stdout
    assert run_json("audit", "verify", code=1)["broken_at"] == 2
