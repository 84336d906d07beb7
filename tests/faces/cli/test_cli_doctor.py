"""The command line's `doctor`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.embedders.hashing import HashingEmbedder
from octopus_memory.faces.cli import doctor_database
from octopus_memory.settings import Settings
from octopus_memory.testing.openai_server import FakeOpenAIServer
from tests.support.command_line import run, run_json, use_folder


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


@pytest.fixture
def server(monkeypatch):
    with FakeOpenAIServer(dimension=64) as server:
        monkeypatch.setenv("OCTOPUS_OPENAI_BASE_URL", server.base_url)
        yield server


def checks(*args, code=0):
    told = run_json("doctor", *args, code=code)
    assert told["healthy"] is (code == 0)
    return {check["name"]: check for check in told["checks"]}


def test_doctor_is_content():
    run("add", "s", "hello there")
    found = checks()
    assert {name: check["status"] for name, check in found.items()} == {
        "versions": "ok",
        "settings": "ok",
        "database": "ok",
        "scope keys": "ok",
        "embedder": "ok",
        "summarizer": "ok",
        "tokenizer": "ok",
        "chat model": "note",
        "retention": "ok",
        "pending work": "ok",
        "lost messages": "ok",
        "extras": "ok",
    }
    assert "schema" in found["database"]["detail"]
    assert "writable" in found["database"]["detail"]
    shown = run("doctor").stdout
    assert "ok    database" in shown
    assert "Everything that Octopus needs works." in shown


def test_doctor_says_how_many_messages_integrations_lost():
    run("add", "s", "hello there")
    with EpisodicMemory.open(background=False) as memory:
        memory.count_lost(2)
        memory.count_lost(1)
    found = checks()["lost messages"]
    assert found["status"] == "warning"
    assert "3 messages" in found["detail"]


def test_doctor_names_one_missing_extra_because_frameworks_exclude_each_other():
    remedy = checks()["extras"]["remedy"]
    assert remedy is None or "," not in remedy


def test_doctor_says_what_the_default_policy_does(monkeypatch):
    assert checks()["retention"]["detail"] == (
        "episodes are archived after 90 days (turns kept, restorable), deleted after 365 days, "
        "and removed for good 7 days after that"
    )
    Path("octopus.toml").write_text(
        "[memory.retention]\narchive_mode = 'summary'\ndelete_after_archival_period = false\n"
    )
    monkeypatch.setenv("OCTOPUS_RETENTION_SCHEDULE", "")
    assert checks()["retention"]["detail"] == (
        "episodes are archived after 90 days (turns removed, summary and key facts kept), "
        "and then kept for good; only when octopus retention run is called, because no schedule "
        "is set"
    )
    Path("octopus.toml").write_text("[memory.retention]\narchive_on_expiry = false\n")
    assert checks()["retention"]["detail"].startswith("episodes are deleted after 90 days, and")


def test_doctor_sees_a_disk_that_is_nearly_full(monkeypatch):
    assert "disk" not in checks()
    little = SimpleNamespace(free=5 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: little)
    found = checks()["disk"]
    assert (found["status"], found["detail"][:16]) == ("warning", "only 5 MiB are f")


def test_doctor_makes_no_database():
    assert "will be created by the first write" in checks()["database"]["detail"]
    assert not list(Path.cwd().iterdir())


def test_doctor_names_what_waits():
    with EpisodicMemory.open(background=False) as memory:
        memory.scope(user="me").add("s", ("user", "My favourite tea is Darjeeling."))
    found = checks()["pending work"]
    assert (found["status"], found["detail"]) == ("note", "1 to embed")
    assert "octopus run-pending" in found["remedy"]


def test_doctor_says_that_another_model_will_embed_again():
    with EpisodicMemory.open(embedder=HashingEmbedder(64), background=False) as memory:
        memory.scope(user="me").add("s", ("user", "My favourite tea is Darjeeling."))
        memory.flush()
    found = checks()["pending work"]
    assert found["status"] == "note"
    assert found["detail"] == "1 to embed again with hashing-256 instead of hashing-64"
    run("run-pending")
    assert checks()["pending work"]["detail"] == "none"


def test_doctor_says_what_fails_and_what_to_do(monkeypatch):
    Path("memory.db").write_text("This is no database at all. " * 10)
    monkeypatch.setenv("OCTOPUS_EMBEDDER", "nosuch")
    monkeypatch.setenv("OCTOPUS_TOKENIZER", "nosuch.json")
    found = checks(code=1)
    failed = {name for name, check in found.items() if check["status"] == "failed"}
    assert failed == {"database", "embedder", "tokenizer"}
    assert all(found[name]["remedy"] for name in failed)
    shown = run("doctor", code=1).stdout
    assert "FAIL  database" in shown
    assert "Failed: database, embedder, tokenizer." in shown


def test_doctor_reads_wrong_settings():
    Path("octopus.toml").write_text("nonsense = 1")
    found = checks(code=1)
    assert found["settings"]["status"] == "failed"
    assert "nonsense" in found["settings"]["detail"]


def test_doctor_asks_the_summarizer(server, monkeypatch):
    monkeypatch.setenv("OCTOPUS_SUMMARIZER", "openai")
    monkeypatch.setenv("OCTOPUS_OPENAI_API_KEY", "sk-very-secret")
    good = {"summary": "The user prefers to be addressed formally.", "key_facts": []}
    server.answer(good)
    detail = "openai/gpt-4o-mini answers in the form json_schema"
    assert checks()["summarizer"]["detail"] == detail
    server.fail(status=500, message="response_format: only json_object is known")
    server.answer(good)
    assert checks()["summarizer"]["detail"].endswith("in the form json_object")
    server.fail(status=503, message="the model is loading")
    found = checks()
    assert found["summarizer"]["status"] == "warning"
    assert "It answered: the model is loading" in found["summarizer"]["detail"]
    assert "extractive" in found["summarizer"]["remedy"]
    assert found["chat model"]["status"] == "ok"
    assert "secret" not in run("doctor").output


def test_doctor_misses_an_extra(server, monkeypatch):
    monkeypatch.setenv("OCTOPUS_SUMMARIZER", "openai")
    monkeypatch.setitem(sys.modules, "openai", None)
    found = checks(code=1)
    assert found["summarizer"]["remedy"] == "pip install 'octopus-memory[openai]'"


def test_doctor_hides_passwords():
    found = checks("--db", "nosuch://me:hidden@host/db", code=1)
    assert found["database"]["status"] == "failed"
    assert "hidden" not in json.dumps(found)


def test_doctor_looks_at_a_read_only_database():
    run("add", "s", "hello there")
    found = checks("--db", "sqlite:///memory.db?mode=ro")
    assert found["database"]["status"] == "note"
    assert "read-only" in found["database"]["detail"]


@pytest.mark.parametrize(
    ("mode", "words"), [("auto", "one at a time"), ("never", "can end this process")]
)
def test_the_driver_of_sql_server_is_warned_of(mode, words, monkeypatch):
    pytest.importorskip("mssql_python", reason="needs the extra sqlserver")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    url = "sqlserver://sa:secret@127.0.0.1:1433/memory"
    made = Settings(database_url=url, sqlserver_serialize=mode)
    [warning] = doctor_database._sqlserver_driver(made)
    assert words in warning.detail
    plain = Settings(database_url=f"{url}?Encrypt=no", sqlserver_serialize=mode)
    assert list(doctor_database._sqlserver_driver(plain)) == []
    assert list(doctor_database._sqlserver_driver(Settings())) == []


@pytest.fixture
def keys(monkeypatch) -> Path:
    pytest.importorskip("cryptography")
    monkeypatch.setenv("OCTOPUS_KEYS", "local")
    return Path(os.environ["OCTOPUS_KEYS_PATH"])


def scope_keys(code=0):
    found = run_json("doctor", code=code)["checks"]
    return [(each["status"], each["detail"]) for each in found if each["name"] == "scope keys"]


def test_doctor_says_that_the_key_store_will_be_made(keys: Path):
    assert scope_keys() == [("ok", f"{keys} will be made by the first write")]
    assert not keys.exists()


def test_doctor_tries_the_key_store(keys: Path):
    run("scope-keys", "init")
    master = keys.with_name("master.key")
    assert scope_keys() == [("ok", f"{keys}: 0 keys, under {master}")]
    keys.chmod(0o644)
    assert scope_keys()[1:] == [("warning", f"every user can read {keys}: chmod 600 {keys}")]
    keys.chmod(0o600)
    master.chmod(0o644)
    [(status, detail)] = scope_keys(code=1)
    assert status == "failed"
    assert "open to every user of this machine" in detail


def test_doctor_says_where_keys_may_not_be(keys: Path, monkeypatch):
    monkeypatch.setenv("OCTOPUS_KEYS_PATH", str(Path.cwd() / "keys.db"))
    [(status, detail)] = scope_keys(code=1)
    assert status == "failed"
    assert "every backup of the data would hold the keys" in detail


def test_doctor_looks_at_the_age_of_the_keys_backups(keys: Path, monkeypatch):
    copies = keys.with_name("copies")
    monkeypatch.setenv("OCTOPUS_KEYS_BACKUP_FOLDER", str(copies))
    run("scope-keys", "init")
    assert scope_keys()[1][0] == "warning"
    run("scope-keys", "backup")
    assert len(scope_keys()) == 1
    (copies / "octopus-keys-20200101T000000Z.db").touch()
    assert "may hold keys that receipts call gone" in scope_keys()[1][1]
