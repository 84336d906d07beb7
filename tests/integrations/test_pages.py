"""Programs of the integrations' pages and of `octopus init` run, each where its framework is."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from octopus_memory.faces.cli.init import STARTERS
from octopus_memory.testing.openai_server import FakeOpenAIServer

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
NEEDS = {
    "claude-agent-sdk": ("claude_agent_sdk",),
    "agent-framework": ("agent_framework", "agent_framework_openai"),
    "google-adk": ("google.adk",),
    "langchain": ("langchain", "langchain_openai"),
    "langgraph": ("langgraph",),
    "llamaindex": ("llama_index.core", "llama_index.llms.openai"),
    "openai-agents": ("agents",),
    "pydantic-ai": ("pydantic_ai", "openai"),
    "strands": ("strands", "openai"),
    "wrap-a-client": ("openai",),
}
"""The packages that a page's program imports."""
STAND_INS = {
    "google-adk": """
import json
import os
import urllib.request

from google.adk.models import BaseLlm, LLMRegistry, LlmResponse
from google.genai import types


class StandIn(BaseLlm):
    @classmethod
    def supported_models(cls):
        return ["gemini-.*"]

    async def generate_content_async(self, llm_request, stream=False):
        asked = {"model": "any", "messages": [llm_request.model_dump_json()]}
        urllib.request.urlopen(
            urllib.request.Request(
                os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(asked).encode()
            )
        ).close()
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Sure.")]))


LLMRegistry.register(StandIn)
""",
}
"""What is run before a page whose model is not asked over an API of the stand-in's."""
_BLOCK = re.compile(r"^```py(?:thon)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        # `google` itself is missing.
        return False


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAIServer]:
    """The stand-in for a provider, which the programs that are started ask."""
    with FakeOpenAIServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_BASE", server.base_url)  # LlamaIndex
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url.removesuffix("/v1"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", "any")
        monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
        monkeypatch.setenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        monkeypatch.setenv("OCTOPUS_EMBEDDER", "hashing")
        # A busy machine must not make the agent go on without its memory.
        monkeypatch.setenv("OCTOPUS_CONTEXT_TIMEOUT_SECONDS", "60")
        yield server


@pytest.mark.process
@pytest.mark.parametrize("page", NEEDS)
def test_the_program_of_a_page_runs_and_remembers(
    page: str, tmp_path: Path, provider: FakeOpenAIServer
):
    if missing := [name for name in NEEDS[page] if not _is_installed(name)]:
        pytest.skip(f"{', '.join(missing)}: not installed")
    if not (HOWTO / f"{page}.md").exists():
        pytest.fail(f"{page} has no page")
    script = tmp_path / "page.py"
    blocks = _BLOCK.findall((HOWTO / f"{page}.md").read_text())
    script.write_text("\n".join([STAND_INS.get(page, ""), *blocks]))
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "[Past Conversations]" not in done.stdout
    if page != "langgraph":
        # The second conversation was asked with what the first one told.
        asked = [json.dumps(request.body) for request in provider.requests]
        assert any("peanuts" in body and "should I not eat" in body for body in asked)


STARTER_NEEDS = {
    "library": (),
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "langchain": ("langchain", "langchain_openai"),
    "langgraph": ("langgraph", "langchain_openai"),
    "pydantic-ai": ("pydantic_ai", "openai"),
    "openai-agents": ("agents",),
    "service": ("fastapi", "uvicorn", "prometheus_client", "httpx"),
    "mcp": ("mcp", "anyio"),
}
"""The packages that a program of `octopus init` imports."""
TOLD = "I am allergic to peanuts."
FOLLOWED = "And I live in Lisbon."
ASKED = "What should I not eat, with my allergy?"


def _init(kind: str, folder: Path) -> str:
    """Write the starter of a kind; returns its file."""
    if missing := [name for name in STARTER_NEEDS[kind] if not _is_installed(name)]:
        pytest.skip(f"{', '.join(missing)}: not installed")
    command = [sys.executable, "-m", "octopus_memory", "init", kind]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return next(each.file for each in STARTERS if each.name == kind)


def _talk(program: str, folder: Path, *said: str) -> str:
    """Run a program, say something, and end as Ctrl-D does; returns what it printed."""
    done = subprocess.run(
        [sys.executable, program],
        cwd=folder,
        input="".join(f"{each}\n" for each in said),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.count("assistant:") == len(said)
    return done.stdout


def test_every_kind_is_run():
    assert set(STARTER_NEEDS) == {starter.name for starter in STARTERS}


@pytest.mark.process
@pytest.mark.parametrize(
    "kind", ["openai", "anthropic", "langchain", "langgraph", "pydantic-ai", "openai-agents"]
)
def test_a_starter_knows_its_conversation_and_the_one_before(
    kind: str, tmp_path: Path, provider: FakeOpenAIServer
):
    program = _init(kind, tmp_path)
    provider.answer("Noted.", times=2)
    first = _talk(program, tmp_path, TOLD, FOLLOWED)
    assert first.count("assistant: Noted.") == 2
    assert "I remember" not in first
    _, second = (json.dumps(request.body) for request in provider.requests)
    # The conversation itself is sent again, with its answer.
    assert TOLD in second
    assert "Noted." in second
    assert FOLLOWED in second
    provider.clear()
    assert "peanuts" in _talk(program, tmp_path, ASKED).split("you: ")[0]
    assert "allergic to peanuts" in json.dumps(provider.requests[-1].body)
    # A run in which nothing is said ends as well.
    _talk(program, tmp_path)


@pytest.mark.process
def test_the_starter_without_a_model_knows_its_conversation_and_the_one_before(
    tmp_path: Path, provider: FakeOpenAIServer
):
    program = _init("library", tmp_path)
    first = _talk(program, tmp_path, TOLD, FOLLOWED)
    assert first.count(f"[user] {TOLD}") == 2
    assert "allergic to peanuts" in _talk(program, tmp_path, ASKED).split("you: ")[1]


@pytest.mark.process
def test_the_starter_of_a_service_knows_its_conversation_and_the_one_before(
    tmp_path: Path, provider: FakeOpenAIServer
):
    program = _init("service", tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    written = tmp_path / program
    written.write_text(written.read_text(encoding="utf-8").replace("8765", port))
    serve = [sys.executable, "-m", "octopus_memory", "serve", "--dev", "--port", port]
    with subprocess.Popen(serve, cwd=tmp_path, stderr=subprocess.DEVNULL) as service:
        try:
            _wait_for(port)
            first = _talk(program, tmp_path, TOLD, FOLLOWED)
            assert first.count(f"[user] {TOLD}") == 2
            assert "allergic to peanuts" in _talk(program, tmp_path, ASKED).split("you: ")[1]
        finally:
            service.terminate()


def _wait_for(port: str) -> None:
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), timeout=1):
            return
        time.sleep(0.1)
    pytest.fail("the service did not start")


@pytest.mark.process
def test_an_mcp_client_with_the_configuration_knows_the_session_before(
    tmp_path: Path, provider: FakeOpenAIServer
):
    configuration = json.loads((tmp_path / _init("mcp", tmp_path)).read_text(encoding="utf-8"))
    from tests.support import mcp_process

    arguments = configuration["mcpServers"]["memory"]["args"][1:]
    with mcp_process.tools(tmp_path / "first.log", *arguments) as tools:
        tools.data("remember", messages=[{"role": "user", "content": TOLD}])
        tools.data("close_session")
    with mcp_process.tools(tmp_path / "second.log", *arguments) as tools:
        assert "allergic to peanuts" in tools.text("context", message=ASKED)
