"""Signing in to the inspector with a JWT of the service's issuer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from octopus_memory import EpisodicMemory

pytest.importorskip("jinja2", reason="the extra server is not installed")
pytest.importorskip("jwt", reason="the extra server is not installed")
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.testclient import TestClient

from octopus_memory.faces.inspector import access
from octopus_memory.faces.inspector.access import COOKIE
from octopus_memory.faces.inspector.command import inspector_routes
from octopus_memory.faces.rest.app import make_app
from octopus_memory.faces.rest.identity import IssuerUnavailable
from octopus_memory.faces.rest.tokens import IssuerKeys
from octopus_memory.settings import JwtSettings, ServerSettings

ISSUER, AUDIENCE = "https://login.example.com/", "octopus"
KEY, STRANGER = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
JWT = JwtSettings(jwks_url="https://login.example.com/jwks", issuer=ISSUER, audience=AUDIENCE)


@pytest.fixture(autouse=True)
def issuer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IssuerKeys, "find", lambda *_: KEY.public_key())


@pytest.fixture
def filled(memory: EpisodicMemory) -> EpisodicMemory:
    for tenant, user in (("acme", "ana"), ("acme", "ben"), ("other", "zoe")):
        memory.scope(tenant=tenant, agent="hr", user=user).store([("user", "Hello.")])
    return memory


def client(memory: EpisodicMemory, settings: JwtSettings = JWT) -> TestClient:
    app = make_app(memory, ServerSettings(jwt=settings), pages=inspector_routes)
    return TestClient(app, base_url="https://127.0.0.1")


@pytest.fixture
def pages(filled: EpisodicMemory) -> Iterator[TestClient]:
    with client(filled) as opened:
        yield opened


def token(key: Any = KEY, *, minutes: float = 5, **claims: Any) -> str:
    body = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": datetime.now(UTC) + timedelta(minutes=minutes),
        "sub": "boss",
        "tenant": "acme",
        "role": "admin",
    }
    return jwt.encode(body | claims, key, algorithm="ES256", headers={"kid": "k"})


def sign_in(pages: TestClient, given: str) -> Any:
    return pages.post("/sign-in", data={"key": given}, follow_redirects=False)


def test_a_token_opens_its_tenant(pages: TestClient):
    assert "access token" in pages.get("/sign-in").text
    given = token()
    answer = sign_in(pages, given)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "secure"))
    assert given not in cookie
    page = pages.get("/").text
    assert ("ana" in page, "zoe" in page) == (True, False)
    assert "zoe" not in pages.get("/?tenant=other").text


def test_a_forged_form_is_refused(pages: TestClient, filled: EpisodicMemory):
    sign_in(pages, token())
    form = {"agent": "hr", "user": "ana", "text": "Prefers tea."}
    assert pages.post("/facts/add", data=form).status_code == 403
    assert filled.scope(tenant="acme", agent="hr", user="ana").facts() == []


def test_the_role_and_reach_of_a_token_hold(pages: TestClient):
    sign_in(pages, token(role="user", sub="ana"))
    page = pages.get("/").text
    assert ("ana" in page, "ben" in page) == (True, False)
    assert pages.get("/timeline?agent=hr&user=ben").status_code == 403
    assert pages.get("/audit").status_code == 403
    sign_in(pages, token(role="agent", agents=["sales"]))
    assert pages.get("/timeline?agent=hr&user=ana").status_code == 403


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: token(STRANGER),
        lambda: token(minutes=-5),
        lambda: token(aud="others"),
        lambda: token(role="owner"),
        lambda: "a.b.c",
    ],
)
def test_other_tokens_are_refused(pages: TestClient, wrong: Callable[[], str]):
    answer = sign_in(pages, wrong())
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_a_visit_ends_when_its_token_expires(pages: TestClient, monkeypatch: pytest.MonkeyPatch):
    sign_in(pages, token(minutes=5))
    assert pages.get("/", follow_redirects=False).status_code == 200
    later = time.time() + 301
    monkeypatch.setattr(access.time, "time", lambda: later)
    assert pages.get("/", follow_redirects=False).status_code == 303


def test_a_cookie_holds_only_as_it_was_made(pages: TestClient, filled: EpisodicMemory):
    sign_in(pages, token(role="auditor"))
    name, issued, mac = pages.cookies[COOKIE].split(".")
    sign_in(pages, token())
    admin, *_ = pages.cookies[COOKIE].split(".")
    for spoilt in (f"{admin}.{issued}.{mac}", f"{name}.{int(issued) + 1}.{mac}", f"jwt-.{issued}."):
        pages.cookies.clear()
        pages.cookies.set(COOKIE, spoilt)
        assert pages.get("/", follow_redirects=False).status_code == 303
    # A service that takes no JWT any more takes no cookie of one either.
    pages.cookies.clear()
    sign_in(pages, token())
    with client(filled, JwtSettings()) as other:
        other.cookies.set(COOKIE, pages.cookies[COOKIE])
        assert other.get("/", follow_redirects=False).status_code == 303
        assert "access token" not in other.get("/sign-in").text
        assert sign_in(other, token()).status_code == 401


def test_too_many_agents_for_a_cookie_are_said(pages: TestClient):
    answer = sign_in(pages, token(role="agent", agents=[f"agent-{n}" for n in range(400)]))
    assert answer.status_code == 422
    assert "fewer agents" in answer.text


def test_an_issuer_out_of_reach_is_no_wrong_token(
    pages: TestClient, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise IssuerUnavailable

    monkeypatch.setattr(IssuerKeys, "find", fail)
    for _ in range(12):
        assert sign_in(pages, token()).status_code == 503
