"""The service over real HTTP: how it refuses, and whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from octopus_memory import EpisodicMemory, InvalidInput, StoreAnswerLost, StoreUnavailable
from octopus_memory.faces.rest.identity import Limiter
from octopus_memory.faces.rest.routing import PREFIX
from octopus_memory.settings import ServerSettings
from octopus_memory.testing import FixedClock
from tests.support import rest_server
from tests.support.rest_server import HELLO, WHO

PRIVATE = "what somebody said in private"


@pytest.fixture
def client(memory: EpisodicMemory) -> Iterator[httpx.Client]:
    with rest_server.http_client(memory) as opened:
        yield opened


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


@pytest.mark.parametrize("most", [1, 2, 10])
def test_a_minutes_requests_may_come_at_once(memory: EpisodicMemory, most: int):
    headers = {"Authorization": f"Bearer {rest_server.token(memory)}"}
    other = {"Authorization": f"Bearer {rest_server.token(memory)}"}
    with rest_server.serving(memory, ServerSettings(requests_per_minute=most)) as url:
        asked = [httpx.get(f"{url}{PREFIX}/episodes", headers=headers) for _ in range(most + 1)]
        assert [each.status_code for each in asked] == [200] * most + [429]
        assert 1 <= int(asked[-1].headers["retry-after"]) <= 60 / most + 1
        assert httpx.get(f"{url}{PREFIX}/episodes", headers=other).status_code == 200


def test_requests_are_given_back_evenly(monkeypatch: pytest.MonkeyPatch):
    now = [100.0]
    monkeypatch.setattr("octopus_memory.faces.rest.identity.time.monotonic", lambda: now[0])
    limiter = Limiter(10)
    assert [limiter.wait("a") for _ in range(10)] == [0.0] * 10
    assert limiter.wait("a") == pytest.approx(6.0)
    now[0] += 6.001
    assert limiter.wait("a") == 0.0
    assert limiter.wait("a") == pytest.approx(6.0, abs=0.01)
    now[0] += 1_000
    assert [limiter.wait("a") > 0 for _ in range(11)] == [False] * 10 + [True]


def test_a_caller_that_keeps_asking_is_not_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("octopus_memory.faces.rest.identity._MOST_TRACKED", 3)
    limiter = Limiter(1)
    assert limiter.wait("greedy") == 0.0
    for other in range(10):
        assert limiter.wait(f"other {other}") == 0.0
        assert limiter.wait("greedy") > 0


@pytest.mark.both_databases
def test_a_key_ends(memory: EpisodicMemory, client: httpx.Client, clock: FixedClock):
    made = memory.api_keys.create(tenant="default", role="admin", name="short", actor="test")
    base = str(client.base_url).rstrip("/")

    def status(token: str) -> int:
        return httpx.get(
            f"{base}/episodes", headers={"Authorization": f"Bearer {token}"}
        ).status_code

    assert status(made.token) == 200
    new = memory.api_keys.rotate(made.key.id, grace=timedelta(hours=1), actor="test")
    assert (status(made.token), status(new.token)) == (200, 200)
    clock.advance(hours=2)
    with rest_server.serving(memory) as url:
        headers = {"Authorization": f"Bearer {made.token}"}
        assert httpx.get(f"{url}{PREFIX}/episodes", headers=headers).status_code == 401
        memory.api_keys.revoke(new.key.id, actor="test")
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


def test_what_the_page_offers_is_answered_in_development_mode(memory: EpisodicMemory):
    with (
        rest_server.serving(memory, development=True) as url,
        httpx.Client(base_url=url + PREFIX) as page,
    ):
        spec = page.get("/openapi.json").json()
        schemas = spec["components"]["schemas"]
        said, closing, beating, who = (
            schemas[name]["example"]
            for name in ("SessionAddBody", "SessionCloseBody", "HeartbeatBody", "WhoBody")
        )
        stored = page.post("/sessions/s/messages", json=said).json()["turns"][0]["episodeId"]
        assert page.post("/sessions/s/heartbeat", json=beating).status_code == 200
        assert page.post("/sessions/s/close", json=closing).status_code == 200
        assert page.post(f"/episodes/{stored}/delete", json=who).status_code == 204
        elsewhere = page.post(f"/episodes/{stored}/restore", json=who | {"userId": "another"})
        assert "/deleted" in elsewhere.json()["detail"]
        assert page.post(f"/episodes/{stored}/restore", json=who).status_code == 200
        importing = spec["paths"][f"{PREFIX}/users/{{user_id}}/import"]["post"]["requestBody"]
        [lines] = importing["content"].values()
        sent = page.post(
            "/users/user-17/import", params={"agentId": "hr"}, content=lines["schema"]["example"]
        )
        assert sent.json()["turns"] == 1
        missing = page.get("/sessions/s").json()
        assert missing["detail"].startswith("agentId, userId: must be given")
        assert [each["field"] for each in missing["errors"]] == ["agentId", "userId"]


def test_an_expired_key_is_read_again_by_one_caller_at_a_time(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    token, ring, now = rest_server.token(memory), memory.api_keys.ring(), [100.0]
    monkeypatch.setattr("octopus_memory.engine.privacy.api_keys.time.monotonic", lambda: now[0])
    assert ring.remembered(token) is None
    asked = ring.who(token)
    assert ring.remembered(token) == asked
    now[0] += 1.5
    assert [ring.remembered(token) for _ in range(3)] == [None, asked, asked]
    ring.who(token)
    assert ring.remembered(token) == asked
    now[0] += 2.0
    assert [ring.remembered(token) for _ in range(2)] == [None, None]


def test_a_failure_of_ours_says_nothing_of_theirs(
    memory: EpisodicMemory,
    client: httpx.Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(PRIVATE)

    monkeypatch.setattr("octopus_memory.engine.write.add.add", fail)
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

    monkeypatch.setattr(type(memory.runtime.store), "append", away)
    answer = client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    monkeypatch.setattr(type(memory.runtime.store), "backlog", away)
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


def test_a_write_of_unknown_outcome_is_not_reported_as_refused(
    memory: EpisodicMemory, monkeypatch: pytest.MonkeyPatch
):
    def lost(*_: object) -> None:
        raise StoreAnswerLost("the database at db.internal: the connection was lost")

    monkeypatch.setattr(memory.runtime.store, "append", lost)
    with rest_server.http_client(memory) as client:
        answer = client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
    assert answer.status_code == 503
    problem = answer.json()
    assert problem["type"] == "urn:octopus:problem:store-answer-lost"
    assert "same Idempotency-Key" in problem["detail"]
    assert "nothing was changed" not in problem["detail"]
    assert "internal" not in answer.text


def test_a_rotated_key_ends_when_the_old_one_would(memory: EpisodicMemory, clock: FixedClock):
    ends = clock.now() + timedelta(hours=1)
    made = memory.api_keys.create(tenant="t", role="admin", name="k", expires_at=ends, actor="test")
    new = memory.api_keys.rotate(made.key.id, grace=timedelta(0), actor="test")
    assert new.key.expires_at == ends


def test_a_key_that_cannot_end_so_late_is_not_rotated(memory: EpisodicMemory):
    made = memory.api_keys.create(tenant="t", role="admin", name="k", actor="test")
    with pytest.raises(InvalidInput, match="grace: is too large"):
        memory.api_keys.rotate(made.key.id, grace=timedelta(hours=1e8), actor="test")
    assert [key.id for key in memory.runtime.store.list_keys()] == [made.key.id]


def test_an_agent_takes_back_what_is_said_now_and_removes_nothing_else(memory: EpisodicMemory):
    scope = memory.scope(agent="hr", user="ana")
    scope.store([("user", "Long ago.")], session_id="s")
    scope.add("s", [("user", "Now."), ("assistant", "Yes.")])
    old, now, answer = scope.session("s").turns
    with rest_server.serving(memory) as url:

        def remove(role: str, **body: Any) -> int:
            user = "ana" if role == "user" else None
            key = rest_server.token(memory, role, user=user)
            return httpx.post(
                f"{url}{PREFIX}/sessions/s/messages/remove",
                json=WHO | body,
                headers={"Authorization": f"Bearer {key}"},
            ).status_code

        assert remove("agent", last=1_000) == 403
        assert remove("agent", last=1, physical=True) == 403
        assert remove("agent", ids=[str(old.id), str(now.id)]) == 403
        assert remove("auditor", last=1) == 403
        assert len(scope.session("s").turns) == 3
        assert remove("agent", last=1) == 200
        # As a client repeats it whose answer was lost.
        assert remove("agent", ids=[str(answer.id)]) == 200
        assert [turn.id for turn in scope.session("s").turns] == [old.id, now.id]
        assert remove("user", ids=[str(old.id)], physical=True) == 200
        assert remove("admin", last=5) == 200
        assert scope.session("s").turns == ()


@pytest.mark.parametrize(
    "path", ["/users/ana/export", "/users/ana/deleted", "/episodes", "/nowhere"]
)
def test_no_answer_is_stored_by_a_cache(client: httpx.Client, path: str):
    client.post("/sessions/s/messages", json=WHO | {"messages": [HELLO]})
    kept = client.get(path, params=WHO).headers["cache-control"]
    assert kept in ("no-store", "private, no-cache")


def test_no_answer_of_mcp_is_stored_by_a_cache(client: httpx.Client):
    url = str(client.base_url).removesuffix(f"{PREFIX}/") + "/mcp?agent=hr&user=ana"
    sent = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    answer = client.post(url, json=sent)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
