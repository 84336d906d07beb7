"""The programs of the integrations' pages run, each where its framework is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
NEEDS = {
    "claude-agent-sdk": "claude_agent_sdk",
    "agent-framework": "agent_framework",
    "google-adk": "google.adk",
    "langchain": "langchain",
    "langgraph": "langgraph",
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
