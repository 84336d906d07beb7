"""The command that runs the tests on every Python here."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT

SCRIPT = ROOT / "scripts" / "test_pythons.py"


def test_the_newest_of_each_version_that_is_admitted():
    newest = runpy.run_path(str(SCRIPT))["newest"]
    found = [
        ((3, 10, 13), Path("old")),
        ((3, 11, 2), Path("a")),
        ((3, 11, 7), Path("b")),
        ((3, 13, 0), Path("c")),
    ]
    assert newest(found, (3, 11)) == {(3, 11): Path("b"), (3, 13): Path("c")}


@pytest.mark.process
def test_the_running_python_is_listed():
    listed = subprocess.run(
        [sys.executable, SCRIPT, "--extras", "dev", "--list"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    versions = [line.split()[0] for line in listed.splitlines()]
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in versions
    assert all(tuple(map(int, version.split("."))) >= (3, 11) for version in versions)


def test_test_pythons_is_documented():
    """And installs what `make test` installs."""
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "make test-pythons" in made
    assert "make test-pythons" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert made.count("$(EXTRAS)") == 2
    [extras] = re.findall(r"^EXTRAS := (.+)$", made, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # Two need a model that is downloaded; frameworks have environments of their own.
    frameworks = runpy.run_path(str(ROOT / "scripts" / "test_integrations.py"))["TESTS"]
    left_out = {"fastembed", "presidio", *frameworks}
    assert {*extras.split(",")} == {*project["optional-dependencies"]} - left_out
