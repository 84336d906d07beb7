"""The service over real HTTP: what it answers."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from pydantic import TypeAdapter

from octopus_memory import (
    Episode,
    EpisodeSnippet,
    EpisodicMemory,
    MemoryContext,
    Page,
    Session,
    SessionReplay,
    TurnHit,
)
from octopus_memory.faces.rest import responses
from octopus_memory.faces.rest.routes import users
from octopus_memory.faces.rest.routing import PREFIX
from octopus_memory.settings import ServerSettings
from tests.support import rest_server
from tests.support.rest_server import HELLO, WHO


@pytest.fixture
def client(memory: EpisodicMemory) -> Iterator[httpx.Client]:
    with rest_server.http_client(memory) as opened:
        yield opened


@pytest.mark.both_databases
def test_a_conversation_from_open_to_recall(memory: EpisodicMemory, client: httpx.Client):
    opened = client.post("/episodes", json=WHO | {"sessionId": "monday"})
    assert opened.status_code == 201
    episode = opened.json()
    assert opened.headers["location"] == f"{PREFIX}/episodes/{episode['id']}"
    added = client.post(f"/episodes/{episode['id']}/messages", json={"messages": [HELLO]})
    assert added.status_code == 201
    assert [turn["ordinal"] for turn in added.json()["turns"]] == [0]
    closed = client.post(f"/episodes/{episode['id']}/close", json={"summary": "Leave days."})
    assert (closed.json()["summary"], closed.json()["endReason"]) == ("Leave days.", "user_closed")
    memory.flush()
    found = client.post("/episodes/search", json=WHO | {"query": "leave", "topK": 1})
    [result] = found.json()["results"]
    assert set(result) >= {"episodeId", "summary", "date", "relevanceScore", "isArchived"}
    assert result["episodeId"] == episode["id"]
    detail = client.get(f"/episodes/{episode['id']}").json()
    assert [turn["message"] for turn in detail["messages"]] == [HELLO]
    listed = client.get("/episodes", params=WHO).json()
    assert (listed["totalCount"], listed["page"], listed["pageSize"]) == (1, 1, 20)
    replay = client.get("/sessions/monday", params=WHO).json()
    assert replay["status"] == "ended"
    context = client.post("/context", json=WHO | {"message": "And next year?"}).json()
    assert "Leave days." in context["text"]


def test_a_search_gives_three_unless_it_says_otherwise(
    memory: EpisodicMemory, client: httpx.Client
):
    for number in range(6):
        client.post(f"/sessions/{number}/messages", json=WHO | {"messages": [HELLO]})
    memory.flush()
    body = WHO | {"query": "leave days"}
    assert len(client.post("/episodes/search", json=body).json()["results"]) == 3
    assert len(client.post("/episodes/search", json=body | {"topK": 5}).json()["results"]) == 5
    assert len(client.post("/turns/search", json=body).json()["results"]) == 5


@pytest.mark.both_databases
def test_a_call_that_is_tried_again_stores_nothing_twice(client: httpx.Client):
    headers = {"Idempotency-Key": "once"}
    body = WHO | {"messages": [HELLO]}
    first, second = (
        client.post("/sessions/s/messages", json=body, headers=headers).json() for _ in range(2)
    )
    assert first == second
    other = client.post(
        "/sessions/s/messages",
        json=WHO | {"messages": [HELLO | {"content": "another"}]},
        headers=headers,
    )
    assert (other.status_code, other.json()["key"]) == (409, "once")


def test_an_unchanged_resource_answers_not_modified(client: httpx.Client):
    client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
    first = client.get("/sessions/s", params=WHO)
    tag = first.headers["etag"]
    again = client.get("/sessions/s", params=WHO, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
    changed = client.get("/sessions/s", params=WHO, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_a_replay_can_be_limited_to_the_last_messages(client: httpx.Client):
    said = [HELLO | {"content": str(number)} for number in range(5)]
    client.post("/sessions/s/messages", json=WHO | {"messages": said})
    whole = client.get("/sessions/s", params=WHO)
    answer = client.get("/sessions/s", params=WHO | {"last": 2})
    [episode] = answer.json()["episodes"]
    assert [turn["message"]["content"] for turn in episode["messages"]] == ["3", "4"]
    assert episode["messageCount"] == 5
    tag = whole.headers["etag"]
    assert answer.headers["etag"] != tag
    known = {"If-None-Match": tag}
    assert client.get("/sessions/s", params=WHO | {"last": 2}, headers=known).status_code == 200
    for wrong in (0, -1, 1_000_001, "all", "true", ""):
        refused = client.get("/sessions/s", params=WHO | {"last": wrong})
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"] == "query.last"


def test_any_name_can_be_part_of_a_path(client: httpx.Client):
    """Line breaks, too: a pattern's dot and its end each have a way of their own with those."""
    for name in ("a/b", "a\nb", "a\n", "messages/close", "é ?#"):
        quoted = quote(name, safe="")
        body = {"agentId": "hr", "userId": name, "messages": [{"role": "user", "content": "Hi."}]}
        added = client.post(f"/sessions/{quoted}/messages", json=body)
        assert added.status_code == 201, added.text
        who = {"agentId": "hr", "userId": name}
        session = client.get(f"/sessions/{quoted}", params=who).json()
        assert session["id"] == name
        assert client.post(f"/sessions/{quoted}/close", json=who).status_code == 200
        assert client.get(f"/users/{quoted}/deleted", params={"agentId": "hr"}).status_code == 200
        assert client.get(f"/agents/{quoted}/memory-config").status_code == 200


