"""Development mode over real HTTP: it asks for no credential, and answers this machine alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import httpx
import pytest

from octopus_memory import EpisodicMemory
from octopus_memory.faces.rest.app import make_app
from octopus_memory.faces.rest.routing import PREFIX
from octopus_memory.settings import ServerSettings
from tests.support import rest_server

FORWARDING = [
    ("X-Forwarded-For", "203.0.113.9"),
    ("X-Forwarded-Host", "memory.example.com"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Port", "443"),
    ("Forwarded", "for=203.0.113.9"),
    ("Via", "1.1 proxy"),
    ("X-Real-IP", "203.0.113.9"),
    ("X-Client-IP", "203.0.113.9"),
    ("CF-Connecting-IP", "203.0.113.9"),
    ("True-Client-IP", "203.0.113.9"),
]
MALFORMED = [
    "[::1",
    "[",
    "]",
    "127.0.0.1:99999",
    "127.0.0.1:x",
    "[::1]x",
    "@",
    "localhost@evil",
    "",
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A service that several tests only read, because its OpenAPI document takes long to make."""
    with (
        EpisodicMemory.open("sqlite:///:memory:", embedder="hashing", background=False) as memory,
        rest_server.serving(memory, development=True) as served,
    ):
        yield served


@pytest.mark.parametrize("header", FORWARDING, ids=[name for name, _ in FORWARDING])
def test_a_request_that_was_forwarded_is_refused(url: str, header: tuple[str, str]):
    """A proxy that puts its own name for Host looks like a program of this machine."""
    assert httpx.get(f"{url}{PREFIX}/episodes").status_code == 200
    answer = httpx.get(f"{url}{PREFIX}/episodes", headers=[header])
    assert answer.status_code == 403
    assert "proxy" in answer.json()["detail"]


def test_a_trusted_proxy_does_not_open_it(memory: EpisodicMemory):
    settings = ServerSettings(trusted_proxies="127.0.0.1")
    with rest_server.serving(memory, settings, development=True) as url:
        for forwarded in ("203.0.113.9", "127.0.0.1"):
            headers = {"X-Forwarded-For": forwarded}
            assert httpx.get(f"{url}{PREFIX}/episodes", headers=headers).status_code == 403


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.2", 200),
        ("::1", 200),
        ("::ffff:127.0.0.1", 200),
        ("192.168.0.7", 403),
        ("::ffff:192.168.0.7", 403),
        ("2001:db8::1", 403),
        ("", 403),
        ("elsewhere", 403),
        (None, 403),
    ],
)
def test_only_this_machine_is_answered(memory: EpisodicMemory, address: str | None, status: int):
    app = make_app(memory, ServerSettings(), development=True)

    async def ask() -> int:
        async def from_there(scope: Any, receive: Any, send: Any) -> None:
            client = None if address is None else (address, 1)
            await app(scope | {"client": client}, receive, send)

        transport = httpx.ASGITransport(app=from_there)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            return (await client.get(f"{PREFIX}/episodes")).status_code

    assert asyncio.run(ask()) == status


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_host_is_refused(url: str, name: str):
    answer = httpx.get(f"{url}{PREFIX}/episodes", headers={"Host": name})
    assert answer.status_code == 403
    for path in ("/healthz", "/docs", f"{PREFIX}/openapi.json"):
        assert httpx.get(url + path, headers={"Host": name}).status_code == 200


def test_two_hosts_are_refused(url: str):
    connection = HTTPConnection(url.removeprefix("http://"), timeout=30)
    connection.putrequest("GET", f"{PREFIX}/episodes", skip_host=True)
    for name in ("localhost", "evil.example"):
        connection.putheader("Host", name)
    connection.endheaders()
    assert connection.getresponse().status in (400, 403)
    connection.close()


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "[", "null", "", "evil"])
def test_a_malformed_origin_is_refused(url: str, origin: str):
    answer = httpx.get(f"{url}{PREFIX}/episodes", headers={"Origin": origin})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "path", [f"{PREFIX}/episodes/", "/healthz/", "/docs/docs.js/", f"{PREFIX}/holds/"]
)
@pytest.mark.parametrize("name", ["evil.example", "[::1"])
def test_no_answer_redirects_to_another_host(memory: EpisodicMemory, path: str, name: str):
    headers = {"Host": name, "Authorization": f"Bearer {rest_server.token(memory)}"}
    with rest_server.serving(memory) as url:
        answer = httpx.get(url + path, headers=headers)
        assert answer.status_code == 404
        assert "location" not in answer.headers
