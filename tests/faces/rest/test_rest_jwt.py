"""JWTs as credentials: only those that the issuer signed, for us, and now."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from octopus_memory import EpisodicMemory
from octopus_memory.faces.exchange import MCP_PATH
from octopus_memory.faces.rest.app import PREFIX
from octopus_memory.faces.rest.tokens import JwtReader
from octopus_memory.settings import JwtSettings, ServerSettings
from tests.support import rest_server

ISSUER, AUDIENCE = "https://login.example.com/", "octopus"
ALGORITHMS = ("RS256", "ES256")


@cache
def _key(owner: str) -> Any:
    """The issuer's key for an algorithm, or a stranger's; made when first used, as it is slow."""
    if owner == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def jwks_url() -> Iterator[str]:
    published = []
    for name in ALGORITHMS:
        algorithm = jwt.get_algorithm_by_name(name)
        entry = algorithm.to_jwk(_key(name).public_key(), as_dict=True)
        published.append({**entry, "kid": name, "alg": name, "use": "sig"})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"keys": published}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/jwks.json"
    server.shutdown()
    server.server_close()


@pytest.fixture
def url(tmp_path: Path, jwks_url: str) -> Iterator[str]:
    settings = ServerSettings(
        wrong_credentials_allowed=1_000,
        jwt=JwtSettings(jwks_url=jwks_url, issuer=ISSUER, audience=AUDIENCE),
    )
    path = tmp_path / "memory.db"
    with EpisodicMemory.open(path, embedder="hashing", background=False) as memory:
        memory.scope(tenant="acme", agent="hr", user="ana").store(
            [("user", "hello")], session_id="s", summary="A greeting."
        )
        with rest_server.serving(memory, settings) as base:
            yield base + PREFIX


def _token(algorithm: str = "RS256", signer: str | None = None, **claims: Any) -> str:
    body = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": datetime.now(UTC) + timedelta(minutes=5),
        "sub": "ana",
        "tenant": "acme",
        "role": "admin",
    } | claims
    body = {name: value for name, value in body.items() if value is not None}
    key = _key(signer or algorithm)
    return jwt.encode(body, key, algorithm=algorithm, headers={"kid": algorithm})


def _listed(url: str, token: str, **query: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{url}/episodes", headers=headers, params=query)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signed_token_is_taken(url: str, algorithm: str):
    answer = _listed(url, _token(algorithm))
    assert answer.status_code == 200
    assert answer.json()["totalCount"] == 1


def test_claims_say_whose_data_it_is(url: str):
    assert _listed(url, _token(tenant="other")).json()["totalCount"] == 0
    assert _listed(url, _token(role="user")).json()["totalCount"] == 1
    assert _listed(url, _token(role="user", sub="ben")).json()["totalCount"] == 0
    assert _listed(url, _token(role="user", sub="ben"), userId="ana").status_code == 403
    assert _listed(url, _token(role="agent", agents=["sales"])).json()["totalCount"] == 0


def test_nobodys_own_call_is_recorded_under_their_name():
    """Whichever claim that is in."""
    settings = JwtSettings(
        jwks_url="https://x.example.com/jwks", issuer=ISSUER, audience=AUDIENCE, user_claim="email"
    )
    claims = {"sub": "ana.lopez", "email": "ana@example.com", "tenant": "acme"}
    reader = JwtReader(settings)
    assert reader._principal(claims | {"role": "user"}).actor == "jwt:ana@example.com"
    assert reader._principal(claims | {"role": "admin"}).actor == "jwt:ana.lopez"


REFUSED = {
    "another's signature": {"signer": "stranger"},
    "expired": {"exp": datetime.now(UTC) - timedelta(hours=1)},
    "no expiry": {"exp": None},
    "another issuer": {"iss": "https://elsewhere.example.com/"},
    "another audience": {"aud": "somebody else"},
    "no tenant": {"tenant": None},
    "an empty tenant": {"tenant": ""},
    "a tenant that is no text": {"tenant": 3},
    "no role": {"role": None},
    "a role that is none": {"role": "root"},
    "a user role without a user": {"role": "user", "sub": None},
    "agents that are no list": {"agents": 3},
}


@pytest.mark.parametrize("changes", REFUSED.values(), ids=REFUSED)
def test_any_other_token_is_refused(url: str, changes: dict[str, Any]):
    assert _listed(url, _token(**changes)).status_code == 401


def test_an_unsigned_or_symmetric_token_is_refused(url: str):
    body = jwt.decode(_token(), options={"verify_signature": False})
    unsigned = jwt.encode(body, None, algorithm="none", headers={"kid": "RS256"})
    symmetric = jwt.encode(body, "s" * 64, algorithm="HS256", headers={"kid": "RS256"})
    for token in (unsigned, symmetric, "a.b.c", "x" * 5_000):
        assert _listed(url, token).status_code == 401


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"role": "user"}, 200),
        ({"role": "agent", "agents": ["hr"]}, 200),
        ({"role": "auditor"}, 403),
        ({"role": "agent", "agents": ["sales"]}, 403),
        ({"role": "user", "sub": "ben"}, 403),
        ({"exp": datetime.now(UTC) - timedelta(hours=1)}, 401),
    ],
)
def test_a_jwt_opens_mcp_as_it_opens_the_routes(url: str, claims: dict, status: int):
    answer = httpx.post(
        url.removesuffix(PREFIX) + MCP_PATH,
        params={"agent": "hr", "user": "ana"},
        headers={"Authorization": f"Bearer {_token(**claims)}"},
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "recent", "arguments": {}},
        },
    )
    assert answer.status_code == status
    assert ("A greeting." in answer.text) is (status == 200)
