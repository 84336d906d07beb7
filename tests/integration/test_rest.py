"""The service over real HTTP: what it answers, and how it refuses."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import rest_server
from pydantic import TypeAdapter

from octopus_memory import EpisodicMemory, StoreUnavailable
from octopus_memory.engine import access
from octopus_memory.faces.rest import shown
from octopus_memory.faces.rest.app import PREFIX
from octopus_memory.settings import ServerSettings
from octopus_memory.testing import FixedClock

WHO = {"agentId": "hr", "userId": "ana"}
PRIVATE = "what somebody said in private"
HELLO = {"role": "user", "content": "How many leave days do I have left?"}


@pytest.fixture
def client(memory: EpisodicMemory) -> Iterator[httpx.Client]:
    token = rest_server.token(memory, "admin")
    with (
        rest_server.serving(memory) as url,
        httpx.Client(base_url=url + PREFIX, headers={"Authorization": f"Bearer {token}"}) as opened,
    ):
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


def test_what_has_not_changed_is_not_sent_again(client: httpx.Client):
    client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
    first = client.get("/sessions/s", params=WHO)
    tag = first.headers["etag"]
    again = client.get("/sessions/s", params=WHO, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
    changed = client.get("/sessions/s", params=WHO, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_only_the_last_messages(client: httpx.Client):
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


def test_any_name_has_its_route(client: httpx.Client):
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
    answers: dict[Any, httpx.Response] = {
        shown.AddedOut: client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO, sent]}),
        shown.SessionOut: client.post("/sessions/s/close", json=WHO),
        shown.SessionDetail: client.get("/sessions/s", params=WHO),
        shown.EpisodeList: client.get("/episodes", params=WHO),
        shown.SearchOut: client.post("/episodes/search", json=query | {"mode": "hybrid"}),
        shown.TurnSearchOut: client.post("/turns/search", json=query | {"mode": "hybrid"}),
        shown.ContextOut: client.post("/context", json=WHO | {"message": "And leave?"}),
    }
    for kind, answer in answers.items():
        found = TypeAdapter(kind).validate_json(answer.content)
        assert any(found.values()), kind
    assert all(answers[kind].json()["results"] for kind in (shown.SearchOut, shown.TurnSearchOut))


def test_every_answer_has_a_request_id(client: httpx.Client):
    given = client.get("/episodes", headers={"X-Request-ID": "mine-1"})
    assert given.headers["x-request-id"] == "mine-1"
    odd = client.get("/episodes", headers={"X-Request-ID": "a b\tc" * 50})
    assert odd.headers["x-request-id"].isalnum()
    missing = client.get("/nothing-here")
    assert missing.status_code == 404
    assert missing.json()["requestId"] == missing.headers["x-request-id"]


BAD_BODIES = {
    "a megabyte": (json.dumps({"query": "x" * 1_000_000}).encode(), "query"),
    "invalid UTF-8": (b'{"query": "\xff\xfe"}', "body"),
    "deep nesting": (b'{"query": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "body"),
    "a NUL": (json.dumps({"query": "a\0b"}).encode(), "query"),
    "a wrong type": (b'{"query": 3}', "query"),
    "an unknown field": (b'{"query": "x", "querry": "x"}', "querry"),
    "no JSON": (b"query=x", "body"),
    "a list": (b"[1, 2]", "body"),
    "nothing": (b"", "body"),
}


@pytest.mark.parametrize(("body", "field"), BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_bad_body_is_a_problem_that_names_the_field(
    client: httpx.Client, body: bytes, field: str
):
    headers = {"Content-Type": "application/json"}
    answer = client.post("/episodes/search", content=body, headers=headers)
    assert 400 <= answer.status_code < 500
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"].startswith("urn:octopus:problem:")
    assert field in str([each["field"] for each in problem["errors"]])


READ_ALIKE: dict[str, tuple[str, Any, str]] = {
    "right": ("/sessions/s/messages", WHO | {"messages": [HELLO]}, "k"),
    "a key too long": ("/sessions/s/messages", WHO | {"messages": [HELLO]}, "k" * 257),
    "a path too long": (f"/sessions/{'s' * 257}/messages", WHO | {"messages": [HELLO]}, "k"),
    "nothing to add": ("/sessions/s/messages", WHO | {"messages": []}, "k"),
    "a wrong type": ("/episodes/search", WHO | {"query": 3}, "k"),
    "a number as text": ("/episodes/search", WHO | {"query": "x", "topK": "3"}, "k"),
    "null": ("/episodes/search", None, "k"),
    "a name of ours": ("/episodes/search", WHO | {"query": "x", "top_k": 3}, "k"),
}


@pytest.mark.parametrize(("path", "body", "key"), READ_ALIKE.values(), ids=READ_ALIKE)
def test_a_body_is_read_alike_by_us_and_by_the_framework(
    client: httpx.Client, path: str, body: Any, key: str
):
    """What is not plain JSON by its name is left to the framework."""
    ours, theirs = (
        client.post(
            path,
            content=json.dumps(body),
            headers={"Content-Type": kind, "Idempotency-Key": key, "X-Request-ID": "same"},
        )
        for kind in ("application/json", "application/vnd.octopus+json")
    )
    assert (ours.status_code, ours.json()) == (theirs.status_code, theirs.json())


def test_a_message_that_cannot_be_stored_is_named(client: httpx.Client):
    body = WHO | {"messages": [HELLO, {"role": "nobody", "content": "x"}]}
    answer = client.post("/sessions/s/messages", json=body)
    assert answer.status_code == 422
    assert "messages[1]" in answer.json()["errors"][0]["field"]
    assert client.get("/sessions/s", params=WHO).status_code == 404


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


def test_a_body_over_the_limit_is_refused(memory: EpisodicMemory):
    settings = ServerSettings(max_body_bytes=2_000)
    token = rest_server.token(memory)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = json.dumps(WHO | {"messages": [HELLO | {"content": "x" * 5_000}]}).encode()
    with rest_server.serving(memory, settings) as url:
        where = f"{url}{PREFIX}/sessions/s/messages"
        for content in (body, iter([body[:1_500], body[1_500:]])):
            answer = httpx.post(where, content=content, headers=headers)
            assert answer.status_code == 413
            assert "2,000" in answer.json()["detail"]


def test_too_many_requests_wait(memory: EpisodicMemory):
    token = rest_server.token(memory)
    headers = {"Authorization": f"Bearer {token}"}
    with rest_server.serving(memory, ServerSettings(requests_per_minute=12)) as url:
        codes = [
            httpx.get(f"{url}{PREFIX}/episodes", headers=headers).status_code for _ in range(4)
        ]
        last = httpx.get(f"{url}{PREFIX}/episodes", headers=headers)
    assert codes[0] == 200
    assert last.status_code == 429
    assert 1 <= int(last.headers["retry-after"]) <= 60


def test_guessing_is_locked_out(memory: EpisodicMemory):
    with rest_server.serving(memory) as url:
        codes = [
            httpx.get(
                f"{url}{PREFIX}/episodes", headers={"Authorization": f"Bearer oct_{n:016x}_guess"}
            ).status_code
            for n in range(25)
        ]
        right = {"Authorization": f"Bearer {rest_server.token(memory)}"}
        assert httpx.get(f"{url}{PREFIX}/episodes", headers=right).status_code == 429
    assert set(codes[:20]) == {401}
    assert codes[-1] == 429


@pytest.mark.both_databases
def test_a_key_ends(memory: EpisodicMemory, client: httpx.Client, clock: FixedClock):
    made = access.make_key(memory.parts, tenant="default", role="admin", name="short", actor="test")
    base = str(client.base_url).rstrip("/")

    def status(token: str) -> int:
        return httpx.get(
            f"{base}/episodes", headers={"Authorization": f"Bearer {token}"}
        ).status_code

    assert status(made.token) == 200
    new = access.rotate_key(memory.parts, made.key.id, grace=timedelta(hours=1), actor="test")
    assert (status(made.token), status(new.token)) == (200, 200)
    clock.advance(hours=2)
    with rest_server.serving(memory) as url:
        headers = {"Authorization": f"Bearer {made.token}"}
        assert httpx.get(f"{url}{PREFIX}/episodes", headers=headers).status_code == 401
        access.revoke_key(memory.parts, new.key.id, actor="test")
        headers = {"Authorization": f"Bearer {new.token}"}
        assert httpx.get(f"{url}{PREFIX}/episodes", headers=headers).status_code == 401


def test_a_token_is_not_in_the_database(memory: EpisodicMemory, tmp_path: Path):
    token = rest_server.token(memory)
    secret = token.split("_", 2)[2]
    memory.close()
    file = tmp_path / "memory.db"
    assert token.split("_")[1].encode() in file.read_bytes()
    assert secret.encode() not in file.read_bytes()


def test_without_a_credential_only_development_mode_answers(memory: EpisodicMemory):
    with rest_server.serving(memory) as url:
        refused = httpx.get(f"{url}{PREFIX}/episodes")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
    with rest_server.serving(memory, development=True) as url:
        assert httpx.get(f"{url}{PREFIX}/episodes").status_code == 200


def test_operations_need_no_credential(memory: EpisodicMemory):
    with rest_server.serving(memory) as url:
        assert httpx.get(f"{url}/healthz").json() == {"status": "ok"}
        ready = httpx.get(f"{url}/readyz")
        assert (ready.status_code, ready.json()["checks"]["database"]) == (200, "ok")
        httpx.get(f"{url}{PREFIX}/episodes/not-an-id")
        numbers = httpx.get(f"{url}/metrics").text
    assert 'octopus_work_waiting{kind="embed"} 0.0' in numbers
    assert "not-an-id" not in numbers


def test_who_asks_often_is_told_what_was_counted(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("octopus_memory.faces.rest.metrics._KNOWN_SECONDS", 3_600.0)
    count, counted = memory.parts.store.backlog, []
    monkeypatch.setattr(memory.parts.store, "backlog", lambda: counted.append(1) or count())
    with rest_server.serving(memory) as url:
        for path in ("readyz", "readyz", "metrics"):
            assert httpx.get(f"{url}/{path}").status_code == 200
    assert len(counted) == 1


def test_one_of_many_asks_for_the_key_anew(memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch):
    token, ring, now = rest_server.token(memory), access.KeyRing(memory.parts), [100.0]
    monkeypatch.setattr("octopus_memory.engine.access.time.monotonic", lambda: now[0])
    assert ring.remembered(token) is None
    asked = ring.who(token)
    assert ring.remembered(token) == asked
    now[0] += 1.5
    assert [ring.remembered(token) for _ in range(3)] == [None, asked, asked]
    ring.who(token)
    assert ring.remembered(token) == asked
    now[0] += 2.0
    assert [ring.remembered(token) for _ in range(2)] == [None, None]


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


def test_nothing_that_was_said_is_logged(
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


def test_a_failure_of_ours_says_nothing_of_theirs(
    memory: EpisodicMemory,
    client: httpx.Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(PRIVATE)

    monkeypatch.setattr("octopus_memory.engine.remember.add", fail)
    answer = client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
    assert answer.status_code == 500
    assert answer.json()["requestId"] in caplog.text
    assert "RuntimeError" in caplog.text
    assert PRIVATE not in caplog.text + answer.text


def test_the_database_away_is_a_problem_that_says_so(
    memory: EpisodicMemory, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
):
    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("memory.db: unable to open (check the folder)")

    monkeypatch.setattr(type(memory.parts.store), "append", away)
    answer = client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    monkeypatch.setattr(type(memory.parts.store), "backlog", away)
    ready = client.get(f"{str(client.base_url).removesuffix(PREFIX + '/')}/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (503, False)


def test_the_credential_is_asked_for_before_the_body_is_read(memory: EpisodicMemory):
    with rest_server.serving(memory) as url:
        answer = httpx.post(
            f"{url}{PREFIX}/episodes/search",
            content=b"{ this is no JSON",
            headers={"Content-Type": "application/json"},
        )
    assert answer.status_code == 401


def test_an_episode_that_is_opened_again_with_its_key_is_the_same(client: httpx.Client):
    headers = {"Idempotency-Key": "once"}
    body = WHO | {"messages": [HELLO]}
    first, second = (client.post("/episodes", json=body, headers=headers).json() for _ in range(2))
    assert (second["id"], second["messageCount"]) == (first["id"], 1)


def test_an_admin_of_one_agent_leaves_the_others_alone(memory: EpisodicMemory):
    token = rest_server.token(memory, "admin", agents=["hr"])
    headers = {"Authorization": f"Bearer {token}"}
    with rest_server.serving(memory) as url:
        codes = [
            httpx.put(
                f"{url}{PREFIX}/agents/{agent}/memory-config", json={}, headers=headers
            ).status_code
            for agent in ("hr", "sales")
        ]
    assert codes == [200, 403]


@pytest.mark.parametrize("header", [("Host", "evil.example"), ("Origin", "http://evil.example")])
def test_development_mode_answers_no_other_sites_page(
    memory: EpisodicMemory, header: tuple[str, str]
):
    with rest_server.serving(memory, development=True) as url:
        assert httpx.get(f"{url}{PREFIX}/episodes").status_code == 200
        assert httpx.get(f"{url}{PREFIX}/episodes", headers=[header]).status_code == 403


def test_a_rotated_key_ends_when_the_old_one_would(memory: EpisodicMemory, clock: FixedClock):
    ends = clock.now() + timedelta(hours=1)
    made = access.make_key(
        memory.parts, tenant="t", role="admin", name="k", expires_at=ends, actor="test"
    )
    new = access.rotate_key(memory.parts, made.key.id, grace=timedelta(0), actor="test")
    assert new.key.expires_at == ends
