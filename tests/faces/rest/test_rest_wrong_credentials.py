"""Wrong credentials over real HTTP: they shut out nobody who has a right one."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from octopus_memory import EpisodicMemory, InvalidSetting
from octopus_memory.faces.rest.identity import IssuerUnavailable
from octopus_memory.faces.rest.routing import PREFIX
from octopus_memory.faces.rest.tokens import JwtReader
from octopus_memory.settings import JwtSettings, ServerSettings
from tests.support import rest_server

ISSUER, AUDIENCE = "https://login.example.com/", "octopus"
KEY = ec.generate_private_key(ec.SECP256R1())


def _jwt(**head: Any) -> str:
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": datetime.now(UTC) + timedelta(minutes=5),
        "sub": "ana",
        "tenant": "acme",
        "role": "admin",
    }
    return jwt.encode(claims, KEY, algorithm="ES256", headers={"kid": "ours"} | head)


def _settings(url: str, **others: Any) -> ServerSettings:
    return ServerSettings(jwt=JwtSettings(jwks_url=url, issuer=ISSUER, audience=AUDIENCE), **others)


class Issuer:
    """Publishes keys, or answers as it is told to; counts how often it is asked."""

    def __init__(self) -> None:
        entry = jwt.get_algorithm_by_name("ES256").to_jwk(KEY.public_key(), as_dict=True)
        self.content = json.dumps({"keys": [{**entry, "kid": "ours", "use": "sig"}]}).encode()
        self.status, self.asked = 200, 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                self.send_response(issuer.status)
                self.end_headers()
                self.wfile.write(issuer.content)

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/jwks.json"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    opened = Issuer()
    yield opened
    opened.close()


def _ask(url: str, token: str, forwarded: str | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    if forwarded is not None:
        headers["X-Forwarded-For"] = forwarded
    return httpx.get(f"{url}{PREFIX}/episodes", headers=headers, timeout=30)


def _guess(url: str, number: int = 0, forwarded: str | None = None) -> int:
    return _ask(url, f"oct_{number:016x}_guess", forwarded).status_code


def test_guessing_shuts_no_valid_key_out(memory: EpisodicMemory):
    with rest_server.serving(memory) as url:
        codes = [_guess(url, number) for number in range(25)]
        assert (codes[:20], codes[20:]) == ([401] * 20, [429] * 5)
        # Made after the address was locked, so that nobody has seen it before.
        assert _ask(url, rest_server.token(memory)).status_code == 200
        assert _guess(url) == 429


def test_guessing_shuts_no_valid_jwt_out(memory: EpisodicMemory, issuer: Issuer):
    with rest_server.serving(memory, _settings(issuer.url)) as url:
        assert [_guess(url, number) for number in range(21)][-1] == 429
        assert _ask(url, _jwt()).status_code == 200


def test_the_name_that_a_caller_gives_its_address_counts_for_nothing(memory: EpisodicMemory):
    with rest_server.serving(memory) as url:
        codes = [_guess(url, number, f"10.0.0.{number}") for number in range(25)]
        assert codes[20:] == [429] * 5


def test_a_trusted_proxy_names_the_caller(memory: EpisodicMemory):
    settings = ServerSettings(trusted_proxies="127.0.0.1, 192.168.0.0/24")
    with rest_server.serving(memory, settings) as url:
        # The proxy appends the address that it sees to what the caller sent.
        codes = [_guess(url, number, f"10.0.1.{number}, 10.0.0.9") for number in range(25)]
        assert codes[20:] == [429] * 5
        assert _guess(url, forwarded="10.0.0.9, 192.168.0.7") == 429
        assert _guess(url, forwarded="10.0.1.3") == 401
        assert _guess(url) == 401


def test_addresses_of_one_ipv6_network_are_one(memory: EpisodicMemory):
    settings = ServerSettings(trusted_proxies="127.0.0.1")
    with rest_server.serving(memory, settings) as url:
        codes = [_guess(url, number, f"2001:db8:1:2::{number:x}") for number in range(21)]
        assert codes[20] == 429
        assert _guess(url, forwarded="2001:db8:1:3::1") == 401


@pytest.mark.parametrize("given", ["*", "proxy.internal", "10.0.0.0/99", "127.0.0.1;::1"])
def test_only_addresses_can_be_trusted(given: str):
    with pytest.raises(InvalidSetting, match=r"server\.trusted_proxies.* must be addresses"):
        ServerSettings(trusted_proxies=given)


def test_an_issuer_that_cannot_be_reached_is_no_guess(memory: EpisodicMemory):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        settings = _settings(f"http://127.0.0.1:{taken.getsockname()[1]}/jwks.json")
        with rest_server.serving(memory, settings) as url:
            answers = [_ask(url, _jwt()) for _ in range(25)]
            assert {each.status_code for each in answers} == {503}
            assert answers[0].json()["type"] == "urn:octopus:problem:issuer-unavailable"
            assert int(answers[0].headers["retry-after"]) >= 1
            assert _guess(url) == 401
            assert _ask(url, rest_server.token(memory)).status_code == 200


@pytest.mark.parametrize(
    ("status", "content"),
    [(500, b""), (200, b"<html>"), (200, b"[]"), (200, b'{"keys": []}'), (200, b'{"keys"')],
)
def test_an_issuer_that_answers_otherwise_is_no_guess(
    memory: EpisodicMemory, issuer: Issuer, status: int, content: bytes
):
    issuer.status, issuer.content = status, content
    with rest_server.serving(memory, _settings(issuer.url, wrong_credentials_allowed=2)) as url:
        assert [_ask(url, _jwt()).status_code for _ in range(5)] == [503] * 5
        # One try is enough for a while: each may take seconds.
        assert issuer.asked == 1
        assert [_ask(url, "a.b.c").status_code for _ in range(3)] == [401, 401, 429]


def test_keys_that_are_known_are_used_while_the_issuer_is_away(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
):
    now = [1_000.0]
    monkeypatch.setattr("octopus_memory.faces.rest.tokens.time.monotonic", lambda: now[0])
    reader = JwtReader(JwtSettings(jwks_url=issuer.url, issuer=ISSUER, audience=AUDIENCE))
    assert reader.who(_jwt()) is not None
    issuer.status = 500
    now[0] += 400
    assert reader.who(_jwt()) is not None
    assert issuer.asked == 2
    now[0] += 3_300
    with pytest.raises(IssuerUnavailable):
        reader.who(_jwt())


def test_made_up_key_ids_do_not_have_the_issuer_asked_each_time(
    memory: EpisodicMemory, issuer: Issuer
):
    with rest_server.serving(memory, _settings(issuer.url)) as url:
        for number in range(10):
            assert _ask(url, _jwt(kid=f"made-up-{number}")).status_code == 401
        assert _ask(url, _jwt()).status_code == 200
    assert issuer.asked == 1


def test_api_keys_are_taken_while_jwts_wait_for_their_issuer(
    memory: EpisodicMemory, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
):
    """More JWTs than there are threads, none of which is answered before the key is."""
    come, go = threading.Semaphore(0), threading.Event()

    def wait(*_: object) -> None:
        come.release()
        go.wait(20)

    monkeypatch.setattr(JwtReader, "who", wait)
    settings = _settings(issuer.url, threads=6)
    with rest_server.serving(memory, settings) as url, ThreadPoolExecutor(12) as pool:
        waiting = [pool.submit(_ask, url, f"a.b.{number}") for number in range(12)]
        try:
            for _ in range(4):
                assert come.acquire(timeout=10)
            right = {"Authorization": f"Bearer {rest_server.token(memory)}"}
            answer = httpx.get(f"{url}{PREFIX}/episodes", headers=right, timeout=10)
            assert answer.status_code == 200
            assert not any(each.done() for each in waiting)
        finally:
            go.set()
        assert {each.result().status_code for each in waiting} == {401}
