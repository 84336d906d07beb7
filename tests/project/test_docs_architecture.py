"""The pages about the structure of the code name files that exist and are used."""

from __future__ import annotations

import importlib.util
import re
import sys
import tomllib
from abc import ABC
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.adapters.stores.sql.store import SqlStore
from octopus_memory.faces.rest.app import make_app
from octopus_memory.ports.index import RecallIndex
from octopus_memory.ports.store import BASE, EpisodeStore, unclaimed_methods
from octopus_memory.settings import ServerSettings
from tests.support.paths import ROOT

PACKAGE = ROOT / "src" / "octopus_memory"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
ADAPTERS = (ROOT / "docs" / "howto" / "write-an-adapter.md").read_text()
DECISIONS = ROOT / "docs" / "adr"
_PATH = re.compile(r"`([\w.*/-]+(?:/|\.(?:py|sql|toml|json|md|yaml|yml)))`")
_TRACES = re.split(r"^### ", PAGE.split("## Four calls")[1], flags=re.MULTILINE)[1:]


def _exists(path: str) -> bool:
    # What a command makes need not be there.
    return path.startswith("build/") or any((base / path).exists() for base in (ROOT, PACKAGE))


@pytest.mark.parametrize(
    "page",
    [
        "docs/architecture.md",
        "docs/howto/release.md",
        "docs/howto/write-an-adapter.md",
        "CONTRIBUTING.md",
    ],
)
def test_every_path_on_the_page_exists(page: str):
    text = (ROOT / page).read_text()
    outside_map = [line for line in text.splitlines() if not _is_map_row(line)]
    named = _PATH.findall("\n".join(outside_map))
    assert named
    assert [path for path in named if not _exists(path)] == []


def _is_map_row(line: str) -> bool:
    return line.startswith("| ") and line.count("|") == len(_map_columns()) + 2


def _map_columns() -> list[str]:
    heading = next(line for line in PAGE.splitlines() if line.startswith("| feature |"))
    return _PATH.findall(heading)


def test_every_file_in_the_map_of_features_exists():
    columns = _map_columns()
    rows = [line for line in PAGE.splitlines() if _is_map_row(line)][1:]
    assert len(rows) > 10
    missing = []
    for row in rows:
        cells = row.strip("|").split("|")[1:]
        for folder, cell in zip(columns, cells, strict=True):
            missing += [
                folder + name
                for name in _PATH.findall(cell)
                if not (PACKAGE / folder / name).exists()
            ]
    assert missing == []


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[EpisodicMemory]:
    with EpisodicMemory.open(
        tmp_path / "traced.db", embedder="hashing", background=False
    ) as memory:
        scope = memory.scope(user="ana")
        scope.add("sunday", ("user", "I live in Lyon, and I like long walks."))
        memory.run_pending()
        scope.context("Where do I live?")
        yield memory


def _entered(call: Callable[[], object]) -> set[str]:
    """The files of the package in which a function was called."""
    files: set[str] = set()
    folder = str(PACKAGE) + "/"

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            files.add(frame.f_code.co_filename.removeprefix(folder))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return files


def test_the_four_calls_pass_through_the_files_that_are_named(memory: EpisodicMemory):
    scope = memory.scope(user="ana")
    calls: dict[str, Callable[[], object]] = {
        "`scope.add": lambda: scope.add("monday", ("user", "I am allergic to peanuts.")),
        "`memory.run_pending": memory.run_pending,
        "`scope.context": lambda: scope.context("What am I allergic to?", session_id="tuesday"),
        "`scope.erase": scope.erase,
    }
    assert len(_TRACES) == len(calls)
    for trace, (heading, call) in zip(_TRACES, calls.items(), strict=True):
        assert trace.startswith(heading)
        named = re.findall(r"^\| `([\w/]+\.py)` \|", trace, re.MULTILINE)
        assert len(named) > 5
        entered = _entered(call)
        assert [path for path in named if path not in entered] == [], heading


def test_the_picture_is_what_its_source_draws():
    spec = importlib.util.spec_from_file_location(
        "draw_architecture", ROOT / "scripts" / "draw_architecture.py"
    )
    assert spec is not None
    assert spec.loader is not None
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    assert [path for path in drawing.paths() if not (PACKAGE / path).exists()] == []
    assert drawing.PICTURE.read_text() == drawing.draw(), "run scripts/draw_architecture.py"


def test_the_layers_on_the_page_are_those_of_the_import_contract():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = re.findall(r"octopus_memory\.(\w+)", str(contract["contracts"][0]["layers"]))
    table = PAGE.split("## Layers")[1].split("\n## ")[0]
    rooms = [name for name in layers if (PACKAGE / name).is_dir()]
    assert len(rooms) > 5
    assert [name for name in rooms if f"`{name}/`" not in table] == []


def test_the_sizes_of_the_seams():
    abstract = set(SqlStore.__abstractmethods__)
    named = set(re.findall(r"^\| `(\w+)\(\w*\)` \|", ADAPTERS, re.MULTILINE))
    assert abstract <= named
    assert f"| {len(abstract)} abstract methods |" in ADAPTERS
    assert f"| {len(RecallIndex.__abstractmethods__)} abstract methods, " in ADAPTERS
    required = EpisodeStore.__abstractmethods__ - unclaimed_methods(BASE).keys()
    counts = len(EpisodeStore.__abstractmethods__), len(required)
    assert "{} abstract methods, {} of them required".format(*counts) in ADAPTERS


def test_the_guide_counts_the_methods_of_every_role():
    counted = dict(re.findall(r"^\| `(\w+)` \| `ports\.\w+` \| (\d+) \|", ADAPTERS, re.MULTILINE))
    roles = [role for role in EpisodeStore.__bases__ if role is not ABC]
    assert counted == {role.__name__: str(len(role.__abstractmethods__)) for role in roles}


def test_every_decision_is_in_the_index_with_its_status():
    index = (DECISIONS / "README.md").read_text()
    pages = sorted(path.name for path in DECISIONS.glob("0*.md"))
    listed = re.findall(
        r"^\| \d+ \| \[.*?\]\((.*?)\) \| (in force|superseded)", index, re.MULTILINE
    )
    assert [name for name, _ in listed] == pages


def test_every_route_is_documented(memory: EpisodicMemory):
    page = (ROOT / "docs" / "reference" / "rest.md").read_text()
    app = make_app(memory, ServerSettings())
    paths = {
        re.sub(r"\{(\w+)(:\w+)?\}", "{}", route.path.removeprefix("/api/octopus"))
        for route in app.router.routes
        if getattr(route, "include_in_schema", False)
    }
    told = {re.sub(r"\{\w+\}", "{}", path) for path in re.findall(r"(/[\w{}/.-]*)", page)}
    assert len(paths) > 20
    assert paths - told == set()
