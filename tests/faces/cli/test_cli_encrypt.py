"""The command line's `encrypt`: what it seals, and what it says that it does not reach."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.engine.encryption import EncryptProgress
from tests.support.command_line import errors_on_terminal, run, run_json, use_folder

pytest.importorskip("cryptography")
WORDS = (b"passport", b"folder", b"ana-of-the-harbour")


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)
    run("add", "monday", "My passport is in the blue folder.", "--user", "ana-of-the-harbour")
    run("add", "monday", "I moved to Lyon.", "--user", "bob")
    run("run-pending")


def told(folder: Path) -> list[bytes]:
    """The words that can be read in the files of the database."""
    whole = b"".join(path.read_bytes() for path in folder.glob("memory.db*"))
    return [word for word in WORDS if word in whole]


def test_without_keys_it_says_how_to_turn_them_on(tmp_path: Path):
    shown = run("encrypt", code=1).stderr
    assert 'write keys = "local" into octopus.toml' in shown
    assert b"ana-of-the-harbour" in told(tmp_path)


def test_everything_is_sealed_and_found_as_before(tmp_path: Path, monkeypatch):
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy("memory.db", copy)
    monkeypatch.setenv("OCTOPUS_KEYS", "local")
    shown = run("encrypt").stdout
    assert shown.startswith("Sealed ")
    assert "Copies made before still hold everybody in the clear" in shown
    assert told(tmp_path) == []
    assert b"ana-of-the-harbour" in told(copy)
    [found] = run_json("recall", "Where is my passport?", "--user", "ana-of-the-harbour")
    assert found["session_id"] == "monday"
    assert run_json("scope-keys", "status")["keys"] == 2
    assert run("encrypt").stdout.startswith("Everything was sealed already.")
    assert run_json("encrypt") == {"rows": 0, "users_left": 0, "done": True}


def test_a_sealed_database_is_not_opened_without_keys(monkeypatch):
    monkeypatch.setenv("OCTOPUS_KEYS", "local")
    run("encrypt")
    monkeypatch.setenv("OCTOPUS_KEYS", "off")
    assert "because this database is sealed with keys" in run("recent", code=1).stderr


@pytest.mark.process
def test_a_terminal_shows_how_far_it_is(monkeypatch):
    monkeypatch.setenv("OCTOPUS_KEYS", "local")
    shown = errors_on_terminal(sys.executable, "-m", "octopus_memory", "encrypt")
    assert b"sealing" in shown


def test_an_interruption_says_that_it_continues(monkeypatch):
    def interrupted(*_: object, **__: object) -> EncryptProgress:
        raise KeyboardInterrupt

    monkeypatch.setenv("OCTOPUS_KEYS", "local")
    monkeypatch.setattr(EpisodicMemory, "encrypt", interrupted)
    assert "Run octopus encrypt again" in run("encrypt", code=130).stderr


def test_files_that_could_not_be_rewritten_are_told(monkeypatch):
    monkeypatch.setenv("OCTOPUS_KEYS", "local")
    monkeypatch.setattr(EpisodicMemory, "encrypt", lambda *_, **__: EncryptProgress(7, 0))
    shown = run("encrypt", code=1).stdout
    assert "Sealed 7 rows." in shown
    assert "still hold what was readable. Run octopus encrypt again later." in shown
    assert "from now on" not in shown
