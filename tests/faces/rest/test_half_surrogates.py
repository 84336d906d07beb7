"""Text that was cut in the middle of an emoji, anywhere in a message, over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from octopus_memory import AsyncRemoteMemory, EpisodicMemory, RemoteMemory
from tests.support import inspector_pages, rest_server
from tests.support.rest_server import HELLO, WHO

HALF = "half \ud83d"
CALL = {"id": HALF, "type": "function", "function": {"name": HALF, "arguments": f'{{"{HALF}": 1}}'}}
MESSAGES: dict[str, list[dict[str, Any]]] = {
    "a text": [{"role": "user", "content": HALF}],
    "a key": [{"role": "user", "content": "x", HALF: 1}],
    "a call": [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": HALF, "content": HALF},
    ],
    "a record": [
        {
            "role": "tool",
            "tool_call_id": HALF,
            "function_name": HALF,
            "arguments": {HALF: HALF},
            "result": {HALF: [HALF]},
        }
    ],
    "an Anthropic call": [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {HALF: 1}}],
        }
    ],
    "a Gemini call": [
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {HALF: HALF}}}]}
    ],
    "a Responses item": [{"type": "reasoning", "id": "r", "summary": [{HALF: HALF}]}],
}


@pytest.fixture
def client(memory: EpisodicMemory) -> Iterator[httpx.Client]:
    with rest_server.http_client(memory) as opened:
        yield opened


def _json(content: Any) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    return {"content": json.dumps(content).encode(), "headers": headers}


def _texts(value: Any) -> Iterator[str]:
    """All texts and keys of a JSON value, and of the JSON in its texts."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES)
def test_it_is_stored_and_read_back(client: httpx.Client, messages: list[dict[str, Any]]):
    body = WHO | {"messages": messages}
    sent = client.post("/sessions/r/messages", **_json(body))
    assert sent.status_code == 201, sent.text
    who = {"agentId": "hr", "userId": "ana"}
    read = client.get("/sessions/r", params=who)
    assert read.status_code == 200, read.text
    turns = [turn for each in read.json()["episodes"] for turn in each["messages"]]
    said = [turn["message"] for turn in turns]
    if "as_given" not in said[0]:
        assert said == messages
    assert any(HALF in text for text in _texts(said))
    for path, sent_body in (
        ("/episodes/recent", None),
        ("/turns/search", WHO | {"query": "half"}),
        ("/episodes/search", WHO | {"query": "half"}),
    ):
        answer = (
            client.get(path, params=who) if sent_body is None else client.post(path, json=sent_body)
        )
        assert answer.status_code == 200, (path, answer.text)
    assert client.get("/users/ana/export", params=who).status_code == 200


def test_a_key_of_the_metadata_breaks_no_answer(client: httpx.Client):
    body = WHO | {"sessionId": "r", "metadata": {HALF: {HALF: HALF}}, "messages": [HELLO]}
    sent = client.post("/episodes", **_json(body))
    assert sent.status_code == 201, sent.text
    who = {"agentId": "hr", "userId": "ana"}
    read = client.get("/sessions/r", params=who)
    assert read.json()["metadata"] == {HALF: {HALF: HALF}}
    assert client.get("/episodes/recent", params=who).status_code == 200
    assert client.post("/turns/search", json=WHO | {"query": "days"}).status_code == 200


@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES)
def test_the_remote_memory_stores_what_the_embedded_one_stores(
    memory: EpisodicMemory, messages: list[dict[str, Any]]
):
    with (
        rest_server.serving(memory) as url,
        EpisodicMemory.connect(url, api_key=rest_server.token(memory)) as remote,
    ):
        there, here = remote.scope(agent="hr", user="ana"), memory.scope(agent="hr", user="ana")
        there.add("far", messages)
        here.add("near", messages)
        far, near = there.session("far").turns, here.session("near").turns
        assert [turn.message for turn in far] == [turn.message for turn in near]
        asyncio.run(_add_awaited(remote, messages))
        assert len(here.session("awaited").turns) == len(near)


async def _add_awaited(remote: RemoteMemory, messages: list[dict[str, Any]]) -> None:
    awaited = AsyncRemoteMemory(remote)
    await awaited.scope(agent="hr", user="ana").add("awaited", messages)
    await awaited.close()


@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES)
def test_the_inspector_shows_a_replacement(memory: EpisodicMemory, messages: list[dict[str, Any]]):
    scope = memory.scope(agent="hr", user="ana")
    scope.add("r", messages)
    scope.add_fact("A fact.")
    memory.flush()
    scope.context(HALF, session_id="r")
    with inspector_pages.open_pages(memory) as pages:
        inspector_pages.sign_in(pages, memory)
        for path, more in (
            ("/replay", {"session": "r"}),
            ("/timeline", {}),
            ("/playground/result", {"query": "half"}),
        ):
            page = pages.get(inspector_pages.address(path, agent="hr", user="ana", **more))
            assert page.status_code == 200
    if "text" in str(messages):
        assert "half \ufffd" in page.text
