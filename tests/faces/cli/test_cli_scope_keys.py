"""The command line's `scope-keys`: what it makes, rotates and copies, and what it refuses."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path

import pytest

from octopus_memory.adapters.keys.masters import new_master
from tests.support.command_line import run, run_json, use_folder

pytest.importorskip("cryptography")


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the keys, and turn them on."""
    use_folder(tmp_path, monkeypatch)
    monkeypatch.setenv("OCTOPUS_KEYS", "local")
    return Path(os.environ["OCTOPUS_KEYS_PATH"]).parent


def test_init_makes_two_files_and_says_what_to_do_with_them(keys: Path):
    shown = run("scope-keys", "init").stdout
    made = {keys / "keys.db", keys / "master.key"}
    assert made <= set(keys.iterdir())
    assert all(str(each) in shown for each in made)
    assert "Put a copy of the master key where you keep passwords" in shown
    secret = (keys / "master.key").read_text().strip()
    assert secret not in shown


def test_init_overwrites_nothing(keys: Path):
    run("scope-keys", "init")
    before = {each: each.read_bytes() for each in keys.iterdir()}
    assert "is never overwritten" in run("scope-keys", "init", code=1).stderr
    assert {each: each.read_bytes() for each in keys.iterdir()} == before


def test_init_takes_the_master_key_that_is_there(keys: Path):
    keys.mkdir()
    text = base64.b64encode(new_master()).decode()
    (keys / "master.key").write_text(text)
    (keys / "master.key").chmod(0o600)
    run("scope-keys", "init")
    assert (keys / "master.key").read_text() == text


def test_init_with_a_master_key_of_the_environment_writes_none(keys: Path, monkeypatch):
    monkeypatch.setenv("OCTOPUS_KEYS_MASTER", base64.b64encode(new_master()).decode())
    assert run_json("scope-keys", "init") == {"keys": str(keys / "keys.db"), "master": None}
    assert not (keys / "master.key").exists()


def test_init_with_keys_off_says_how_to_turn_them_on(monkeypatch):
    monkeypatch.setenv("OCTOPUS_KEYS", "off")
    assert 'write keys = "local" into octopus.toml' in run("scope-keys", "init").stdout


@pytest.mark.parametrize("name", ["KEYS_PATH", "KEYS_MASTER_FILE"])
def test_keys_beside_the_database_are_refused(tmp_path: Path, name: str, monkeypatch):
    monkeypatch.setenv(f"OCTOPUS_{name}", str(tmp_path / "inner" / "file"))
    assert f"{name.lower()}: must not be in" in run("scope-keys", "init", code=1).stderr
    assert not list(tmp_path.iterdir())


def test_status_counts_and_fails_while_something_is_wrong(keys: Path):
    wrong = run_json("scope-keys", "status", code=1)
    assert (wrong["keys"], wrong["is_usable"]) == (None, False)
    assert "octopus scope-keys init makes a first one" in wrong["problems"][0]
    assert not keys.exists()
    run("scope-keys", "init")
    assert run_json("scope-keys", "status") == {
        "place": str(keys / "keys.db"),
        "master": str(keys / "master.key"),
        "keys": 0,
        "destroyed": 0,
        "problems": [],
        "is_usable": True,
    }
    (keys / "keys.db").chmod(0o644)
    shown = run("scope-keys", "status", code=1).stdout
    assert f"every user can read {keys / 'keys.db'}: chmod 600" in shown
    assert "in use    0 scopes" in shown


def test_status_without_keys_says_what_that_means(monkeypatch):
    monkeypatch.setenv("OCTOPUS_KEYS", "off")
    assert "Scope keys are off" in run("scope-keys", "status").stdout
    assert run_json("scope-keys", "status") == {"keys": "off"}


def test_rotation_of_the_master_key_asks_for_a_new_backup(keys: Path):
    run("scope-keys", "init")
    old = (keys / "master.key").read_text()
    assert "make a new backup now" in run("scope-keys", "rotate-master").stdout
    assert (keys / "master.key").read_text() != old
    assert run_json("scope-keys", "rotate-master") == {"keys": 0, "old_removed": True}


def test_a_master_key_of_the_environment_is_rotated_by_the_operator(monkeypatch):
    old, new = (base64.b64encode(new_master()).decode() for _ in range(2))
    monkeypatch.setenv("OCTOPUS_KEYS_MASTER", old)
    run("scope-keys", "init")
    refused = run("scope-keys", "rotate-master", code=1).stderr
    assert "put a new key before the old one there, and rotate again" in refused
    monkeypatch.setenv("OCTOPUS_KEYS_MASTER", f"{new},{old}")
    assert (
        "Take the old one out of OCTOPUS_KEYS_MASTER" in run("scope-keys", "rotate-master").stdout
    )