def test_long_answers_are_compressed(client: httpx.Client):
    body = WHO | {"messages": [HELLO | {"content": "word " * 2_000}]}
    client.post("/sessions/s/messages", json=body)
    with client.stream("GET", "/sessions/s", params=WHO) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert len(raw) < 1_000
    assert "word word" in gzip.decompress(raw).decode()


def test_an_export_is_compressed_as_it_comes(client: httpx.Client):
    body = WHO | {"messages": [HELLO | {"content": "word " * 2_000}]}
    client.post("/sessions/s/messages", json=body)
    plain = client.get("/users/ana/export", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    packed = client.get("/users/ana/export")
    assert packed.headers["content-encoding"] == "gzip"
    # All but the first and the last line, which tell of this export.
    lines = [each.text.splitlines()[1:-1] for each in (packed, plain)]
    assert lines[0] == lines[1] != []


def test_answers_are_as_the_description_says(client: httpx.Client, memory: EpisodicMemory):
    query = WHO | {"query": "leave", "mode": "recent"}
    sent = HELLO | {"name": "Ana", "tool_calls": None}

    def shape(*kind: Any) -> Any:
        return responses.form(*kind).shape

    found, hits = shape(list[EpisodeSnippet], "results"), shape(list[TurnHit], "results")
    answers: dict[Any, httpx.Response] = {
        responses.ADDED.shape: client.post(
            "/sessions/s/messages", json=WHO | {"messages": [HELLO, sent]}
        ),
        shape(Session): client.post("/sessions/s/close", json=WHO),
        shape(SessionReplay): client.get("/sessions/s", params=WHO),
        shape(Page[Episode]): client.get("/episodes", params=WHO),
        found: client.post("/episodes/search", json=query | {"mode": "hybrid"}),
        hits: client.post("/turns/search", json=query | {"mode": "hybrid"}),
        shape(MemoryContext): client.post("/context", json=WHO | {"message": "And leave?"}),
    }
    for kind, answer in answers.items():
        assert any(TypeAdapter(kind).validate_json(answer.content).values()), kind
    assert all(answers[kind].json()["results"] for kind in (found, hits))


def test_every_answer_has_a_request_id(client: httpx.Client):
    given = client.get("/episodes", headers={"X-Request-ID": "mine-1"})
    assert given.headers["x-request-id"] == "mine-1"
    odd = client.get("/episodes", headers={"X-Request-ID": "a b\tc" * 50})
    assert odd.headers["x-request-id"].isalnum()
    missing = client.get("/nothing-here")
    assert missing.status_code == 404
    assert missing.json()["requestId"] == missing.headers["x-request-id"]


def test_half_a_surrogate_pair_comes_back_as_it_was_sent(client: httpx.Client):
    cut = "cut \ud83d here"
    who = {"agentId": "hr", "userId": "ana"}
    body = json.dumps(who | {"messages": [{"role": "user", "content": cut}]})
    sent = client.post(
        "/sessions/s/messages", content=body, headers={"content-type": "application/json"}
    )
    assert sent.status_code == 201
    for answer in (
        client.get("/sessions/s", params=who),
        client.post("/episodes/search", json=who | {"query": "what was cut"}),
    ):
        assert answer.status_code == 200
        assert cut in json.dumps(json.loads(answer.content), ensure_ascii=False)


def test_operations_need_no_credential(memory: EpisodicMemory):
    with rest_server.serving(memory) as url:
        assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
        ready = httpx.get(f"{url}/readyz")
        assert (ready.status_code, ready.json()["checks"]["database"]) == (200, "ok")
        httpx.get(f"{url}{PREFIX}/episodes/not-an-id")
        numbers = httpx.get(f"{url}/metrics").text
    assert 'octopus_work_waiting{kind="embed"} 0.0' in numbers
    assert "octopus_messages_lost 0.0" in numbers
    assert "not-an-id" not in numbers


def test_the_backlog_is_counted_once_for_frequent_requests(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("octopus_memory.faces.rest.metrics._KNOWN_SECONDS", 3_600.0)
    count, counted = memory.runtime.store.backlog, []
    monkeypatch.setattr(memory.runtime.store, "backlog", lambda: counted.append(1) or count())
    with rest_server.serving(memory) as url:
        for path in ("readyz", "readyz", "metrics"):
            assert httpx.get(f"{url}/{path}").status_code == 200
    assert len(counted) == 1


def test_listing_across_users_is_recorded_as_a_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OCTOPUS_AUDIT_READS", "true")
    url = f"sqlite:///{tmp_path / 'watched.db'}"
    with EpisodicMemory.open(url, embedder="hashing", background=False) as memory:
        token = rest_server.token(memory)
        with rest_server.serving(memory) as base:
            headers = {"Authorization": f"Bearer {token}"}
            assert httpx.get(f"{base}{PREFIX}/episodes", headers=headers).status_code == 200
        made, read = memory.tenant("default").audit()
    assert (read.action, read.actor, read.subject) == (
        "episodes",
        f"key:{made.detail['key']}",
        None,
    )


def test_no_message_text_is_logged(
    memory: EpisodicMemory, client: httpx.Client, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", logger="octopus_memory")
    who = {"agentId": "hr", "userId": "a-private-name"}
    body = who | {"messages": [HELLO | {"content": "a private word"}]}
    client.post("/sessions/a-private-session/messages", json=body)
    client.get("/sessions/a-private-session", params=who)
    client.post("/episodes/search", json=who | {"query": "a private word", "topK": 0})
    assert "/sessions/{session_id}/messages" in caplog.text
    assert "private" not in caplog.text


def test_slow_uploads_keep_no_credential_waiting(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    begun, ends = threading.Event(), threading.Event()
    read = users.pieces_of

    def pieces(chunks: Any, longest: int) -> Iterator[str]:
        begun.set()
        yield from read(chunks, longest)

    def slowly() -> Iterator[bytes]:
        yield b'{"messages": [{"role": "user", "content": "hi there"}]}\n'
        assert ends.wait(30)

    monkeypatch.setattr(users, "pieces_of", pieces)

    def ask(service: str, method: str, path: str, **what: Any) -> httpx.Response:
        key = {"Authorization": f"Bearer {rest_server.token(memory)}"}
        return httpx.request(method, f"{service}{PREFIX}{path}", headers=key, timeout=30, **what)

    with (
        rest_server.serving(memory, ServerSettings(threads=1)) as service,
        ThreadPoolExecutor(1) as other,
    ):
        upload = other.submit(ask, service, "POST", "/users/ben/import", content=slowly())
        assert begun.wait(30)
        assert ask(service, "GET", "/episodes", params=WHO).status_code == 200
        ends.set()
        assert upload.result(30).status_code == 200


def test_an_episode_that_is_opened_again_with_its_key_is_the_same(client: httpx.Client):
    headers = {"Idempotency-Key": "once"}
    body = WHO | {"messages": [HELLO]}
    first, second = (client.post("/episodes", json=body, headers=headers).json() for _ in range(2))
    assert (second["id"], second["messageCount"]) == (first["id"], 1)
    headers = {"Idempotency-Key": "and another"}
    empty, again = (client.post("/episodes", json=WHO, headers=headers).json() for _ in range(2))
    assert again["id"] == empty["id"] != first["id"]
    assert client.get("/episodes", params=WHO).json()["totalCount"] == 2
