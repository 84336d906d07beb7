"""The hosted CI runs what a developer runs, on the Pythons that the package claims."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.support.paths import ROOT

FILE = ROOT / ".github" / "workflows" / "ci.yml"
WORKFLOW = FILE.read_text()
CITUS = FILE.with_name("citus.yml")
JOBS = yaml.safe_load(WORKFLOW)["jobs"]
COMMANDS = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]


def test_every_command_is_a_make_target():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = [re.match(r"make ([\w-]+)( PYTHON=python)?$", command) for command in COMMANDS]
    assert all(named)
    assert {found[1] for found in named if found} == {"lint", "test", "docs", "package"}
    assert {found[1] for found in named if found} <= set(targets)


def test_the_pythons_are_those_of_the_classifiers():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    claimed = re.findall(r"Python :: (3\.\d+)", str(project["classifiers"]))
    assert JOBS["test"]["strategy"]["matrix"]["python"] == claimed
    [package] = [step for step in JOBS["package"]["steps"] if "with" in step]
    assert sorted(package["with"]["python-version"].split()) == claimed


def test_it_names_no_host():
    assert not re.findall(r"https?://|\w+\.(?:org|com|io|net)\b", WORKFLOW)


def test_each_job_checks_out_and_may_only_read():
    assert yaml.safe_load(WORKFLOW)["permissions"] == {"contents": "read"}
    for job in JOBS.values():
        assert job["steps"][0]["uses"].startswith("actions/checkout@")
        assert job["timeout-minutes"] <= 60


def test_citus_runs_by_the_make_targets_on_the_server_that_they_start():
    said = yaml.safe_load(CITUS.read_text())
    [job] = said["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == ["make citus", "make test-citus PYTHON=python"]
    assert said["permissions"] == {"contents": "read"}
    assert job["timeout-minutes"] <= 60
    nodes = yaml.safe_load((ROOT / "tests/support/citus.yaml").read_text())["services"]
    assert nodes["coordinator"]["command"][:2] == ["-p", "9700"]
    assert ":9700/" in said["env"]["OCTOPUS_TEST_CITUS_URL"]
    # What is changed most with it is among what starts it; `on` is true to YAML.
    for path in said[True]["pull_request"]["paths"]:
        assert (ROOT / path.removesuffix("/**")).exists()


@pytest.mark.process
@pytest.mark.parametrize("file", [FILE, CITUS], ids=lambda file: file.stem)
@pytest.mark.skipif(
    importlib.util.find_spec("check_jsonschema") is None,
    reason="the extra dev is not installed whole",
)
def test_it_follows_its_schema(file: Path):
    schema = ["--builtin-schema", "vendor.github-workflows"]
    subprocess.run([sys.executable, "-m", "check_jsonschema", *schema, str(file)], check=True)
