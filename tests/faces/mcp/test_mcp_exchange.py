"""Streamable HTTP without a server: the rules of each revision, and malformed messages."""

from __future__ import annotations

import base64
import json
from typing import Any
from uuid import UUID

import pytest

from octopus_memory import MemoryScope
from octopus_memory.domain.identity import AccessRole
from octopus_memory.faces.exchange import Exchange, Reply
from octopus_memory.faces.mcp import answer_mcp
from octopus_memory.faces.mcp.http import MOST_IN_BATCH
from octopus_memory.faces.mcp.protocol import CAPABILITIES_KEY, MODERN, VERSION_KEY, VERSIONS

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
NOTE = {"jsonrpc": "2.0", "method": "notifications/initialized"}
HELLO = {"role": "user", "content": "Hello, I am planning a trip to Lisbon."}
SESSION = "f2d3a5ef-7f24-4ca9-b651-d16669c6c854"


def post(
    scope: MemoryScope,
    message: Any,
    *headers: tuple[str, str],
    session_id: str | None = None,
    role: AccessRole = AccessRole.ADMIN,
) -> Reply:
    reply = answer_mcp(
        Exchange(scope=scope, role=role, session_id=session_id, headers=headers, message=message)
    )
    json.dumps(reply.body)
    return reply


def request(method: str, **params: Any) -> dict:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def modern(method: str, **params: Any) -> dict:
    return request(method, **params, _meta={VERSION_KEY: MODERN[-1], CAPABILITIES_KEY: {}})


def mirrored(method: str, name: str | None = None) -> list[tuple[str, str]]:
    """The headers that a request of the newest revision has."""
    headers = [("mcp-protocol-version", MODERN[-1]), ("mcp-method", method)]
    return headers if name is None else [*headers, ("mcp-name", name)]


def called(tool: str, **arguments: Any) -> dict:
    return request("tools/call", name=tool, arguments=arguments)


def code(reply: Reply) -> int:
    assert isinstance(reply.body, dict)
    found: int = reply.body["error"]["code"]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_initialize_names_a_session_that_nothing_keeps(scope: MemoryScope, version: str):
    reply = post(scope, request("initialize", protocolVersion=version, capabilities={}))
    assert reply.status == 200
    assert reply.body["result"]["protocolVersion"] == version
    session = reply.headers["Mcp-Session-Id"]
    UUID(session)
    headers = [("mcp-session-id", session), ("mcp-protocol-version", version)]
    assert post(scope, NOTE, *headers) == Reply(status=202)
    for _ in range(2):
        stored = post(scope, called("remember", messages=[HELLO]), *headers)
        assert stored.body["result"]["structuredContent"]["session_id"] == session
        # The model need not be told, because the client sends the id again.
        assert len(stored.body["result"]["content"]) == 1
    closed = post(scope, called("close_session"), *headers)
    assert closed.body["result"]["structuredContent"]["session_id"] == session
    assert len(scope.session(session).turns) == 2


def test_a_configured_session_comes_first(scope: MemoryScope):
    begun = post(scope, request("initialize", protocolVersion=VERSIONS[-1]), session_id="mine")
    assert begun.headers == {}
    headers = [("mcp-session-id", SESSION)]
    stored = post(scope, called("remember", messages=[HELLO]), *headers, session_id="mine")
    assert stored.body["result"]["structuredContent"]["session_id"] == "mine"
    message = modern("tools/call", name="close_session")
    closed = post(scope, message, *mirrored("tools/call", "close_session"), session_id="mine")
    assert closed.body["result"]["structuredContent"]["session_id"] == "mine"


@pytest.mark.parametrize("session", ["", "mine", SESSION.upper(), SESSION + "\n"])
def test_a_session_id_that_was_not_given_is_not_found(scope: MemoryScope, session: str):
    reply = post(scope, PING, ("mcp-session-id", session))
    assert (reply.status, code(reply)) == (404, 404)


def test_without_a_session_each_call_says_which_one_it_was(scope: MemoryScope):
    message = modern("tools/call", name="remember", arguments={"messages": [HELLO]})
    first = post(scope, message, *mirrored("tools/call", "remember")).body["result"]
    session = first["structuredContent"]["session_id"]
    assert session in first["content"][1]["text"]
    message["params"]["arguments"]["session_id"] = session
    second = post(scope, message, *mirrored("tools/call", "remember")).body["result"]
    assert second["structuredContent"]["episode_id"] == first["structuredContent"]["episode_id"]
    assert len(second["content"]) == 1


