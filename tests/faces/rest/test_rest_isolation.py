"""No credential reaches what is not its own, on any route."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from octopus_memory import EpisodicMemory, MemoryConfig
from octopus_memory.faces.rest.app import PREFIX, make_app
from octopus_memory.settings import ServerSettings
from tests.support import rest_server

MARK = "a-secret-that-nobody-else-may-read"
OPERATIONS = {"/healthz", "/readyz", "/metrics", "/"}


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EpisodicMemory]:
    path = tmp_path_factory.mktemp("rest") / "memory.db"
    with EpisodicMemory.open(path, embedder="hashing", background=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def base(memory: EpisodicMemory) -> Iterator[str]:
    settings = ServerSettings(wrong_credentials_allowed=10_000)
    with rest_server.serving(memory, settings) as url:
        yield url + PREFIX


@pytest.fixture
def episode(memory: EpisodicMemory) -> str:
    scope = memory.scope(tenant="acme", agent="hr", user="ana")
    scope.add("monday", ("user", f"My word is {MARK}."))
    scope.close_session("monday", "user_closed")
    stored = scope.store(
        [("user", f"My word is {MARK}.")], session_id=str(uuid4()), summary=f"About {MARK}."
    )
    scope.add_fact(f"Their word is {MARK}.", slot=MARK)
    return str(stored.id)


def _strangers(memory: EpisodicMemory) -> dict[str, str]:
    def key(role: str, **named: object) -> str:
        return rest_server.token(memory, role, **named)

    return {
        "another tenant's admin": key("admin", tenant="other"),
        "another tenant's agent": key("agent", tenant="other", agents=["hr"]),
        "another tenant's user of the same name": key("user", tenant="other", user="ana"),
        "another agent": key("agent", tenant="acme", agents=["sales"]),
        "another user": key("user", tenant="acme", user="ben"),
        "another agent's admin": key("admin", tenant="acme", agents=["sales"]),
        "another user's admin": key("admin", tenant="acme", user="ben"),
        "another agent's auditor": key("auditor", tenant="acme", agents=["sales"]),
        "a forged key": "oct_0123456789abcdef_" + "x" * 43,
        "nobody": "",
    }


def _routes() -> list[tuple[str, str]]:
    """Every route with data behind it."""
    with EpisodicMemory.open("sqlite:///:memory:", embedder="hashing", background=False) as empty:
        app = make_app(empty, ServerSettings())
        spec = app.openapi()
    return [
        (method.upper(), path)
        for path, methods in spec["paths"].items()
        for method in methods
        if path not in OPERATIONS
    ]


def _call(
    base: str, method: str, path: str, token: str, episode: str, user: str = "ana"
) -> httpx.Response:
    filled = path.replace("{episode_id}", episode).replace("{session_id}", "monday")
    filled = filled.replace("{user_id}", user).replace("{agent_id}", "hr")
    filled = filled.replace("{fact_id}", str(uuid4()))
    filled = filled.replace("{hold_id}", str(uuid4())).replace("{receipt_id}", str(uuid4()))
    filled = filled.replace("{turn_id}", str(uuid4()))
    who = {"agentId": "hr", "userId": user}
    body: dict[str, object] | None = None
    if method in {"POST", "PUT", "PATCH"}:
        body = {"text": "hello"} if "/facts" in path else _body(path, who)
    in_query = path.endswith("/import") or "/facts" in path or "/forget" in path
    return httpx.request(
        method,
        base.removesuffix(PREFIX) + filled,
        params=who if method in {"GET", "DELETE"} or in_query else None,
        json=body,
        headers={"Authorization": f"Bearer {token}"} if token else {},
    )


def _body(path: str, who: dict[str, str]) -> dict[str, object]:
    bodies: dict[str, dict[str, object]] = {
        "messages": {**who, "messages": [{"role": "user", "content": "hello"}]},
        "search": {**who, "query": MARK},
        "context": {**who, "message": "What is my word?"},
        "forget": {"about": MARK},
        "confirm": {"token": "h7k2m9p4qx"},
        "memory-config": dict(MemoryConfig().to_dict()),
        "holds": {"userId": who["userId"], "reason": "a case"},
        "close": {**who},
        "remove": {**who, "last": 1},
        "reset": {**who},
        "heartbeat": {**who},
        "episodes": {**who},
    }
    return bodies.get(path.rsplit("/", 1)[1], {})


@pytest.mark.parametrize(("method", "path"), _routes(), ids=lambda value: str(value))
def test_a_stranger_gets_nothing(
    memory: EpisodicMemory, base: str, episode: str, method: str, path: str
):
    # A flush embeds what waits, whoever asks for it: nothing may be left for it to change.
    assert memory.flush()
    before = memory.scope(tenant="acme", agent="hr", user="ana").get(episode)
    for who, token in _strangers(memory).items():
        answer = _call(base, method, path, token, episode)
        assert MARK not in answer.text, who
        assert episode not in answer.text or answer.status_code == 404, who
        about_one = "{" in path
        if who in {"a forged key", "nobody"}:
            assert answer.status_code == 401, (who, answer.text)
        elif (about_one and "tenant" not in who) or (about_one and "{episode_id}" in path):
            assert answer.status_code in {403, 404}, (who, answer.text)
    assert memory.scope(tenant="acme", agent="hr", user="ana").get(episode) == before


def test_an_id_that_is_others_answers_as_one_that_is_not(
    memory: EpisodicMemory, base: str, episode: str
):
    token = rest_server.token(memory, "agent", tenant="acme", agents=["sales"])
    forged = str(uuid4())
    path = f"{PREFIX}/episodes/{{episode_id}}"
    for method in ("GET", "DELETE"):
        theirs, none = (_call(base, method, path, token, each) for each in (episode, forged))
        assert theirs.status_code == none.status_code
        told = [
            {k: v for k, v in answer.json().items() if k != "requestId"}
            for answer in (theirs, none)
        ]
        assert str(told[0]).replace(episode, "") == str(told[1]).replace(forged, "")


@pytest.mark.parametrize("role", ["admin", "auditor"])
@pytest.mark.parametrize("part", [{"agents": ["hr"]}, {"user": "ana"}], ids=["agent", "user"])
def test_a_scoped_credential_has_no_tenant_wide_access(
    memory: EpisodicMemory, base: str, role: str, part: dict[str, object]
):
    hold = memory.tenant("acme").hold(user="ben", reason="a case")
    before = memory.tenant("acme").holds()
    key = {"Authorization": f"Bearer {rest_server.token(memory, role, tenant='acme', **part)}"}
    for method, path in (
        ("GET", "/holds"),
        ("POST", "/holds"),
        ("DELETE", f"/holds/{hold.id}"),
        ("GET", "/receipts"),
        ("GET", f"/receipts/{uuid4()}"),
        ("GET", "/audit"),
    ):
        body = {"userId": "ben", "reason": "another"} if method == "POST" else None
        answer = httpx.request(method, base + path, headers=key, json=body)
        assert answer.status_code == 403, path
    assert memory.tenant("acme").holds() == before


def test_a_stranger_neither_sees_nor_changes_a_fact(
    memory: EpisodicMemory, base: str, episode: str
):
    ana = memory.scope(tenant="acme", agent="hr", user="ana")
    before = ana.facts()
    fact = before[0]
    for who, token in _strangers(memory).items():
        key = {"Authorization": f"Bearer {token}"} if token else {}
        for user in ("ana", "ben"):
            for agent in ("hr", "sales", None):
                params = {} if agent is None else {"agentId": agent}
                for method, body in (("PATCH", {"text": "x", "pinned": True}), ("DELETE", None)):
                    answer = httpx.request(
                        method,
                        f"{base}/users/{user}/facts/{fact.id}",
                        params=params,
                        json=body,
                        headers=key,
                    )
                    assert answer.status_code in {401, 403, 404, 422}, (who, answer.text)
                listed = httpx.get(f"{base}/users/{user}/facts", params=params, headers=key)
                assert MARK not in listed.text, who
    assert ana.facts() == before


def test_a_user_has_their_own_facts(memory: EpisodicMemory, base: str, episode: str):
    for role, named in (
        ("user", {"user": "ana", "agents": ["hr"]}),
        ("agent", {"agents": ["hr"]}),
        ("admin", {}),
    ):
        token = rest_server.token(memory, role, tenant="acme", **named)
        key = {"Authorization": f"Bearer {token}"}
        params = {"agentId": "hr"} if role == "admin" else {}
        facts = f"{base}/users/ana/facts"
        made = httpx.post(facts, params=params, json={"text": f"By {role}."}, headers=key)
        assert made.status_code == 201
        fact = made.json()
        changed = httpx.patch(
            f"{facts}/{fact['id']}",
            params=params,
            json={"text": f"Corrected by {role}.", "pinned": True},
            headers=key,
        ).json()
        assert (changed["replaces"], changed["isPinned"]) == (fact["id"], True)
        nothing = httpx.patch(f"{facts}/{fact['id']}", params=params, json={}, headers=key)
        assert nothing.status_code == 422
        gone = httpx.delete(f"{facts}/{changed['id']}", params=params, headers=key)
        assert (gone.status_code, gone.content) == (204, b"")
        again = httpx.delete(f"{facts}/{changed['id']}", params=params, headers=key)
        assert again.status_code == 404
        assert again.json()["factId"] == changed["id"]
        assert "facts lists them" in again.json()["detail"]
    auditor = rest_server.token(memory, "auditor", tenant="acme")
    listed = httpx.get(
        f"{base}/users/ana/facts",
        params={"agentId": "hr"},
        headers={"Authorization": f"Bearer {auditor}"},
    )
    assert listed.status_code == 403


def test_its_own_credentials_do_reach_it(memory: EpisodicMemory, base: str, episode: str):
    for token in (
        rest_server.token(memory, "admin", tenant="acme"),
        rest_server.token(memory, "agent", tenant="acme", agents=["hr"]),
        rest_server.token(memory, "user", tenant="acme", user="ana"),
    ):
        answer = _call(base, "GET", f"{PREFIX}/episodes/{{episode_id}}", token, episode)
        assert answer.status_code == 200
        assert MARK in answer.text


def test_an_auditor_sees_that_and_not_what(memory: EpisodicMemory, base: str, episode: str):
    token = rest_server.token(memory, "auditor", tenant="acme")
    one = _call(base, "GET", f"{PREFIX}/episodes/{{episode_id}}", token, episode)
    every = _call(base, "GET", f"{PREFIX}/episodes", token, episode)
    for answer in (one, every):
        assert answer.status_code == 200
        assert MARK not in answer.text
        assert episode in answer.text
    assert one.json()["messageCount"] == 1
    search = _call(base, "POST", f"{PREFIX}/episodes/search", token, episode)
    assert search.status_code == 403
