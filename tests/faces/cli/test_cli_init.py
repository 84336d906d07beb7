"""The command line's `init`: the files it writes are valid; `test_pages` runs its programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from octopus_memory.faces.cli.init import STARTERS
from octopus_memory.settings import load
from tests.support.command_line import run, run_json, use_folder


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


@pytest.mark.parametrize("kind", [starter.name for starter in STARTERS])
def test_each_kind_writes_settings_that_load_and_says_what_to_run(kind: str) -> None:
    made = run_json("init", kind)
    settings, program = map(Path, made["files"])
    load().defaults(None)
    run("add", "monday", "Hello.")
    assert Path("memory.db").exists()
    assert settings.name == "octopus.toml"
    if program.suffix == ".json":
        assert json.loads(program.read_text(encoding="utf-8"))["mcpServers"]
    else:
        compile(program.read_text(encoding="utf-8"), program.name, "exec")
    assert made["next"][0].startswith("pip install 'octopus-memory")
    assert "Next:" in run("init", kind, "--folder", "other").stdout


@pytest.mark.parametrize("kind", [starter.name for starter in STARTERS])
def test_the_service_has_scope_keys_on_and_no_other(kind: str) -> None:
    shown = run("init", kind).stdout
    sealed = kind == "service"
    assert load().keys == ("local" if sealed else "off")
    assert ("a lost key is a lost memory" in shown) is sealed


def command_of_mcp() -> str:
    run("init", "mcp")
    written = json.loads(Path(".mcp.json").read_text(encoding="utf-8"))
    return str(written["mcpServers"]["memory"]["command"])


def test_an_mcp_client_is_given_the_program_of_a_virtual_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "environment" / "bin" / "octopus"
    program.parent.mkdir(parents=True)
    program.touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    monkeypatch.setattr(sys, "executable", str(program.with_name("python")))
    assert command_of_mcp() == str(program)


def test_an_mcp_client_is_given_the_name_of_an_installed_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    assert command_of_mcp() == "octopus"


def test_an_mcp_client_is_given_the_whole_path_of_the_database(tmp_path: Path) -> None:
    run("init", "mcp", "--folder", "desktop")
    written = json.loads(Path("desktop", ".mcp.json").read_text(encoding="utf-8"))
    arguments = written["mcpServers"]["memory"]["args"]
    assert arguments[arguments.index("--db") + 1] == str(tmp_path / "desktop" / "memory.db")


@pytest.mark.parametrize("there", ["octopus.toml", "agent.py"])
def test_no_file_is_overwritten(there: str) -> None:
    Path(there).write_text("mine", encoding="utf-8")
    assert there in run("init", "library", code=1).stderr
    assert Path(there).read_text(encoding="utf-8") == "mine"
    assert [path.name for path in Path.cwd().iterdir()] == [there]


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    assert "KIND: must be one of library, openai" in run("init", "dog", code=1).stderr
    assert "KIND: must be given" in run("init", code=1).stderr


@pytest.mark.parametrize("name", ["octopus.toml", "agent.py"])
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    link = Path("new") / name
    link.parent.mkdir()
    link.symlink_to(outside)
    refused = run("init", "library", "--folder", "new", code=1)
    assert name in refused.output
    assert not outside.exists()
    assert [each.name for each in link.parent.iterdir()] == [name]
