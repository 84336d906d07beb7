"""The hosted CI runs what a developer runs, on the Pythons that the package claims."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from tests.support.paths import ROOT

FILE = ROOT / ".github" / "workflows" / "ci.yml"
WORKFLOW = FILE.read_text()
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


@pytest.mark.process
@pytest.mark.skipif(
    importlib.util.find_spec("check_jsonschema") is None,
    reason="the extra dev is not installed whole",
)
def test_it_follows_its_schema():
    schema = ["--builtin-schema", "vendor.github-workflows"]
    subprocess.run([sys.executable, "-m", "check_jsonschema", *schema, str(FILE)], check=True)
