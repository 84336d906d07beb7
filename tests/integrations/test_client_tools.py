"""`wrap(…, tools=True)`: the model calls memory's tools, and the client answers them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import octopus_memory
from octopus_memory import EpisodicMemory
from octopus_memory.testing.openai_server import FakeOpenAIServer
from tests.support.integrations import FACT, SECRET, texts

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

ASK = {"role": "user", "content": "Look it up."}


def call(number: str, name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": number, "type": "function", "function": function}


RECALL = call("r1", "recall_memory", query="passport number")
PAY = call("p1", "pay", amount=5)


class Asker:
    """A wrapped client of one kind, asked for an answer or a stream."""

    def __init__(self, name: str, mode: str, server: FakeOpenAIServer, scope: Any) -> None:
        self.name, self.is_async, self.streams = name, "async" in mode, "stream" in mode
        prefix = "Async" if self.is_async else ""
        url = server.base_url.removesuffix("/v1") if name == "messages" else server.base_url
        library = anthropic if name == "messages" else openai
        kind = "Anthropic" if name == "messages" else "OpenAI"
        client = getattr(library, prefix + kind)(base_url=url, api_key="any", max_retries=0)
        self.client = octopus_memory.wrap(client, scope, session_id="new", tools=True)

    def ask(self, messages: list[Any], **more: Any) -> tuple[str, list[str]]:
        """The text of the answer, and the names of the tools that it calls."""
        given = {"input" if self.name == "responses" else "messages": messages}
        if self.name == "messages":
            given["max_tokens"] = 99
        create = {
            "chat": lambda: self.client.chat.completions.create,
            "responses": lambda: self.client.responses.create,
            "messages": lambda: self.client.messages.create,
        }[self.name]()
        named = {"model": "m", **given, **more}
        if self.streams:
            named["stream"] = True

        async def run() -> Any:
            answer = await create(**named)
            return [each async for each in answer] if self.streams else answer

        if self.is_async:
            answer = asyncio.run(run())
        else:
            answer = list(create(**named)) if self.streams else create(**named)
        return self._read_events(answer) if self.streams else self._read(answer)

    def _read(self, answer: Any) -> tuple[str, list[str]]:
        match self.name:
            case "chat":
                message = answer.choices[0].message
                calls = [each.function.name for each in message.tool_calls or ()]
                return message.content or "", calls
            case "responses":
                calls = [each.name for each in answer.output if each.type == "function_call"]
                return answer.output_text, calls
            case _:
                text = [each.text for each in answer.content if each.type == "text"]
                calls = [each.name for each in answer.content if each.type == "tool_use"]
                return "".join(text), calls

    def _read_events(self, events: list[Any]) -> tuple[str, list[str]]:
        text, calls = "", []
        for event in events:
            match self.name:
                case "chat":
                    for choice in event.choices:
                        text += choice.delta.content or ""
                        pieces = choice.delta.tool_calls or ()
                        calls += [each.function.name for each in pieces if each.function.name]
                case "responses":
                    if event.type == "response.completed":
                        got, names = self._read(event.response)
                        text, calls = text + got, calls + names
                case _:
                    block = getattr(event, "content_block", None)
                    if event.type == "content_block_start" and block.type == "tool_use":
                        calls.append(block.name)
                    if event.type == "content_block_delta" and event.delta.type == "text_delta":
                        text += event.delta.text
        return text, calls


@pytest.fixture(params=["sync", "sync stream", "async", "async stream"])
def mode(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(params=["chat", "responses", "messages"])
def asker(
    request: pytest.FixtureRequest, mode: str, server: FakeOpenAIServer, kept: EpisodicMemory
) -> Asker:
    scope = kept.scope(user="ana")
    scope.store([{"role": "user", "name": "Ana", "content": FACT}], session_id="old")
    kept.flush()
    return Asker(request.param, mode, server, scope)


def test_calls_of_memorys_tools_are_answered(
    asker: Asker, server: FakeOpenAIServer, kept: EpisodicMemory
):
    server.answer(tool_calls=[RECALL], finish_reason="tool_calls")
    server.answer("It is X4.")
    assert asker.ask([ASK]) == ("It is X4.", [])
    sent = json.dumps(server.requests[-1].body)
    assert SECRET in sent
    assert "Ana:" in sent
    names = json.dumps(server.requests[0].body["tools"])
    assert "recall_memory" in names
    assert "forget_memory" in names
    assert texts(kept.scope(user="ana"), "new") == ["Look it up.", "It is X4."]


def test_the_callers_own_tools_stay_the_callers(asker: Asker, server: FakeOpenAIServer):
    server.answer(tool_calls=[RECALL, PAY], finish_reason="tool_calls")
    assert asker.ask([ASK]) == ("", ["pay"])
    result: list[Any]
    match asker.name:
        case "chat":
            asked = {"role": "assistant", "content": None, "tool_calls": [PAY]}
            result = [asked, {"role": "tool", "tool_call_id": "p1", "content": "paid"}]
        case "responses":
            own = {"type": "function_call", "call_id": "p1", "name": "pay", "arguments": "{}"}
            done = {"type": "function_call_output", "call_id": "p1", "output": "paid"}
            result = [own, done]
        case _:
            used = {"type": "tool_use", "id": "p1", "name": "pay", "input": {"amount": 5}}
            given = {"type": "tool_result", "tool_use_id": "p1", "content": "paid"}
            result = [
                {"role": "assistant", "content": [used]},
                {"role": "user", "content": [given]},
            ]
    server.answer("Done.")
    assert asker.ask([ASK, *result]) == ("Done.", [])
    sent = json.dumps(server.requests[-1].body)
    # The model sees its own call of the memory again, with the answer.
    assert SECRET in sent
    assert "paid" in sent


def test_the_model_cannot_search_for_ever(asker: Asker, server: FakeOpenAIServer):
    for _ in range(10):
        server.answer(tool_calls=[RECALL], finish_reason="tool_calls")
    text, calls = asker.ask([ASK])
    assert (text, calls) == ("", [])
    assert len(server.requests) == 5


def test_without_the_argument_a_request_has_no_tools(
    server: FakeOpenAIServer, kept: EpisodicMemory
):
    client = openai.OpenAI(base_url=server.base_url, api_key="any", max_retries=0)
    wrapped = octopus_memory.wrap(client, kept.scope(user="ana"), session_id="new")
    wrapped.chat.completions.create(model="m", messages=[ASK])
    assert "tools" not in server.requests[-1].body
