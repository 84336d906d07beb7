"""The command line's help and its page: every command, every option, every example."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from octopus_memory import __version__
from octopus_memory.__main__ import program
from tests.support.command_line import run, use_folder
from tests.support.paths import DOCS

PAGE = DOCS / "reference" / "cli.md"
COMMANDS = typer.main.get_command(program()).commands
BENCH = COMMANDS["bench"].commands
MEASURE = DOCS / "howto" / "measure-recall.md"
ANSWERS = DOCS / "howto" / "measure-answers.md"


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_folder(tmp_path, monkeypatch)


def test_the_version():
    assert run("--version").stdout == f"octopus {__version__}\n"


def test_help_lists_every_command():
    shown = run("--help").stdout
    assert all(name in shown for name in COMMANDS)
    assert "Usage" in CliRunner().invoke(program(), []).output


@pytest.mark.process
def test_help_loads_no_model_library():
    heavy = ["onnxruntime", "tokenizers", "openai", "tiktoken", "alembic"]
    script = (
        "import sys; from octopus_memory.__main__ import program; "
        "program()(['--help'], standalone_mode=False); "
        f"sys.exit(' '.join(m for m in {heavy} if m in sys.modules) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name):
    section = re.search(
        rf"^### octopus {name}$(.*?)(?=^##|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert section is not None
    for param in COMMANDS[name].params if name != "bench" else ():
        for word in param.opts if param.opts[0].startswith("-") else [param.name.upper()]:
            assert re.search(rf"`{word}[`\s]", section[1]), word


@pytest.mark.parametrize("name", BENCH)
def test_every_measurement_is_documented(name):
    page = (ANSWERS if name in {"answers", "lookup"} else MEASURE).read_text()
    assert f"`octopus bench {name}" in page
    for param in BENCH[name].params:
        if param.param_type_name == "argument":
            continue
        assert all(f"`{word}`" in page for word in param.opts), param.opts


def test_options_of_all_commands_are_documented():
    assert "`octopus --version`" in PAGE.read_text()
    assert "`--help`" in PAGE.read_text()


@pytest.mark.slow
def test_the_examples_of_the_page_run():
    page = PAGE.read_text()
    talk = re.search(r"`talk.jsonl` such as\n\n```json\n(.*?)```", page, re.DOTALL)
    Path("talk.jsonl").write_text(talk[1])
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines()]
    stays = {"serve", "worker", "mcp", "inspect"}
    # They need keys and Citus, which the others of the page do without.
    stays |= {"database", "encrypt"}
    assert {shlex.split(line.rpartition("| ")[2])[1] for line in commands} == (
        {*COMMANDS} - {"bench"} - stays
    )
    for line in commands:
        said, _, command = line.rpartition(" | ")
        words = shlex.split(command)
        stdin = f"{shlex.split(said)[1]}\n" if said else None
        if "<" in words:
            stdin = Path(words.pop()).read_text()
            words.remove("<")
        run(*words[1:], stdin=stdin)
