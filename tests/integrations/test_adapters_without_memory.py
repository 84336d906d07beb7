"""The part that all adapters share goes on without its memory."""

from __future__ import annotations

import asyncio
import importlib
import sys

import pytest
from openai import OpenAI

from octopus_memory import (
    AsyncEpisodicMemory,
    EpisodicMemory,
    InvalidInput,
    MemoryClosed,
    MissingExtra,
    wrap,
)
from octopus_memory.integrations import outbox
from octopus_memory.integrations.core import Conversation
from octopus_memory.integrations.tools import MemoryTools
from tests.support.integrations import texts

HI = [{"role": "user", "content": "Hi."}]


def test_a_conversation_goes_on_without_its_memory(
    kept: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outbox, "OUTBOX", outbox.Outbox())
    talk = Conversation(kept.scope(user="ana"), "s")
    kept.close()
    assert talk.block("Hi.") == ""
    talk.add(HI)
    talk.add_new(HI)

    async def story() -> None:
        assert await talk.ablock("Hi.") == ""
        await talk.aadd(HI)
        await talk.aadd_new(HI)
        await talk.aadd_now(HI)
        assert "cannot be searched" in await MemoryTools(talk).arecall("Hi.")

    asyncio.run(story())
    assert outbox.counts() == (0, 5)


@pytest.mark.parametrize(
    ("module", "framework", "extra"),
    [
        ("agent_framework", "agent_framework", "agent-framework"),
        ("claude_agent", "claude_agent_sdk", "claude-agent-sdk"),
        ("google_adk", "google.adk", "google-adk"),
        ("langchain", "langchain", "langchain"),
        ("langgraph", "langgraph", "langgraph"),
        ("llamaindex", "llama_index", "llamaindex"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai", "pydantic-ai"),
        ("strands", "strands", "strands"),
    ],
)
def test_an_adapter_without_its_framework_says_what_to_install(
    module: str, framework: str, extra: str, monkeypatch: pytest.MonkeyPatch
):
    for name in [*sys.modules]:
        if name == framework or name.startswith((f"{framework}.", "octopus_memory.integrations.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, framework, None)
    name = f"octopus_memory.integrations.{module}"
    with pytest.raises(MissingExtra) as refused:
        importlib.import_module(name)
    assert str(refused.value) == f"{name} needs an extra: pip install 'octopus-memory[{extra}]'"


def test_a_memory_in_place_of_a_scope_is_refused_at_once(kept: EpisodicMemory):
    with pytest.raises(InvalidInput, match=r'scope: must be .* memory\.scope\(user="ana"\)'):
        wrap(OpenAI(api_key="any"), kept, session_id="monday")  # type: ignore[type-var]
    for scope in (kept.scope(user="ana"), AsyncEpisodicMemory(kept).scope(user="ana")):
        Conversation(scope, "monday")


def test_who_wants_errors_gets_them(kept: EpisodicMemory):
    talk = Conversation(kept.scope(user="ana"), "s", on_error="raise")
    talk.add_new(HI)
    assert texts(kept.scope(user="ana"), "s") == ["Hi."]
    kept.close()
    for call in (talk.add, talk.add_new):
        with pytest.raises(MemoryClosed):
            call(HI)
    with pytest.raises(MemoryClosed):
        talk.block("Hi.")

    async def story() -> None:
        with pytest.raises(MemoryClosed):
            await talk.aadd(HI)
        with pytest.raises(MemoryClosed):
            await talk.ablock("Hi.")

    asyncio.run(story())
