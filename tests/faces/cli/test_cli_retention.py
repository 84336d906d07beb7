"""The commands about keeping: retention, restore, holds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer.main

from octopus_memory import (
    ArchiveMode,
    EpisodicMemory,
    EpisodicRetentionPolicy,
    MemoryConfig,
)
from octopus_memory.__main__ import program
from octopus_memory.adapters.stores.sqlite.store import SqliteStore
from octopus_memory.domain.errors import StoreError
from octopus_memory.ports.store import EpisodeStore
from tests.support.command_line import run, run_json, use_folder
from tests.support.paths import DOCS

PAGE = DOCS / "reference" / "cli.md"
COMMANDS = typer.main.get_command(program()).commands
GROUPED = [(group, name) for group in ("retention", "holds") for name in COMMANDS[group].commands]
TEA = [("user", "My favourite tea is Darjeeling."), ("assistant", "Noted.")]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


@pytest.fixture
def told():
    """An episode that ended 100 days ago, kept cold by its agent, and one of today."""
    with EpisodicMemory.open(background=False) as memory:
        cold = EpisodicRetentionPolicy(archive_mode=ArchiveMode.COLD)
        memory.configure("default", MemoryConfig(retention=cold))
        scope = memory.scope(user="me")
        ended = datetime.now(UTC) - timedelta(days=100)
        old = scope.store(TEA, session_id="old", at=ended, ended_at=ended)
        new = scope.store(TEA, session_id="new")
    return old.id, new.id


def test_a_run_says_what_it_did(told):
    dry = run("retention", "run", "--dry-run").stdout
    assert dry.startswith("A run would do this now:\n")
    row = re.compile(r"^default +default +0 +1 +0 +0 +0 +0 +0$", re.MULTILINE)
    assert row.search(dry)
    assert run("retention", "run", "--dry-run").stdout == dry
    done = run("retention", "run").stdout
    assert done.startswith("Done:\n")
    assert row.search(done)
    assert run("retention", "run").stdout == "Nothing is due.\n"
    assert "archived: octopus restore brings the messages back" in run("replay", "old").stdout


def test_a_run_as_json(told):
    dry = run_json("retention", "run", "--dry-run")
    assert (dry["dry_run"], dry["counts"]["archived"], dry["compacted"]) == (True, 1, None)
    done = run_json("retention", "run", "--no-compact")
    assert (done["dry_run"], done["counts"]["archived"], done["compacted"]) == (False, 1, None)
    assert done["agents"] == [{"tenant": "default", "agent": "default", "counts": done["counts"]}]
    assert run_json("retention", "run")["compacted"] is True


def test_several_agents_have_a_row_each_and_one_for_all(told):
    with EpisodicMemory.open(background=False) as memory:
        ended = datetime.now(UTC) - timedelta(days=400)
        memory.scope(tenant="acme", agent="h\x1b[31mr", user="u").store(TEA, ended_at=ended)
    shown = run("retention", "run", "--dry-run").stdout
    assert re.search(r"^acme +h\ufffd\[31mr +0 +0 +1 ", shown, re.MULTILINE)
    assert re.search(r"^all +0 +1 +1 +0 +0 +0 +1$", shown, re.MULTILINE)


def test_settings_that_cannot_be_used_are_said_to_be(told):
    with EpisodicMemory.open(background=False) as memory:
        memory.runtime.store.put_config(None, "damaged", {"retention": {"nope": 1}})
    assert "agent damaged: its settings are invalid" in run("retention", "status").stdout
    assert run_json("retention", "status")["policies"][1]["policy"] is None


def test_failures_are_printed_and_set_the_exit_code(told, monkeypatch):
    from octopus_memory import StoreBusy
    from octopus_memory.adapters.stores.sqlite.store import SqliteStore

    def busy(*_: object, **__: object) -> None:
        raise StoreBusy("another process is writing")

    monkeypatch.setattr(SqliteStore, "archive", busy)
    assert "1 episode failed: see the log" in run("retention", "run", code=1).stdout
    assert run_json("retention", "run", code=1)["counts"]["failed"] == 1


def test_a_run_beside_another(told):
    with EpisodicMemory.open(background=False) as memory:
        store: EpisodeStore = memory.runtime.store
        with store.lead("retention", worker_id="another-machine/1/x"):
            assert "Another process is running retention" in run("retention", "run").stdout
            assert run_json("retention", "run")["elsewhere"] is True


def test_status_shows_policies_what_is_due_and_when(told, monkeypatch):
    shown = run("retention", "status").stdout
    tomorrow = r"next run  \d{4}-\d\d-\d\d 02:00 UTC\n"
    assert re.match(tomorrow, shown)
    assert "policy    every other agent: archived (cold) after 90 days, deleted after" in shown
    assert "policy    agent default: archived (cold) after 90 days" in shown
    assert re.search(r"^default +default +0 +1 ", shown, re.MULTILINE)
    told_json = run_json("retention", "status")
    assert [row["agent"] for row in told_json["policies"]] == [None, "default"]
    assert told_json["policies"][1]["policy"]["archive_mode"] == "cold"
    assert told_json["due"]["counts"]["archived"] == 1
    monkeypatch.setenv("OCTOPUS_RETENTION_SCHEDULE", "")
    assert run("retention", "status").stdout.startswith("next run  none scheduled\n")
    assert run_json("retention", "status")["next_run"] is None


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"archive_on_expiry": False}, "deleted after 90 days, removed 7 days after that"),
        (
            {"delete_after_archival_period": False},
            "archived (cold) after 90 days, kept for good",
        ),
        (
            {"active_retention_days": 0.5, "purge_grace_days": 0},
            "after 0.5 days, deleted after 365",
        ),
    ],
)
def test_policies_in_words(policy, words):
    with EpisodicMemory.open(background=False) as memory:
        config = MemoryConfig(retention=EpisodicRetentionPolicy(**policy))
        memory.configure("hr", config, tenant="acme")
    assert "agent hr of tenant acme: " in run("retention", "status").stdout
    assert words in run("retention", "status").stdout


def test_a_wrong_schedule_is_named(told, monkeypatch):
    monkeypatch.setenv("OCTOPUS_RETENTION_SCHEDULE", "nightly")
    assert run("recent", code=1).stderr.startswith(
        "error: retention_schedule: 'nightly' is not a cron"
    )


def test_restore_lists_and_restores(told):
    old, new = told
    assert run("restore").stdout == (
        "Nothing to restore for tenant default, agent default, user me.\n"
    )
    run("retention", "run")
    with EpisodicMemory.open(background=False) as memory:
        memory.scope(user="me").delete(new)
    shown = run("restore").stdout
    assert re.search(rf"^{new}  .* session new  deleted$", shown, re.MULTILINE)
    assert re.search(rf"^{old}  .* session old  archived$", shown, re.MULTILINE)
    assert [episode["id"] for episode in run_json("restore")] == [str(new), str(old)]
    done = run("restore", old).stdout
    assert done == f"Restored episode {old} of session old: 2 messages.\n"
    assert "Darjeeling" in run("replay", "old").stdout
    assert run_json("restore", new)["id"] == str(new)
    assert run_json("restore") == []
    with EpisodicMemory.open(background=False) as memory:
        actors = {e.actor for e in memory.runtime.store.audit("default") if e.action == "restore"}
    assert len(actors) == 1
    assert actors.pop().startswith("cli")


def test_holds_are_placed_listed_and_lifted(told):
    old, _ = told
    assert run("holds", "list").stdout == "No holds in tenant default.\n"
    placed = run_json("holds", "place", "--user", "me", "--reason", "case 17")
    run("holds", "place", "--episode", old, "--reason", "case 18")
    shown = run("holds", "list").stdout
    assert re.search(rf"^{placed['id']}  .*  user me  case 17 \(cli", shown, re.MULTILINE)
    assert f"episode {old}  case 18" in shown
    assert [hold["reason"] for hold in run_json("holds", "list")] == ["case 17", "case 18"]
    assert run_json("holds", "list", "--tenant", "acme") == []
    assert run_json("retention", "run")["counts"]["held"] == 1
    assert run("holds", "lift", placed["id"]).stdout == f"Lifted hold {placed['id']}.\n"
    assert run_json("retention", "run")["counts"]["held"] == 1
    run("holds", "lift", run_json("holds", "list")[0]["id"])
    assert run_json("retention", "run")["counts"]["archived"] == 1


@pytest.mark.parametrize(
    ("args", "kind", "message"),
    [
        (["restore", "nonsense"], "EpisodeNotFound", "no episode 'nonsense'"),
        (["holds", "lift", "nonsense"], "NotFound", "no hold 'nonsense'"),
        (["holds", "place", "--reason", "x"], "InvalidInput", "must be given, and not both"),
        (["retention", "run", "--db", "missing.db"], "StoreUnavailable", "no database"),
        (["retention", "run", "--db", "sqlite:///memory.db?mode=ro"], "StoreReadOnly", "mode=ro"),
    ],
)
def test_errors_are_one_line(told, args, kind, message):
    done = run(*args, code=1)
    assert re.fullmatch(r"error: .+\n", done.stderr)
    assert message in done.stderr
    assert run_json(*args, code=1)["error"]["type"] == kind


def test_a_database_that_can_only_be_read_can_be_looked_at(told):
    url = "sqlite:///memory.db?mode=ro"
    for args in (["retention", "run", "--dry-run"], ["retention", "status"], ["holds", "list"]):
        assert run(*args, "--db", url).stdout


@pytest.mark.parametrize(("group", "name"), GROUPED)
def test_every_command_is_documented(group, name):
    section = re.search(
        rf"^### octopus {group}$(.*?)(?=^###|^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert section is not None
    assert f"`octopus {group} {name}" in section[1]
    for param in COMMANDS[group].commands[name].params:
        for word in param.opts if param.opts[0].startswith("-") else [param.name.upper()]:
            assert re.search(rf"`{word}[`\s]", section[1]), word


def test_files_that_could_not_be_rewritten_are_left_to_compact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the reason was: octopus compact names it."""
    run("add", "s", "hello there")

    def fail(*_: object) -> bool:
        raise StoreError("the login may not do this")

    monkeypatch.setattr(SqliteStore, "size_bytes", lambda _: None)
    assert "size unknown" in run("stats").stdout
    monkeypatch.setattr(SqliteStore, "_rewrite", fail)
    assert "the login may not do this" in run("compact", code=1).output
