"""The commands that carry memories out, in and over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.command_line import run, use_folder
from tests.support.paths import DOCS

FORMAT = DOCS / "reference" / "export-format.md"


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


@pytest.fixture
def talked() -> None:
    run("add", "monday", "My favourite tea is 草.", "--end", "--user", "ana", "--tenant", "acme")


def test_out_and_in(talked: None):
    said = run("export", "--user", "ana", "--tenant", "acme", "--out", "ana.jsonl")
    assert said.stdout == "Exported 1 episode with 1 message of user ana to ana.jsonl.\n"
    assert Path("ana.jsonl").stat().st_mode & 0o777 == 0o600
    assert not Path("ana.jsonl.part").exists()
    report = json.loads(run("import", "ana.jsonl", "--db", "other.db", "--json").stdout)
    assert (report["source"], report["episodes"], report["turns"]) == ("octopus", 1, 1)
    found = run("recall", "tea", "--db", "other.db", "--user", "ana", "--tenant", "acme")
    assert "草" in found.stdout
    assert "Skipped 1 episode" in run("import", "ana.jsonl", "--db", "other.db").stdout


@pytest.mark.process
def test_standard_output_is_the_export_and_nothing_else(talked: None):

    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "octopus_memory",
            "export",
            "--user",
            "ana",
            "--tenant",
            "acme",
        ],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    *lines, trailer = done.stdout.decode("utf-8").splitlines()
    assert "草" in done.stdout.decode("utf-8")
    text = "".join(f"{line}\n" for line in lines)
    assert json.loads(trailer)["sha256"] == sha256(text.encode()).hexdigest()
    assert done.stderr == b""
    report = run("import", "-", "--db", "other.db", "--json", stdin=done.stdout)
    assert json.loads(report.stdout)["episodes"] == 1


def test_the_report_of_an_export(talked: None):
    out = run("export", "--user", "ana", "--tenant", "acme", "--out", "a.jsonl", "--json")
    report = json.loads(out.stdout)
    assert report["episodes"] == report["turns"] == 1
    assert report["sha256"] in Path("a.jsonl").read_text(encoding="utf-8")


def test_a_failed_export_leaves_the_existing_file(talked: None):
    Path("folder").mkdir()
    assert "cannot write none/a.jsonl" in run("export", "--out", "none/a.jsonl", code=1).stderr
    assert "is a folder" in run("export", "--out", "folder", code=1).stderr
    assert list(Path().glob("*.part")) == []
    assert "there is no database" in run("export", "--db", "none.db", code=1).stderr


def test_an_import_can_rename_the_user_and_agent(talked: None):
    run("export", "--user", "ana", "--tenant", "acme", "--out", "a.jsonl")
    run("import", "a.jsonl", "--user", "ben", "--tenant", "t", "--agent", "x", "--db", "b.db")
    shown = run("recent", "--user", "ben", "--tenant", "t", "--agent", "x", "--db", "b.db")
    assert "session monday" in shown.stdout
    again = run("import", "a.jsonl", "--user", "ben")
    assert "Gave new ids to 1 episode" in again.stdout


def test_old_episodes_are_warned_of():
    run("add", "s", "long ago", "--at", "2020-01-01", "--end")
    run("export", "--out", "a.jsonl")
    done = run("import", "a.jsonl", "--db", "b.db")
    assert "warning: 1 of the imported episodes are older" in done.stderr


def test_other_formats():
    Path("t.jsonl").write_text('{"messages": [{"role": "user", "content": "Tea, please"}]}\n')
    assert "Imported 1 episode with 1 message." in run("import", "t.jsonl", "--user", "ana").stdout
    assert "user: must be given" in run("import", "t.jsonl", code=1).stderr
    wrong = run("import", "t.jsonl", "--format", "octopus", "--user", "ana", code=1)
    assert "line 1, format: is not octopus-export" in wrong.stderr
    Path("latin.json").write_bytes('["é"]'.encode("latin-1"))
    assert "must be UTF-8" in run("import", "latin.json", "--user", "ana", code=1).stderr
    assert "cannot read none.json" in run("import", "none.json", "--user", "ana", code=1).stderr


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda text: text[: text.rindex(b'{"kind":"trailer"')], "the export is cut off"),
        (lambda text: text.replace(b"favourite", b"favorites"), "sha256: "),
        (lambda text: text.replace("草".encode(), b"\x8d\xff"), "must be UTF-8"),
    ],
    ids=["cut short", "changed", "no text"],
)
def test_nothing_of_a_damaged_file_is_stored(
    talked: None, damage: Callable[[bytes], bytes], problem: str
):
    run("export", "--user", "ana", "--tenant", "acme", "--out", "a.jsonl")
    Path("a.jsonl").write_bytes(damage(Path("a.jsonl").read_bytes()))
    said = run("import", "a.jsonl", "--db", "b.db", code=1).stderr
    assert problem in said
    assert "(nothing was imported)" in said
    assert not Path("b.db").exists()


def test_an_import_of_a_damaged_transcript_says_what_was_stored():
    said = b'{"messages": [{"role": "user", "content": "%b"}]}\n'
    long = said % (b"Tea " * 20_000)
    Path("t.jsonl").write_bytes(long + long + said % b"\xff")
    wrong = run("import", "t.jsonl", "--user", "ana", code=1)
    assert "must be UTF-8" in wrong.stderr
    assert "the 1 before it are in" in wrong.stderr


def test_the_example_in_the_reference_is_a_whole_export():
    example = FORMAT.read_text(encoding="utf-8").partition("```json\n")[2].partition("```")[0]
    report = json.loads(run("import", "-", "--json", stdin=example).stdout)
    assert (report["episodes"], report["turns"]) == (1, 1)
    exported = run("export", "--user", "ana", "--tenant", "acme", "--out", "again.jsonl")
    assert exported.exit_code == 0
    lines = Path("again.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines[1:-1] == example.splitlines()[1:-1]


def test_a_database_is_moved(talked: None):
    done = run("migrate", "--from", "memory.db", "--to", "moved.db")
    assert "compared every row" in done.stdout
    assert "octopus_turns" in done.stdout
    args = ("--user", "ana", "--tenant", "acme", "--json")
    assert run("recent", *args, "--db", "moved.db").stdout == run("recent", *args).stdout
    report = json.loads(run("migrate", "--from", "memory.db", "--to", "b.db", "--json").stdout)
    assert report["rows"] == report["copied"] == sum(t["rows"] for t in report["tables"])
    assert (
        "to: is not empty" in run("migrate", "--from", "memory.db", "--to", "b.db", code=1).stderr
    )
    assert "no such file" in run("migrate", "--from", "none.db", "--to", "c.db", code=1).stderr


def test_the_audit_log_names_the_operator(talked: None):
    from octopus_memory import EpisodicMemory

    run("export", "--user", "ana", "--tenant", "acme", "--out", "a.jsonl")
    with EpisodicMemory.open("sqlite:///memory.db", background=False) as memory:
        actors = {e.actor for e in memory.tenant("acme").audit() if e.action == "export"}
    [actor] = actors
    assert actor.startswith("cli")
