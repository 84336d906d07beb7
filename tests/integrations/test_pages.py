"""Programs of the integrations' pages and of `octopus init` run, each where its framework is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from octopus_memory.faces.cli.init import STARTERS
from octopus_memory.testing.openai_server import FakeOpenAIServer

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
NEEDS = {
    "claude-agent-sdk": "claude_agent_sdk",
    "agent-framework": "agent_framework",
    "google-adk": "google.adk",
    "langchain": "langchain",
    "langgraph": "langgraph",
    "llamaindex": "llama_index.core",
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai",
    "strands": "strands",
    "wrap-a-client": "openai",
}
"""The package that a page's program imports."""
_BLOCK = re.compile(r"^```py(?:thon)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        # `google` itself is missing.
        return False


@pytest.mark.process
@pytest.mark.parametrize("page", NEEDS)
def test_the_program_of_a_page_runs(page: str, tmp_path: Path):
    if not _is_installed(NEEDS[page]):
        pytest.skip(f"{NEEDS[page]} is not installed")
    if not (HOWTO / f"{page}.md").exists():
        pytest.fail(f"{page} has no page")
    script = tmp_path / "page.py"
    script.write_text("\n".join(_BLOCK.findall((HOWTO / f"{page}.md").read_text())))
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


STARTER_NEEDS = {"langchain": ("langchain", "langchain_openai"), "openai-agents": ("agents",)}
"""The packages that a program of `octopus init` imports."""


@pytest.mark.process
@pytest.mark.parametrize("kind", STARTER_NEEDS)
def test_the_program_of_a_kind_remembers_at_its_second_run(kind: str, tmp_path: Path):
    if not all(map(_is_installed, STARTER_NEEDS[kind])):
        pytest.skip(f"{STARTER_NEEDS[kind]} are not installed")
    [starter] = [each for each in STARTERS if each.name == kind]
    subprocess.run([sys.executable, "-m", "octopus_memory", "init", kind], cwd=tmp_path, check=True)
    with FakeOpenAIServer() as server:
        environment = {
            **os.environ,
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "any",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "OCTOPUS_EMBEDDER": "hashing",
        }
        for said in ("I am allergic to peanuts.", "What should I not eat, with my allergy?"):
            done = subprocess.run(
                [sys.executable, starter.file],
                cwd=tmp_path,
                env=environment,
                input=f"{said}\n\n",
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert "assistant: " in done.stdout
        assert "allergic to peanuts" in json.dumps(server.requests[-1].body)
