"""`/mcp` of the service over real HTTP: whose memory it is, who may call it, and its limits."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from octopus_memory import EpisodicMemory, InvalidSetting, StoreUnavailable
from octopus_memory.engine.memory import Memory
from octopus_memory.faces.exchange import MCP_PATH
from octopus_memory.faces.mcp.tools import TOOLS, Recent
from octopus_memory.settings import ServerSettings
from tests.support import rest_server
from tests.support.polling import wait_until

WHO = {"agent": "hr", "user": "ana"}
MARK = "a-secret-that-nobody-else-may-read"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def url(memory: EpisodicMemory) -> Iterator[str]:
    settings = ServerSettings(mcp_origins="https://chat.example.com, https://other.example.com")
    with rest_server.serving(memory, settings) as base:
        yield base + MCP_PATH


def post(
    url: str,
    token: str,
    message: Any = PING,
    who: dict[str, str] | None = None,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    sent = {"Accept": "application/json, text/event-stream"} | (headers or {})
    if token:
        sent["Authorization"] = f"Bearer {token}"
    return httpx.post(url, params=WHO if who is None else who, json=message, headers=sent)


def call(url: str, token: str, tool: str, who: dict[str, str] | None = None, **given: Any) -> Any:
    """The result of a tool."""
    params = {"name": tool, "arguments": given}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = post(url, token, message, who)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def problem(answer: httpx.Response) -> dict[str, Any]:
    """The problem in a JSON-RPC error, as the other routes of the service answer it."""
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert (body["jsonrpc"], body["id"]) == ("2.0", None)
    found: dict[str, Any] = body["error"]["data"]
    assert found["status"] == answer.status_code
    assert found["detail"] == body["error"]["message"]
    assert found["requestId"] == answer.headers["x-request-id"]
    return found


def test_the_credential_decides_the_tenant(memory: EpisodicMemory, url: str):
    acme, other = (rest_server.token(memory, tenant=tenant) for tenant in ("acme", "other"))
    said = [{"role": "user", "content": MARK}]
    stored = call(url, acme, "remember", messages=said, session_id="s")
    assert memory.scope(tenant="acme", agent="hr", user="ana").session("s").turns
    for name, arguments in (
        ("recall", {"query": MARK}),
        ("recent", {}),
        ("facts", {}),
        ("context", {"message": f"What of {MARK}?"}),
        ("read_session", {"session_id": "s"}),
        ("forget_episode", {"episode_id": stored["structuredContent"]["episode_id"]}),
        ("close_session", {"session_id": "s"}),
    ):
        assert MARK not in json.dumps(call(url, other, name, **arguments))
    # A tenant in the URL is nothing that anybody reads.
    got = call(url, other, "recent", who={**WHO, "tenant": "acme"})
    assert got["structuredContent"]["episodes"] == []
    assert len(memory.scope(tenant="acme", agent="hr", user="ana").recent()) == 1


def test_a_stranger_gets_nothing(memory: EpisodicMemory, url: str):
    """Whatever is asked for, with ids and names of another scope."""
    scope = memory.scope(tenant="acme", agent="hr", user="ana")
    stored = scope.store([("user", MARK)], session_id="s", summary=MARK)
    fact = scope.add_fact(MARK)
    before = (scope.session("s").turns, scope.facts(), scope.sessions().total_count)
    arguments: dict[str, dict[str, Any]] = {
        "context": {"message": MARK},
        "recall": {"query": MARK},
        "recent": {},
        "read_session": {"session_id": "s"},
        "facts": {},
        "remember": {"messages": [{"role": "user", "content": "x"}], "session_id": "s"},
        "close_session": {"session_id": "s"},
        "correct_fact": {"fact_id": str(fact.id), "text": "x"},
        "forget_fact": {"fact_id": str(fact.id)},
        "forget": {"about": MARK},
        "forget_episode": {"episode_id": str(stored.id)},
    }
    assert set(arguments) == set(TOOLS)
    asked = [("tools/call", {"name": n, "arguments": a}) for n, a in arguments.items()]
    asked += [
        ("resources/list", {}),
        ("resources/read", {"uri": "octopus://sessions/s"}),
        ("prompts/get", {"name": "context", "arguments": {"message": MARK[:-1]}}),
    ]
    key = rest_server.token
    own = {
        "another tenant's admin": (key(memory, tenant="other"), WHO),
        "another agent": (key(memory, "agent", tenant="acme", agents=["sales"]), {"user": "ana"}),
        "another user": (key(memory, "user", tenant="acme", user="ben"), {"agent": "hr"}),
        "another user's admin": (key(memory, tenant="acme", user="ben"), {"agent": "hr"}),
    }
    refused = {
        "the other agent": key(memory, "agent", tenant="acme", agents=["sales"]),
        "the other user": key(memory, "user", tenant="acme", user="ben"),
        "an auditor": key(memory, "auditor", tenant="acme"),
        "a forged key": "oct_0123456789abcdef_" + "x" * 43,
        "nobody": "",
    }
    for method, params in asked:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        for name, (token, who) in own.items():
            answer = post(url, token, message, who)
            assert answer.status_code == 200, name
            # The message itself is part of a prompt.
            assert MARK not in answer.text, (name, method)
        for name, token in refused.items():
            answer = post(url, token, message)
            assert answer.status_code in (401, 403), name
            assert MARK not in answer.text
    assert (scope.session("s").turns, scope.facts(), scope.sessions().total_count) == before


@pytest.mark.parametrize(
    ("role", "named", "who", "listed"),
    [
        ("admin", {}, WHO, set(TOOLS)),
        ("agent", {"agents": ["hr"]}, {"user": "ana"}, set(TOOLS) - {"forget", "forget_episode"}),
        ("agent", {"agents": ["hr"], "user": "ana"}, {}, set(TOOLS) - {"forget", "forget_episode"}),
        ("user", {"user": "ana"}, {"agent": "hr"}, set(TOOLS) - {"remember", "close_session"}),
        ("admin", {"agents": ["hr"], "user": "ana"}, {}, set(TOOLS)),
    ],
)
def test_a_role_gets_the_tools_that_it_may_call(
    memory: EpisodicMemory, url: str, role: str, named: dict, who: dict, listed: set[str]
):
    """What the credential is restricted to need not be named again."""
    token = rest_server.token(memory, role, **named)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    tools = post(url, token, message, who).json()["result"]["tools"]
    assert {tool["name"] for tool in tools} == listed
    stored = memory.scope(agent="hr", user="ana").store([("user", "Hello.")])
    given: dict[str, dict[str, Any]] = {
        "remember": {"messages": [{"role": "user", "content": "x"}], "session_id": "new"},
        "close_session": {"session_id": stored.session_id},
        "forget_episode": {"episode_id": str(stored.id)},
    }
    for name, arguments in given.items():
        assert call(url, token, name, who, **arguments)["isError"] is (name not in listed)


def test_an_auditor_reads_no_conversation(memory: EpisodicMemory, url: str):
    answer = post(url, rest_server.token(memory, "auditor"))
    assert answer.status_code == 403
    assert problem(answer)["detail"] == "the role auditor may not do this"


def test_a_restricted_key_stays_in_its_scope(memory: EpisodicMemory, url: str):
    token = rest_server.token(memory, "agent", agents=["hr"], user="ana")
    for who in ({"agent": "sales"}, {"user": "ben"}, {"agent": "sales", "user": "ben"}):
        answer = post(url, token, who=who)
        assert answer.status_code == 403
        assert problem(answer)["detail"] == "the credential is for another agent or user"


def test_agent_and_user_are_named_in_the_url_or_in_headers(memory: EpisodicMemory, url: str):
    token = rest_server.token(memory)
    said = {"messages": [{"role": "user", "content": "Hello."}]}
    params = {"name": "remember", "arguments": said}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"X-Octopus-Agent": "hr", "x-octopus-user": "ben", "X-Octopus-Session": "a talk"}
    assert post(url, token, message, {}, headers).status_code == 200
    assert memory.scope(agent="hr", user="ben").session("a talk").turns
    who = {"agent": "hr & co", "user": "Zoë/1", "session": "é"}
    assert post(url, token, message, who).status_code == 200
    assert memory.scope(agent="hr & co", user="Zoë/1").session("é").turns
    # The same in both is no contradiction.
    assert post(url, token, message, {"user": "ben"}, headers).status_code == 200


@pytest.mark.parametrize(
    ("who", "headers", "words"),
    [
        ({}, {}, "agent, user: must be given by the client's configuration, because the cred"),
        ({"agent": "hr"}, {}, "user: must be given by the client's configuration, because"),
        ({"user": "ana"}, {}, "agent: must be given by the client's configuration, because"),
        ({"agent": "", "user": "ana"}, {}, "agent: must have 1 to 256 characters"),
        ({"agent": "hr", "user": "x" * 257}, {}, "user: must have 1 to 256 characters"),
        ({**WHO, "session": "x" * 257}, {}, "session: must have 1 to 256 characters"),
        (WHO, {"X-Octopus-User": "ben"}, "user: must be given once: in the URL or in a header"),
        ({"agent": "hr"}, {"X-Octopus-User": "Zo\xeb"}, "user: must be ASCII in a header: write"),
    ],
)
def test_a_request_for_nobody_says_how_to_name_them(
    memory: EpisodicMemory, url: str, who: dict, headers: dict, words: str
):
    answer = httpx.post(
        url,
        params=who,
        json=PING,
        headers=[
            ("Authorization", f"Bearer {rest_server.token(memory)}"),
            *((name, value.encode("latin-1")) for name, value in headers.items()),
        ],
    )
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == -32602
    found = problem(answer)
    assert found["detail"].startswith(words)
    assert found["errors"]
    if not who:
        assert "add ?agent=…&user=… to the URL, or send X-Octopus-Agent" in found["detail"]


def test_two_values_in_the_url_are_refused(memory: EpisodicMemory, url: str):
    headers = {"Authorization": f"Bearer {rest_server.token(memory)}"}
    answer = httpx.post(f"{url}?agent=hr&user=ana&user=ben", json=PING, headers=headers)
    assert answer.status_code == 422


@pytest.mark.parametrize("token", ["", "oct_0123456789abcdef_" + "x" * 43, "nonsense"])
def test_a_wrong_credential_is_a_json_rpc_error(url: str, token: str):
    answer = post(url, token)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == 401
    assert problem(answer)["type"] == "urn:octopus:problem:unauthorized"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_there_is_no_stream_and_no_session_to_end(memory: EpisodicMemory, url: str, method: str):
    headers = {"Authorization": f"Bearer {rest_server.token(memory)}"}
    answer = httpx.request(method, url, params=WHO, headers=headers)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert httpx.request(method, url, params=WHO).status_code == 401


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        ("https://chat.example.com", "memory.example.com", 200),
        ("https://other.example.com", "memory.example.com", 200),
        ("https://evil.example.com", "memory.example.com", 403),
        ("http://localhost:8765", "localhost:8765", 200),
        # A page whose name was made to lead to this machine (DNS rebinding).
        ("http://evil.example.com:8765", "evil.example.com:8765", 403),
        ("http://localhost:3000", "localhost:8765", 403),
        ("null", "localhost:8765", 403),
        ("https://chat.example.com.evil.example.com", "localhost", 403),
    ],
)
def test_only_pages_that_are_allowed_may_call_it(
    memory: EpisodicMemory, url: str, origin: str, host: str, status: int
):
    headers = {"Origin": origin, "Host": host}
    answer = post(url, rest_server.token(memory), headers=headers)
    assert answer.status_code == status
    if status == 403:
        assert "mcp_origins" in problem(answer)["detail"]


def test_a_browser_is_told_which_pages_may_call_it(memory: EpisodicMemory, url: str):
    asking = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,mcp-session-id,x-octopus-user",
    }
    allowed = {"Origin": "https://chat.example.com"}
    answer = httpx.options(url, headers=asking | allowed)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == allowed["Origin"]
    assert "x-octopus-user" in answer.headers["access-control-allow-headers"]
    answer = httpx.options(url, headers=asking | {"Origin": "https://evil.example.com"})
    assert answer.status_code == 400
    assert "access-control-allow-origin" not in answer.headers
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    answer = post(url, rest_server.token(memory), begin, headers=allowed)
    assert answer.headers["access-control-allow-origin"] == allowed["Origin"]
    assert "Mcp-Session-Id" in answer.headers["access-control-expose-headers"]
    assert answer.headers["mcp-session-id"]
    # No other route is for pages.
    other = url.replace(MCP_PATH, "/api/octopus/episodes")
    assert httpx.options(other, headers=asking | allowed).status_code == 401


def test_in_development_mode_pages_of_other_sites_are_refused(memory: EpisodicMemory):
    with rest_server.serving(memory, development=True) as base:
        url = base + MCP_PATH
        assert post(url, "").status_code == 200
        assert post(url, "", headers={"Origin": "http://evil.example.com"}).status_code == 403
        assert post(url, "", headers={"Host": "evil.example.com"}).status_code == 403
        assert post(url, "", who={}).status_code == 422


def test_an_origin_is_a_scheme_and_a_host():
    for wrong in ("chat.example.com", "https://chat.example.com/", "https://*.example.com", "*"):
        with pytest.raises(InvalidSetting, match="must be origins"):
            ServerSettings(mcp_origins=f"https://ok.example.com,{wrong}")
    assert ServerSettings().allowed_mcp_origins == ()


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json, text/event-stream", 200),
        ("application/json;q=0.5", 200),
        ("*/*", 200),
        ("text/event-stream", 406),
        ("text/html", 406),
    ],
)
def test_the_answer_is_json(memory: EpisodicMemory, url: str, accept: str, status: int):
    answer = post(url, rest_server.token(memory), headers={"Accept": accept})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"


MALFORMED: dict[str, tuple[bytes, int, int]] = {
    "no JSON": (b"ping", 400, -32700),
    "half of it": (b'{"jsonrpc": "2.0", "id": 1', 400, -32700),
    "invalid UTF-8": (b'{"jsonrpc": "\xff"}', 400, -32700),
    "a number of a million digits": (b"1" * 1_000_000, 400, -32700),
    "nothing": (b"", 400, -32600),
    "a text": (b'"ping"', 400, -32600),
    "an object": (b"{}", 400, -32600),
    "an empty batch": (b"[]", 400, -32600),
    "deep nesting": (b"[" * 100_000 + b"]" * 100_000, 422, -32602),
    "a million values": (json.dumps([0] * 1_000_000).encode(), 413, 413),
    "too many bytes": (b'"' + b"x" * 17_000_000 + b'"', 413, 413),
}


@pytest.mark.parametrize(("body", "status", "code"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_body_is_a_json_rpc_error(
    memory: EpisodicMemory, url: str, body: bytes, status: int, code: int
):
    answer = httpx.post(
        url,
        params=WHO,
        content=body,
        headers={
            "Authorization": f"Bearer {rest_server.token(memory)}",
            "Content-Type": "application/json",
        },
    )
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code
    assert len(answer.content) < 2_000


def test_a_body_must_say_that_it_is_json(memory: EpisodicMemory, url: str):
    headers = {"Authorization": f"Bearer {rest_server.token(memory)}", "Content-Type": "text/plain"}
    answer = httpx.post(url, params=WHO, content=json.dumps(PING), headers=headers)
    assert answer.status_code == 415
    problem(answer)


def test_the_rate_is_limited_as_everywhere(memory: EpisodicMemory):
    with rest_server.serving(memory, ServerSettings(requests_per_minute=2)) as base:
        token = rest_server.token(memory)
        codes = [post(base + MCP_PATH, token).status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        answer = post(base + MCP_PATH, token)
        assert int(answer.headers["retry-after"]) > 0
        problem(answer)


def test_a_long_answer_is_compressed(memory: EpisodicMemory, url: str):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = post(url, rest_server.token(memory), message)
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json()["result"]["tools"]


def test_no_word_and_no_name_is_in_the_log(memory: EpisodicMemory, url: str, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    who = {"agent": "hr", "user": MARK, "session": f"session of {MARK}"}
    token = rest_server.token(memory)
    said = [{"role": "user", "content": MARK}]
    call(url, token, "remember", who, messages=said)
    call(url, token, "recall", who, query=MARK)
    post(url, token, {"jsonrpc": "2.0", "id": MARK, "method": MARK}, who)
    post(url, "wrong", PING, who)

    def fail(*_: object, **__: object):
        raise RuntimeError(MARK)

    monkeypatch.setattr(Recent, "run", fail)
    assert call(url, token, "recent", who)["isError"]
    monkeypatch.setattr(Memory, "scope", fail)
    answer = post(url, token, PING, who)
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == -32603

    def logged() -> list[dict[str, Any]]:
        records = [each for each in caplog.records if each.name == "octopus_memory.access"]
        return [json.loads(each.getMessage()) for each in records]

    # The service logs a request after its answer.
    assert wait_until(lambda: len(logged()) == 6)
    lines = logged()
    ours = [each for each in caplog.records if each.name.startswith("octopus_memory")]
    assert [line["status"] for line in lines] == [200, 200, 200, 401, 200, 500]
    assert {line["route"] for line in lines if line["status"] != 401} == {MCP_PATH}
    assert MARK not in "".join(map(logging.Formatter().format, ours))


def test_a_database_that_does_not_answer_is_told(memory: EpisodicMemory, url: str, monkeypatch):
    token = rest_server.token(memory)
    assert post(url, token).status_code == 200

    def fail(*_: object, **__: object):
        raise StoreUnavailable("cannot reach postgresql://ana:secret@db")

    monkeypatch.setattr(Recent, "run", fail)
    result = call(url, token, "recent")
    assert result["isError"]
    assert "secret" not in json.dumps(result)
    monkeypatch.setattr(Memory, "scope", fail)
    answer = post(url, token)
    assert answer.status_code == 503
    assert "secret" not in answer.text
    assert answer.headers["retry-after"] == "1"


def test_it_is_counted_under_its_own_route(memory: EpisodicMemory, url: str):
    post(url, rest_server.token(memory))
    metrics = httpx.get(url.removesuffix(MCP_PATH) + "/metrics").text
    assert 'route="/mcp"' in metrics


def test_reads_are_in_the_audit_log_if_they_are_audited(
    memory: EpisodicMemory, url: str, monkeypatch
):
    monkeypatch.setattr(memory.runtime, "audit_reads", True)
    token = rest_server.token(memory)
    call(url, token, "recall", query="tea")
    [entry] = [each for each in memory.tenant().audit() if each.action == "recall"]
    assert entry.actor.startswith("key:")
