"""The service over real HTTP: requests that are made to keep it from answering others."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.faces.rest.routing import PREFIX
from tests.support import rest_server
from tests.support.rest_server import HELLO, WHO

JSON = {"Content-Type": "application/json"}
MARKER = "mark-of-the-sender"
MOST_ERRORS = 20
LONGEST_ANSWER = 16_000
"""Bytes: an answer to a body that is refused does not grow with the body."""


@pytest.fixture
def client(memory: EpisodicMemory) -> Iterator[httpx.Client]:
    with rest_server.http_client(memory) as opened:
        yield opened


def _keys(count: int, value: Any = MARKER) -> dict[str, Any]:
    return {f"k{number}": value for number in range(count)}


REFUSED: dict[str, tuple[str, Any]] = {
    "unknown keys": ("/episodes/search", lambda: _keys(200_000)),
    "a thousand unknown keys": ("/episodes/search", lambda: _keys(1_000)),
    "unknown keys inside": (
        "/episodes",
        lambda: WHO | {"messages": [HELLO], "close": _keys(50_000)},
    ),
    "wrong items": ("/sessions/s/messages", WHO | {"messages": [MARKER] * 170_000}),
    "ten thousand wrong items": ("/sessions/s/messages", WHO | {"messages": [MARKER] * 10_000}),
    "wrong times": ("/sessions/s/messages", WHO | {"messages": [HELLO], "at": [MARKER] * 100_000}),
    "wrong tokens": (
        "/sessions/s/messages",
        WHO | {"messages": [HELLO], "tokens": [MARKER] * 100_000},
    ),
    "wrong facts": (
        "/episodes",
        WHO | {"messages": [HELLO], "close": {"keyFacts": [[MARKER]] * 100_000}},
    ),
    "wrong history": ("/context", WHO | {"message": "x", "history": [MARKER] * 9_000}),
    "a key of a megabyte": ("/episodes/search", {"x" * 1_000_000: MARKER}),
    "a role of a megabyte": (
        "/sessions/s/messages",
        WHO | {"messages": [{"role": MARKER * 60_000, "content": "x"}]},
    ),
    "a million values": ("/episodes", WHO | {"metadata": {"of": [0] * 1_000_000}}),
    "a million objects": ("/episodes", WHO | {"metadata": {"of": [[{}] * 1_000] * 1_000}}),
    "unknown keys beside a query": ("/users/ana/facts?agentId=hr", lambda: _keys(200_000)),
    "deep nesting": ("/episodes", b'{"metadata": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}"),
    "not to be finished": ("/episodes/search", b'{"a": [' + b"0," * 5_000_000),
    "text that looks like much": (
        "/episodes/search",
        WHO | {"query": "x", "no such": ',[{:"' * 1_000_000},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("path", "body"), REFUSED.values(), ids=REFUSED)
def test_a_body_that_is_refused_has_a_short_answer(client: httpx.Client, path: str, body: Any):
    body = body() if callable(body) else body
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(path, content=content, headers=JSON)
    assert answer.status_code in (400, 413, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < LONGEST_ANSWER
    assert MARKER * 30 not in answer.text
    problem = answer.json()
    assert 1 <= len(problem["errors"]) <= MOST_ERRORS


@pytest.mark.parametrize("value", [MARKER, {}], ids=["wrong", "unknown"])
def test_settings_that_are_refused_have_a_short_answer(client: httpx.Client, value: Any):
    answer = client.put("/agents/hr/memory-config", json=_keys(100_000, value))
    assert answer.status_code in (413, 422)
    assert len(answer.content) < LONGEST_ANSWER


def test_a_body_and_a_query_are_told_of_together(client: httpx.Client):
    answer = client.post("/users/ana/facts", params={"agentId": "x" * 300}, json={"no such": 1})
    assert answer.status_code == 422
    fields = [each["field"] for each in answer.json()["errors"]]
    assert {"query.agentId", "body.no such"} <= set(fields)


def test_errors_beyond_the_listed_ones_are_counted(client: httpx.Client):
    answer = client.post("/episodes/search", json={"query": "x"} | WHO | _keys(25))
    assert answer.status_code == 422
    problem = answer.json()
    assert len(problem["errors"]) == MOST_ERRORS
    assert "25 problems" in problem["detail"]


@pytest.mark.slow
def test_a_large_body_that_is_right_is_taken(client: httpx.Client):
    """Ten thousand messages, with as much of punctuation as there is in a list of words."""
    messages = [{"role": "user", "content": '"[{,:}]" ' * 20} for _ in range(10_000)]
    answer = client.post("/sessions/s/messages", json=WHO | {"messages": messages}, timeout=120)
    assert answer.status_code == 201
    assert len(answer.json()["turns"]) == 10_000


def test_others_are_answered_while_a_body_is_read(
    memory: EpisodicMemory, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
):
    """Reading it is held up until another tenant has been answered."""
    reading, answered, was_answered = threading.Event(), threading.Event(), []
    loads = json.loads

    def held_up(content: Any, *given: Any, **options: Any) -> Any:
        if MARKER in str(content):
            reading.set()
            was_answered.append(answered.wait(10))
        return loads(content, *given, **options)

    def attack() -> None:
        client.post("/episodes/search", json={"query": MARKER, "no such": 1})

    headers = {"Authorization": f"Bearer {rest_server.token(memory, tenant='other')}"}
    other = httpx.Client(base_url=client.base_url, headers=headers, timeout=30)
    assert other.get("/episodes").status_code == 200
    monkeypatch.setattr(json, "loads", held_up)
    attacker = threading.Thread(target=attack)
    attacker.start()
    assert reading.wait(10)
    assert other.get("/episodes").status_code == 200
    answered.set()
    attacker.join()
    other.close()
    assert was_answered == [True]


@pytest.mark.parametrize("path", ["/episodes/search", "/sessions/s/messages", "/holds"])
@pytest.mark.parametrize(
    ("content", "place"),
    [
        # From Python 3.13 on the comma is named, before it what stands behind it.
        (b'{"query": "x",}', f"line 1, column {14 if sys.version_info >= (3, 13) else 15}"),
        (b'{"query": }', "line 1, column 11"),
        (b"{'query': 'x'}", "line 1, column 2"),
        (b'{"a": 1,\n "b" 2}', "line 2, column 6"),
    ],
)
def test_malformed_json_is_told_where_it_fails(
    client: httpx.Client, path: str, content: bytes, place: str
):
    answer = client.post(path, content=content, headers=JSON)
    assert answer.status_code == 400
    problem = answer.json()
    assert problem["detail"] == f"body: is not valid JSON at {place}"
    assert problem["errors"] == [
        {"field": "body", "problem": f"is not valid JSON at {place}"},
    ]


@pytest.mark.parametrize("content", ['{"query": "\ud800"}', '"x"'], ids=["surrogate", "UTF-16"])
def test_a_body_that_is_not_utf_8_is_refused(client: httpx.Client, content: str):
    coding = "utf-16" if content == '"x"' else "utf-8"
    sent = content.encode(coding, "surrogatepass")
    answer = client.post("/episodes/search", content=sent, headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["detail"] == "body: is not UTF-8"


@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/x-www-form-urlencoded"])
def test_json_that_is_not_said_to_be_json(client: httpx.Client, kind: str | None):
    headers = {} if kind is None else {"Content-Type": kind}
    content = json.dumps(WHO | {"query": "x"}).encode()
    answer = client.post("/episodes/search", content=content, headers=headers)
    assert answer.status_code == 415
    problem = answer.json()
    assert problem["type"] == "urn:octopus:problem:unsupported-media-type"
    assert problem["detail"] == "Content-Type must be application/json. Send it as a header."


def test_the_refusal_of_other_media_types_is_documented(client: httpx.Client):
    paths = client.get("/openapi.json").json()["paths"]
    assert "415" in paths[f"{PREFIX}/episodes/search"]["post"]["responses"]


@pytest.mark.parametrize("kind", ["Application/JSON", "application/json ; charset=utf-8"])
def test_json_by_any_spelling_is_taken(client: httpx.Client, kind: str):
    content = json.dumps(WHO | {"query": "x"}).encode()
    answer = client.post("/episodes/search", content=content, headers={"Content-Type": kind})
    assert answer.status_code == 200


def test_a_body_that_is_missing_is_named(client: httpx.Client):
    for content in (b"", b"null"):
        answer = client.post("/episodes/search", content=content, headers=JSON)
        assert answer.status_code == 422
        assert answer.json()["errors"] == [{"field": "body", "problem": "field required"}]