def test_each_injection_is_entered_in_the_ledger(scope: MemoryScope):
    scope.store([("user", "I am allergic to peanuts."), ("assistant", "Noted.")])
    question = "May I eat peanuts, with my allergy?"
    asked = modern("tools/call", name="context", arguments={"message": question})
    block = post(scope, asked, *mirrored("tools/call", "context")).body["result"]
    [entry] = scope.injections(block["structuredContent"]["session_id"])
    assert entry.shown
    post(scope, called("context", message=question), ("mcp-session-id", SESSION))
    prompt = request("prompts/get", name="context", arguments={"message": question})
    post(scope, prompt, ("mcp-session-id", SESSION))
    assert len(scope.injections(SESSION)) == 2
    post(scope, prompt, session_id="mine")
    assert len(scope.injections("mine")) == 1


NOT_REQUESTS: dict[str, Any] = {
    "nothing": None,
    "a text": "ping",
    "a number": 3,
    "an empty object": {},
    "no version": {"id": 1, "method": "ping"},
    "an old version": {"jsonrpc": "1.0", "id": 1, "method": "ping"},
    "a null id": {"jsonrpc": "2.0", "id": None, "method": "ping"},
    "a true id": {"jsonrpc": "2.0", "id": True, "method": "ping"},
    "a fraction as id": {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
    "a list as id": {"jsonrpc": "2.0", "id": [1], "method": "ping"},
    "a method of another type": {"jsonrpc": "2.0", "id": 1, "method": ["ping"]},
    "neither result nor error": {"jsonrpc": "2.0", "id": 1},
}


@pytest.mark.parametrize("message", NOT_REQUESTS.values(), ids=NOT_REQUESTS)
@pytest.mark.parametrize("headers", [(), (("mcp-protocol-version", MODERN[-1]),)], ids=["old", ""])
def test_what_is_no_message_is_refused(scope: MemoryScope, message: Any, headers: tuple):
    reply = post(scope, message, *headers)
    assert (reply.status, code(reply)) == (400, -32600)


def test_a_response_is_taken_and_ignored_by_old_revisions_alone(scope: MemoryScope):
    response = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert post(scope, response) == Reply(status=202)
    assert post(scope, response, ("mcp-protocol-version", MODERN[-1])).status == 400


@pytest.mark.parametrize("version", [*VERSIONS, *MODERN])
def test_a_notification_gets_no_body(scope: MemoryScope, version: str):
    assert post(scope, NOTE, ("mcp-protocol-version", version)) == Reply(status=202)


@pytest.mark.parametrize("version", ["1900-01-01", "", "2026-07-28 ", "x" * 10_000])
def test_an_unknown_revision_is_refused_with_those_that_are_known(scope: MemoryScope, version: str):
    reply = post(scope, PING, ("mcp-protocol-version", version))
    assert (reply.status, code(reply)) == (400, -32022)
    assert reply.body["error"]["data"]["supported"] == [*MODERN, *reversed(VERSIONS)]
    assert len(json.dumps(reply.body)) < 1_000


def test_an_error_of_an_old_revision_is_a_response(scope: MemoryScope):
    for message, expected in ((request("dream"), -32601), (request("prompts/get"), -32602)):
        reply = post(scope, message)
        assert (reply.status, code(reply), reply.body["id"]) == (200, expected, 7)


def test_an_error_of_the_new_revision_has_a_status(scope: MemoryScope):
    unknown = post(scope, modern("dream"), *mirrored("dream"))
    assert (unknown.status, code(unknown)) == (404, -32601)
    listening = post(scope, modern("subscriptions/listen"), *mirrored("subscriptions/listen"))
    assert (listening.status, code(listening)) == (404, -32601)
    missing = post(scope, modern("tools/call"), *mirrored("tools/call"))
    assert (missing.status, code(missing)) == (400, -32602)


def test_the_new_revision_needs_no_handshake(scope: MemoryScope):
    reply = post(scope, modern("server/discover"), *mirrored("server/discover"))
    assert (reply.status, reply.headers) == (200, {})
    assert reply.body["result"]["supportedVersions"] == list(MODERN)
    # An old id is ignored, whatever it is.
    listed = post(scope, modern("tools/list"), *mirrored("tools/list"), ("mcp-session-id", "old"))
    assert listed.status == 200
    assert listed.body["result"]["resultType"] == "complete"


URI = "octopus://sessions/über"
ENCODED = f"=?base64?{base64.b64encode(URI.encode()).decode()}?="
MISMATCHES: dict[str, tuple[dict, list[tuple[str, str]], int]] = {
    "no method": (modern("tools/list"), mirrored("tools/list")[:1], -32020),
    "another method": (modern("tools/list"), mirrored("tools/call"), -32020),
    "a method in capitals": (modern("tools/list"), mirrored("TOOLS/LIST"), -32020),
    "no version": (modern("tools/list"), mirrored("tools/list")[1:], -32020),
    "an old version": (
        modern("tools/list"),
        [("mcp-protocol-version", "2025-06-18"), ("mcp-method", "tools/list")],
        -32020,
    ),
    "two versions": (
        modern("tools/list"),
        [*mirrored("tools/list"), ("mcp-protocol-version", MODERN[-1])],
        -32020,
    ),
    "two names": (
        modern("tools/call", name="recent"),
        [*mirrored("tools/call", "recent"), ("mcp-name", "forget_episode")],
        -32020,
    ),
    "no name": (modern("tools/call", name="recent"), mirrored("tools/call"), -32020),
    "another name": (
        modern("tools/call", name="forget_episode"),
        mirrored("tools/call", "recent"),
        -32020,
    ),
    "another prompt": (modern("prompts/get", name="context"), mirrored("prompts/get", "x"), -32020),
    "another resource": (
        modern("resources/read", uri=URI),
        mirrored("resources/read", "octopus://sessions/x"),
        -32020,
    ),
    "a malformed name": (
        modern("resources/read", uri=URI),
        mirrored("resources/read", "=?base64?!!?="),
        -32020,
    ),
    "no revision in the body": (request("tools/list"), mirrored("tools/list"), -32602),
    "no capabilities": (
        request("tools/list", _meta={VERSION_KEY: MODERN[-1]}),
        mirrored("tools/list"),
        -32602,
    ),
    "an unknown revision": (
        request("tools/list", _meta={VERSION_KEY: "1900-01-01", CAPABILITIES_KEY: {}}),
        [("mcp-protocol-version", "1900-01-01"), ("mcp-method", "tools/list")],
        -32022,
    ),
    "params of another type": (
        {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": [1]},
        mirrored("tools/list"),
        -32602,
    ),
}


@pytest.mark.parametrize(("message", "headers", "expected"), MISMATCHES.values(), ids=MISMATCHES)
def test_headers_must_repeat_the_body(
    scope: MemoryScope, message: dict, headers: list[tuple[str, str]], expected: int
):
    reply = post(scope, message, *headers)
    assert (reply.status, code(reply), reply.body["id"]) == (400, expected, 7)


def test_a_name_may_be_encoded(scope: MemoryScope):
    scope.add("über", ("user", "Hello."))
    for name in (ENCODED, URI):
        reply = post(scope, modern("resources/read", uri=URI), *mirrored("resources/read", name))
        assert reply.status == 200
    assert "Hello." in reply.body["result"]["contents"][0]["text"]


def test_batches_are_for_one_old_revision(scope: MemoryScope):
    batch = [PING, NOTE, called("recent") | {"id": "b"}]
    for headers in ((), (("mcp-protocol-version", "2025-03-26"),)):
        reply = post(scope, batch, *headers)
        assert reply.status == 200
        assert [response["id"] for response in reply.body] == [1, "b"]
    assert post(scope, [NOTE]) == Reply(status=202)
    for version in ("2025-06-18", "2025-11-25", MODERN[-1]):
        refused = post(scope, batch, ("mcp-protocol-version", version))
        assert (refused.status, code(refused)) == (400, -32600)


@pytest.mark.parametrize("size", [0, MOST_IN_BATCH + 1])
def test_a_batch_has_a_size(scope: MemoryScope, size: int):
    refused = post(scope, [PING] * size)
    assert (refused.status, code(refused)) == (400, -32600)


def test_in_a_batch_each_message_is_checked(scope: MemoryScope):
    alone = [request("initialize"), modern("tools/call", name="recent"), {"id": 4}, "ping", PING]
    reply = post(scope, alone)
    codes = [response.get("error", {}).get("code") for response in reply.body]
    assert codes == [-32600, -32600, -32600, -32600, None]
    assert [response["id"] for response in reply.body] == [7, 7, 4, None, 1]


@pytest.mark.parametrize("role", [AccessRole.USER, AccessRole.AGENT])
def test_the_role_decides_on_every_call(scope: MemoryScope, role: AccessRole):
    stored = scope.store([("user", "Hello.")])
    calls = {
        AccessRole.USER: called("remember", messages=[HELLO]),
        AccessRole.AGENT: called("forget_episode", episode_id=str(stored.id)),
    }
    for message in (calls[role], [calls[role]]):
        body = post(scope, message, role=role).body
        result = (body[0] if isinstance(body, list) else body)["result"]
        assert result["isError"]
        assert f"the role {role}" in result["content"][0]["text"]
    assert len(scope.recent()) == 1
