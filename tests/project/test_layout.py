"""The folders of the tests, and which of them `make test-fast` runs, on SQLite alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from tests.support.child_process import CONTEXT
from tests.support.paths import ROOT, TESTS
from tests.support.process_guard import ProcessRefusedError

LEFT_OUT = {"tests/acceptance"}
"""Folders that `make test` alone runs: most tests there kill processes or take long."""
FEWEST = {
    "tests/unit": 1_000,
    "tests/engine": 400,
    "tests/stores": 700,
    "tests/indexes": 100,
    "tests/keys": 40,
    "tests/faces": 400,
    "tests/integrations": 0,  # each needs a library of its own
    "tests/evaluation": 50,
    "tests/project": 100,
}
"""Tests of each folder that the selection has at the least: a marker must not empty it."""


def variable(name: str) -> str:
    """The value that the Makefile gives a variable."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    found = re.search(rf"(?m)^{name} := (.+)$", makefile)
    assert found is not None
    return found[1]


def test_every_folder_is_selected_or_left_out_on_purpose():
    folders = {
        str(folder.relative_to(ROOT))
        for folder in TESTS.iterdir()
        if folder.is_dir() and any(folder.rglob("test_*.py"))
    }
    assert folders == {*variable("FAST_TESTS").split(), *LEFT_OUT}
    assert set(FEWEST) == folders - LEFT_OUT


def test_every_folder_has_tests_that_need_no_server(request: pytest.FixtureRequest):
    """Looks at the tests of the run that it is part of, because collecting them again is slow."""
    folders = {folder_of(test) for test in request.session.items}
    if request.config.option.keyword or not folders >= {name for name in FEWEST if FEWEST[name]}:
        pytest.skip("needs a run of all folders, as `make test` and `make test-fast` are")
    left_out = variable("FAST_MARKERS").removeprefix("not ").split(" and not ")
    assert left_out == ["server", "process", "slow", "qdrant"]
    selected = [
        test
        for test in request.session.items
        if not any(test.get_closest_marker(name) for name in left_out)
    ]
    counts = Counter(folder_of(test) for test in selected)
    assert {folder: counts[folder] for folder in FEWEST if counts[folder] < FEWEST[folder]} == {}
    in_need = re.compile(r"::Test(?:Postgres|PgVector|SqlServer\b)|\[(?:postgresql|sqlserver)[]-]")
    chosen = [test.nodeid for test in selected if folder_of(test) in FEWEST]
    assert [name for name in chosen if in_need.search(name)] == []


def folder_of(test: pytest.Item) -> str:
    return "/".join(test.path.relative_to(ROOT).parts[:2])


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda: subprocess.run([sys.executable, "-V"], check=True), id="subprocess"),
        pytest.param(lambda: CONTEXT.Process(target=print).start(), id="multiprocessing"),
        pytest.param(
            lambda: os.fork(),
            id="fork",
            marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
        ),
    ],
)
def test_a_test_that_is_not_marked_cannot_start_a_process(start):
    with pytest.raises(ProcessRefusedError, match="mark it `process`"):
        start()


@pytest.mark.process
def test_a_test_that_is_marked_can():
    assert subprocess.run([sys.executable, "-V"], check=True, capture_output=True).returncode == 0


def test_the_folders_and_the_command_are_documented():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "make test-fast" in page
    assert 'echo "make test-fast' in (ROOT / "Makefile").read_text(encoding="utf-8")
    for folder in (*FEWEST, *LEFT_OUT, "tests/support"):
        assert f"`{folder}/" in page, folder


def test_no_test_file_imports_another():
    """What two of them need stands in `tests/support`, so that each folder can be run alone."""
    imported = re.compile(r"(?m)^\s*(?:from|import) (?:test_|conftest|tests\.(?!support))")
    files = [file for file in TESTS.rglob("*.py") if file.name.startswith(("test_", "conftest"))]
    assert files
    assert [str(file) for file in files if imported.search(file.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("face", ["cli", "inspector", "mcp", "rest"])
def test_a_face_asks_the_public_calls(face: str):
    """What imports cannot tell: a face reaches neither the store nor an adapter of a memory."""
    found = [
        f"{path.name}: {line.strip()}"
        for path in (ROOT / "src/octopus_memory/faces" / face).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\.runtime\b|\bopen_store\b|\._runtime\b", line)
    ]
    assert not found
