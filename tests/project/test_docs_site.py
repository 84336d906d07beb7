"""The documentation site has every page, and its builder finds what is wrong."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import octopus_memory
from tests.support.paths import ROOT

CONFIG = (ROOT / "mkdocs.yml").read_text()
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_docs", ROOT / "scripts" / "build_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation_once():
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    staged = [re.sub(r"README\.md$", "index.md", name) for name in pages]
    also = ["changelog.md", "contributing.md"]
    also += [f"reference/api/{name}.md" for name in ("calls", "values", "errors", "ports")]
    listed = re.findall(r": (\S+\.md)$", CONFIG.split("\nnav:\n")[1], re.MULTILINE)
    assert sorted(listed) == sorted(staged + also)


def test_every_public_name_has_an_api_entry(builder: ModuleType):
    pages = "".join(builder.api_pages().values())
    written = set(re.findall(r"^::: octopus_memory\.(\w+)$", pages, re.MULTILINE))
    assert set(octopus_memory.__all__) - written <= {"__version__"}


def test_the_api_begins_with_what_a_reader_looks_for(builder: ModuleType):
    page = builder.api_pages()["calls"]
    names = re.findall(r"^::: octopus_memory\.(\w+)$", page, re.MULTILINE)
    assert names[:3] == ["EpisodicMemory", "MemoryScope", "MemoryContext"]
    assert "members: [open, connect, scope, tenant," in page


def test_links_are_rewritten_for_the_site(builder: ModuleType, tmp_path: Path):
    index = builder.stage_page(DOCS / "README.md")
    assert "](contributing.md)" in index
    assert "](adr/index.md)" in index
    assert "](docs/" not in builder.stage_page(ROOT / "CONTRIBUTING.md")


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="gone.html">x</a>', "does not exist"),
        ('<a href="#gone">x</a>', "no such anchor"),
        ('<script src="https://cdn.example.com/x.js"></script>', "loads https"),
        ("<code>never closed", "not closed"),
    ],
)
def test_the_checker_finds(builder: ModuleType, tmp_path: Path, html: str, problem: str):
    (tmp_path / "page.html").write_text(f'<p id="here"><a href="#here">fine</a></p>{html}')
    [found] = builder.check_site(tmp_path)
    assert problem in found


@pytest.mark.process
@pytest.mark.skipif(
    importlib.util.find_spec("zensical") is None, reason="the extra docs is not installed"
)
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_site_builds_without_a_warning():
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "build_docs.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "No issues found" in done.stdout


def test_every_page_is_linked_from_the_index():
    linked = set(re.findall(r"\]\(([^)#]+\.md)", (DOCS / "README.md").read_text()))
    decisions = set(re.findall(r"\]\(([^)#]+\.md)", (DOCS / "adr" / "README.md").read_text()))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    assert pages - linked - {f"adr/{name}" for name in decisions} == set()
