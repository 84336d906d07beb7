"""The messages of the Model Context Protocol, without a transport."""

from __future__ import annotations

import io
import json
import threading

import pytest

from octopus_memory import MemoryScope
from octopus_memory.faces.mcp.protocol import VERSIONS, answer
from octopus_memory.faces.mcp.server import Connection
from octopus_memory.faces.mcp.tools import TOOLS, Recent, Remember, ToolState


@pytest.fixture
def state(scope: MemoryScope) -> ToolState:
    return ToolState(scope)


def ask(state: ToolState, method: str, params: object = None) -> dict:
    message = {"jsonrpc": "2.0", "id": 7, "method": method}
    response = answer(state, message | ({} if params is None else {"params": params}))
    assert response is not None
    assert (response["jsonrpc"], response["id"]) == ("2.0", 7)
    return response


@pytest.mark.parametrize("version", VERSIONS)
def test_a_known_revision_is_taken(state: ToolState, version: str):
    result = ask(state, "initialize", {"protocolVersion": version})["result"]
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {"listChanged": False}}


@pytest.mark.parametrize("version", ["1999-01-01", None, ["2025-06-18"]])
def test_for_an_unknown_revision_the_newest_is_offered(state: ToolState, version: object):
    result = ask(state, "initialize", {"protocolVersion": version})["result"]
    assert result["protocolVersion"] == VERSIONS[-1]


def test_a_ping_is_answered(state: ToolState):
    assert ask(state, "ping")["result"] == {}


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("resources/list", {}, -32601),
        ("server/discover", None, -32601),
        (["ping"], {}, -32601),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": 3}, -32602),
        ("tools/call", {"name": "recent", "arguments": [1]}, -32602),
        ("tools/list", ["recent"], -32600),
    ],
)
def test_invalid_messages_are_refused(state: ToolState, method, params, code):
    assert ask(state, method, params)["error"]["code"] == code


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "recent"}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        [],
        "ping",
        None,
    ],
)
def test_messages_that_are_no_requests_get_no_response(state: ToolState, message):
    assert answer(state, message) is None


def test_a_list_of_tools_is_json(state: ToolState):
    listed = json.loads(json.dumps(ask(state, "tools/list")))["result"]["tools"]
    assert [tool["name"] for tool in listed] == list(TOOLS)
    assert listed[0]["annotations"] == {"readOnlyHint": True, "openWorldHint": False}


def test_a_call_that_waits_can_be_cancelled(state: ToolState, monkeypatch):
    running, go_on, ran = threading.Event(), threading.Event(), []

    def slow(tool: Remember, _: ToolState):
        ran.append(tool.session_id)
        running.set()
        assert go_on.wait(20)
        raise RuntimeError

    def lines():
        for number in range(2):
            said = {"messages": [{"role": "user", "content": "Hi."}], "session_id": str(number)}
            params = {"name": "remember", "arguments": said}
            yield json.dumps({"id": number, "method": "tools/call", "params": params}).encode()
        assert running.wait(20)
        for number in (0, 1, 5, [1]):
            cancel = {"method": "notifications/cancelled", "params": {"requestId": number}}
            yield json.dumps(cancel).encode()
        go_on.set()
        yield b'{"id": [], "method": "tools/call", "params": {"name": "recent"}}'

    monkeypatch.setattr(Remember, "run", slow)
    monkeypatch.setattr(Recent, "run", lambda *_: pytest.fail("never called"))
    sink, ended = io.BytesIO(), threading.Event()
    with Connection(state, sink, ended) as connection:
        connection.read(lines())
    assert ended.is_set()
    assert ran == ["0"]
    assert [json.loads(line)["id"] for line in sink.getvalue().splitlines()] == [0]
