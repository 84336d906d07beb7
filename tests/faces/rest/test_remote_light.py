"""The remote memory in a process that has httpx and none of the package's own dependencies."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from octopus_memory import EpisodicMemory
from tests.support import rest_server
from tests.support.paths import ROOT

PROJECT = ROOT / "pyproject.toml"
BASE_DEPENDENCIES = {
    "alembic": "alembic",
    "cronsim": "cronsim",
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
    "phonenumberslite": "phonenumbers",
    "platformdirs": "platformdirs",
    "pystemmer": "Stemmer",
    "python-stdnum": "stdnum",
    "rich": "rich",
    "sqlalchemy": "sqlalchemy",
    "tokenizers": "tokenizers",
    "typer": "typer",
    "zstandard": "zstandard",
}
"""Each distribution that `pip install octopus-memory` brings, with the module that it installs."""
NOT_FOR_A_CLIENT = ("adapters", "domain.text", "engine", "faces", "ports", "settings", "wiring")

# Makes the modules in argv[1] impossible to import, as if they were not installed.
WITHOUT = """
import json, sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in json.loads(sys.argv[1]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""
CONVERSATION = """
url, key = sys.argv[2:]
with RemoteMemory(url, key) as memory:
    scope = memory.scope(agent="hr", user="ana")
    with scope.episode("monday") as episode:
        episode.add("user", "My parking space is number 47.")
        episode.add_tool_call("lookup", {"space": 47}, "free", tool_call_id="c1")
    fact = scope.add_fact("Ana works from Lisbon.", "work")
    scope.pin_fact(fact)
    context = scope.context("Which parking space is mine?", session_id="tuesday")
    assert "47" in context.text, context.text
    [snippet] = scope.recall("parking space")
    assert snippet.session_id == "monday"
    assert [each.text for each in scope.session("monday").episodes[0].turns][0].endswith("47.")
    assert scope.facts() and scope.recent() and scope.episodes().total_count == 1
    assert memory.config("hr").recall.enabled
    assert scope.erase().is_complete
print(json.dumps(sorted(sys.modules)))
"""

ASYNC_CONVERSATION = """
import asyncio
url, key = sys.argv[2:]

async def talk():
    async with AsyncRemoteMemory.connect(url, api_key=key) as memory:
        scope = memory.scope(agent="hr", user="ana")
        async with scope.episode("monday") as episode:
            await episode.add("user", "My parking space is number 47.")
        context = await scope.context("Which parking space is mine?", session_id="tuesday")
        assert "47" in context.text, context.text
        assert (await scope.forget("parking space")).items
        assert (await scope.episodes()).total_count == 1
        assert (await scope.erase()).is_complete

asyncio.run(talk())
print(json.dumps(sorted(sys.modules)))
"""


def loaded_by(code: str, *arguments: str) -> list[str]:
    """The modules that a process without the base dependencies has loaded in the end."""
    blocked = json.dumps(sorted({*BASE_DEPENDENCIES.values(), "pydantic"}))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-B", "-c", WITHOUT + code, blocked, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    modules: list[str] = json.loads(done.stdout)
    return modules


def test_the_dependencies_are_those_of_the_package():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=\[]", each)[0] for each in project["dependencies"]}
    assert names == set(BASE_DEPENDENCIES)


@pytest.mark.process
@pytest.mark.parametrize(
    "code",
    [
        f"from octopus_memory import RemoteMemory\n{CONVERSATION}",
        f"from octopus_memory.remote import RemoteMemory\n{CONVERSATION}",
        f"from octopus_memory import AsyncRemoteMemory\n{ASYNC_CONVERSATION}",
    ],
    ids=["public", "package", "asyncio"],
)
def test_a_client_needs_no_base_dependency_and_no_engine(tmp_path: Path, code: str):
    with (
        EpisodicMemory.open(tmp_path / "memory.db", embedder="hashing") as memory,
        rest_server.serving(memory) as url,
    ):
        modules = loaded_by(code, url, rest_server.token(memory))
    assert "octopus_memory.remote.memory" in modules
    inner = tuple(f"octopus_memory.{name}" for name in NOT_FOR_A_CLIENT)
    assert [name for name in modules if name.startswith(inner)] == []
