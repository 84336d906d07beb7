"""What the documentation shows runs, and what the code has is documented."""

from __future__ import annotations

import ast
import builtins
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from itertools import takewhile
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup

import octopus_memory
from octopus_memory import MemoryConfig
from octopus_memory.__main__ import program
from octopus_memory.faces.exchange import MCP_PATH
from octopus_memory.faces.mcp.tools import TOOLS
from octopus_memory.settings import ServerSettings, Settings
from tests.support import child_process
from tests.support.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
HOWTOS = sorted((ROOT / "docs/howto").glob("*.md"))
_DATABASE = re.compile(r"open\(\"sqlite:///([\w-]+\.db)")
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SHELL = re.compile(r"^```(?:console|sh|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(?:\$ )?(octopus [a-z].*)$", re.MULTILINE)
_NOT_TYPED = typer.BadParameter.__mro__[1]
_LINK = re.compile(r"\[[^\]]*\]\((?!https?://|#)([^)#]+)")


def _run(script: Path, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if _BLOCK.search(page.read_text())],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_examples_of_a_page_run_in_order(page: Path, tmp_path: Path):
    script = tmp_path / "page.py"
    script.write_text("\n".join(_BLOCK.findall(page.read_text())))
    if page.parent.name == "tutorial" or page.parent == ROOT:
        # What a newcomer types first runs as they would run it.
        _run(script, tmp_path)
        return
    quickly = {**os.environ, "OCTOPUS_EMBEDDER": "hashing"}
    with child_process.running(child_process.run_script, str(script), quickly) as (_, pipe):
        assert child_process.read_to_end(pipe) == [None]


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES[1:] if not re.match(r"\d{4}-", page.name)],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_opens_with_whom_it_is_for(page: Path):
    opening = page.read_text().split("\n\n")[1]
    assert opening.startswith("For ")
    assert "You get" in opening or page.name == "README.md"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if _BLOCK.search(page.read_text())],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_block_stands_alone_or_says_what_it_continues(page: Path):
    before, *rest = _BLOCK.split(page.read_text())
    texts, blocks = [before, *rest[1::2]], rest[::2]
    for text, block in zip(texts, blocks, strict=False):
        unknown = _unknown_names(block)
        said = re.search(r"\bcontinues?\b", before + text[-300:])
        assert not unknown or said, (unknown, block)


def _unknown_names(block: str) -> set[str]:
    """The names that a block reads and nothing in it defines."""
    defined = set(dir(builtins))
    read = set()
    for node in ast.walk(ast.parse(block)):
        match node:
            case ast.Import() | ast.ImportFrom():
                defined |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                defined.add(node.name)
            case ast.arg():
                defined.add(node.arg)
            case ast.Name(ctx=ast.Load()):
                read.add(node.id)
            case ast.Name():
                defined.add(node.id)
    return read - defined


def test_no_two_howtos_work_in_one_database():
    pages = {page: set(_DATABASE.findall(page.read_text())) for page in HOWTOS}
    shared = Counter(name for names in pages.values() for name in names)
    assert shared
    assert shared.most_common(1)[0][1] == 1, shared


def _commands(page: Path) -> Iterator[list[str]]:
    """The arguments of each call of `octopus` in a page's shell blocks."""
    for block in _SHELL.findall(page.read_text()):
        for line in _COMMAND.findall(block.replace("\\\n", " ")):
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
            lexer.whitespace_split = True
            yield [*takewhile(lambda part: part[0] not in "|&;<>", filter(None, lexer))][1:]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(_commands(page))], ids=lambda page: page.name
)
def test_every_command_on_a_page_can_be_typed(page: Path):
    """Each names a command and options that there are, with values that they take."""
    for words in _commands(page):
        command, name, args, context = typer.main.get_command(program()), "octopus", words, None
        try:
            while command is not None:
                context = command.make_context(name, [*args], parent=context)
                if not isinstance(command, TyperGroup):
                    break
                name, command, args = command.resolve_command(context, args)
        except _NOT_TYPED as error:
            pytest.fail(f"octopus {shlex.join(words)}: {error}")


@pytest.mark.process
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_example_runs(example: Path, tmp_path: Path):
    _run(example, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path):
    for target in _LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_public_name_is_documented():
    page = (ROOT / "docs/reference/python.md").read_text()
    missing = [name for name in octopus_memory.__all__ if f"`{name}" not in page]
    assert not missing


@pytest.mark.parametrize("kind", ["EpisodicMemory", "MemoryScope", "EpisodeInHand"])
def test_every_public_call_is_documented(kind: str):
    page = (ROOT / "docs/reference/python.md").read_text()
    calls = [n for n in dir(getattr(octopus_memory, kind)) if not n.startswith("_")]
    inside = {
        "parts",
        "runtime",
        "counts",
        "embedding_model",
        "inspection",
        "worker_state",
        "now",
        "check_for_removals",
        "attend",
        "wake",
        "wake_for_others",
        "scope",
    }
    missing = [
        call for call in calls if call not in inside and not re.search(rf"`\S*{call}\b", page)
    ]
    assert not missing


def test_every_setting_is_documented():
    page = (ROOT / "docs/reference/settings.md").read_text()
    names = [each.name for each in fields(Settings) if each.name != "memory"]
    missing = [n for n in names if f"`{n}`" not in page or f"`OCTOPUS_{n.upper()}`" not in page]
    assert not missing
    inner = [name for part in MemoryConfig().to_dict().values() for name in part]
    assert not [name for name in inner if f"`{name}`" not in page]


@pytest.mark.parametrize("name", TOOLS)
def test_every_mcp_tool_is_documented(name: str):
    page = (ROOT / "docs/howto/mcp.md").read_text()
    row = re.search(rf"^\| `{name}` \| (.*?) \|", page, re.MULTILINE)
    assert row is not None
    taken = set(re.findall(r"`(\w+)`", row[1])) - {"role", "content"}
    assert taken == set(TOOLS[name].model_fields)


def _mcp_blocks(language: str) -> list[str]:
    page = (ROOT / "docs/howto/mcp.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def test_what_mcp_clients_are_told_to_start_can_be_started():
    servers = [json.loads(block)["mcpServers"]["memory"] for block in _mcp_blocks("json")]
    started = [server for server in servers if "command" in server]
    assert len(started) == 2
    for server in started:
        name, *options = server["args"]
        assert (server["command"], name) == ("octopus", "mcp")
        typer.main.get_command(program()).commands[name].make_context(name, options)


def test_what_mcp_clients_are_told_to_send_is_what_the_service_reads():
    servers = [json.loads(block)["mcpServers"]["memory"] for block in _mcp_blocks("json")]
    [server] = [server for server in servers if "url" in server]
    assert set(server) == {"type", "url", "headers"}
    [toml] = _mcp_blocks("toml")
    other = tomllib.loads(toml)["mcp_servers"]["memory"]
    for url in (server["url"], other["url"]):
        assert url == f"http://127.0.0.1:{ServerSettings().port}{MCP_PATH}"
    named = {"X-Octopus-Agent": "code", "X-Octopus-User": "ana"}
    assert other["http_headers"] == named
    assert server["headers"] == {"Authorization": "Bearer ${OCTOPUS_API_KEY}", **named}


def test_the_changelog_and_the_package_name_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == octopus_memory.__version__
    assert f"## {octopus_memory.__version__} " in (ROOT / "CHANGELOG.md").read_text()
