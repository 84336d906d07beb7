"""The list for the model keeps to its limit, and says so where it cannot, through every face."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from octopus_memory import (
    AsyncEpisodicMemory,
    ContextConfig,
    EpisodicMemory,
    MemoryConfig,
    MemoryContext,
)
from tests.support import rest_server
from tests.support.rest_server import WHO

LIMIT = 7_000


def _rounds(count: int) -> list[Any]:
    """One exchange in which a tool is called again and again."""
    history: list[Any] = [{"role": "user", "content": "Look it all up."}]
    for number in range(count):
        function = {"name": "look_up", "arguments": "{}"}
        calls = [{"id": str(number), "type": "function", "function": function}]
        history.append({"role": "assistant", "content": None, "tool_calls": calls})
        history.append({"role": "tool", "tool_call_id": str(number), "content": "row " * 500})
    return [*history, {"role": "assistant", "content": "That is all."}]


def _embedded(memory: EpisodicMemory, history: list[Any], system: str) -> MemoryContext:
    scope = memory.scope(agent="hr", user="ana")
    return scope.context("And now?", history=history, system=system)


def _async(memory: EpisodicMemory, history: list[Any], system: str) -> MemoryContext:
    scope = AsyncEpisodicMemory(memory).scope(agent="hr", user="ana")
    return asyncio.run(scope.context("And now?", history=history, system=system))


def _remote(memory: EpisodicMemory, history: list[Any], system: str) -> MemoryContext:
    with rest_server.remote_memory(memory) as remote:
        scope = remote.scope(agent="hr", user="ana")
        return scope.context("And now?", history=history, system=system)


@pytest.fixture(autouse=True)
def _limited(memory: EpisodicMemory) -> None:
    context = ContextConfig(max_working_memory_tokens=LIMIT, output_reserve=0)
    memory.configure("hr", MemoryConfig(context=context))


@pytest.mark.parametrize("face", [_embedded, _async, _remote])
def test_forty_tool_rounds_keep_to_the_limit(memory: EpisodicMemory, face: Any):
    history = _rounds(40)
    context = face(memory, history, "You are HR.")
    assert context.tokens <= LIMIT
    assert context.overflow_tokens == 0
    assert context.dropped == len(history) - (len(context.messages) - 2) > 0
    roles = [message["role"] for message in context.messages]
    assert roles[:3] == ["system", "user", "assistant"]
    assert roles.count("tool") == sum(1 for m in context.messages if m.get("tool_calls"))


@pytest.mark.parametrize("face", [_embedded, _async, _remote])
def test_messages_that_cannot_fit_are_an_error(memory: EpisodicMemory, face: Any):
    context = face(memory, _rounds(2), "You are HR. " * 4_000)
    assert context.overflow_tokens == context.tokens - LIMIT > 0
    assert context.dropped == 6


def test_rest_names_the_messages_that_cannot_fit(memory: EpisodicMemory):
    body = WHO | {"message": "And now?", "system": "You are HR. " * 4_000}
    with rest_server.http_client(memory) as client:
        answer = client.post("/context", json=body).json()
    assert answer["overflowTokens"] == answer["tokens"] - LIMIT > 0