def test_a_backup_goes_to_the_folder_of_the_settings_or_to_a_given_one(tmp_path, keys, monkeypatch):
    run("scope-keys", "init")
    assert "keys_backup_folder" in run("scope-keys", "backup", code=1).stderr
    given = keys.with_name(f"{keys.name}-given")
    assert Path(run_json("scope-keys", "backup", given)["backup"]).parent == given
    usual = keys.with_name(f"{keys.name}-usual")
    monkeypatch.setenv("OCTOPUS_KEYS_BACKUP_FOLDER", str(usual))
    assert "there is no backup of the keys" in run("scope-keys", "status", code=1).stdout
    old = usual / "octopus-keys-20200101T000000Z.db"
    usual.mkdir()
    old.touch()
    assert "Removed 1 backup older than 30 days." in run("scope-keys", "backup").stdout
    assert not old.exists()
    run("scope-keys", "status")
    assert "must not be in" in run("scope-keys", "backup", tmp_path / "copies", code=1).stderr


@pytest.mark.parametrize("command", ["init", "rotate-master", "backup x"])
def test_vault_keeps_its_own_keys(command: str, monkeypatch):
    monkeypatch.setenv("OCTOPUS_KEYS", "vault")
    shown = run("scope-keys", *command.split(), code=1).stderr
    assert "vault keeps its own keys" in shown


def gaps() -> list[str]:
    """What doctor warns of about the keys."""
    found = run_json("doctor")["checks"]
    about = [each for each in found if each["name"] == "scope keys"]
    return [f"{each['detail']} → {each['remedy']}" for each in about if each["status"] == "warning"]


def test_a_restored_key_store_is_compared_with_the_database(keys: Path, tmp_path: Path):
    """It brings back keys of users who were erased since, and lacks those of users who came."""
    run("add", "monday", "My passport is in the blue folder.", "--user", "ana")
    copy = tmp_path / "copy.db"
    shutil.copy("memory.db", copy)
    old = (keys / "keys.db").read_bytes()
    run("erase", "--user", "ana", "--yes")
    run("add", "monday", "I moved to Lyon.", "--user", "bob")
    today = (keys / "keys.db").read_bytes()
    assert gaps() == []
    shown = run("recent", "--user", "ana", "--db", copy, code=1).stderr
    assert "was destroyed by an erasure" in shown

    (keys / "keys.db").write_bytes(old)
    returned, lost = sorted(gaps())
    assert returned.startswith("1 key of erased users came back with a backup of the key store")
    assert returned.endswith("→ octopus scope-keys destroy-erased")
    assert lost.startswith("the keys of 1 user are missing in the key store")
    assert "blue folder" in run("recent", "--user", "ana", "--db", copy).stdout
    assert run_json("scope-keys", "destroy-erased") == {"destroyed": 1}
    assert "Destroyed 0 keys" in run("scope-keys", "destroy-erased").stdout
    assert "was destroyed" in run("recent", "--user", "ana", "--db", copy, code=1).stderr
    assert "is missing: restore the key store" in run("recent", "--user", "bob", code=1).stderr

    (keys / "keys.db").write_bytes(today)
    assert gaps() == []
    assert "Lyon" in run("recent", "--user", "bob").stdout


def test_doctor_counts_who_is_not_sealed(monkeypatch):
    monkeypatch.setenv("OCTOPUS_KEYS", "off")
    run("add", "monday", "I moved to Lyon.", "--user", "bob")
    monkeypatch.setenv("OCTOPUS_KEYS", "local")
    assert gaps() == ["what is stored of 1 user is not sealed yet → octopus encrypt"]
    run("encrypt")
    assert gaps() == []


def test_a_receipt_says_what_became_of_copies():
    run("add", "monday", "My passport is in the blue folder.", "--user", "ana")
    [episode] = run_json("recent", "--user", "ana")
    run("add", "tuesday", "I moved to Lyon.", "--user", "ana")
    of = ("erase", "--user", "ana", "--agent", "default")
    part = run(*of, "--episode", episode["episode_id"], "--yes").stdout
    assert "copies   made before still hold it, and can be read until the whole user is" in part
    whole = run("erase", "--user", "ana", "--yes").stdout
    assert "copies   made before cannot be read since" in whole
    assert "a backup of the key store may open them until" in whole
