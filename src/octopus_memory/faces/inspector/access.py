"""Signing in to the inspector: the session cookie and tokens against forged requests.

The cookie for an API key names the key and a time, signed with a key that is derived from the
database's secret and from the stored hash of the API key. Every process of a service can check it,
and it ends when the API key is revoked, rotated away or expires.

The cookie for a JWT holds the token's principal and expiry, not the token, signed with the
database's secret. It ends when the token expires.

Signing out records the visit in the database as ended, so that its cookie is worth nothing.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256

from ...domain.errors import InvalidInput
from ...domain.identity import AccessRole, ApiKey, Credential, Principal
from ...engine.memory import Memory

COOKIE = "octopus_inspector"
SECONDS = 12 * 3_600
"""Lifetime of a visit after signing in."""
_LOCAL = "local"
_COOKIE_PARTS = 3
_JWT = "jwt-"
_LONGEST_COOKIE = 3_800
"""Characters. Browsers drop a cookie above four kilobytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """A signed-in person, with the role and reach of the credential."""

    principal: Principal
    every_tenant: bool = False
    """True for the operator of this machine, who is bound to no tenant."""
    cookie: str = ""

    @property
    def csrf(self) -> str:
        """Token that every form of this visit carries."""
        return hmac.new(self.cookie.encode(), b"csrf", sha256).hexdigest()

    def seal(self, message: str) -> str:
        """Return the proof that a message in an address was written by the server."""
        return hmac.new(self.cookie.encode(), b"said\0" + message.encode(), sha256).hexdigest()[:32]

    def in_tenant(self, tenant: str | None) -> Visitor:
        """Return the visitor in another tenant, if the visitor is bound to none."""
        if not tenant or not self.every_tenant:
            return self
        return replace(self, principal=replace(self.principal, tenant=tenant))

    def may(self, *roles: AccessRole) -> bool:
        return self.principal.role in roles

    @property
    def is_whole(self) -> bool:
        """True if the credential is for the whole tenant, not for some agents or one user."""
        return self.principal.agents is None and self.principal.user is None

    @property
    def sees_content(self) -> bool:
        return self.principal.role is not AccessRole.AUDITOR


class SignIn:
    """Checks credentials and cookies. Thread-safe."""

    def __init__(
        self,
        memory: Memory,
        *,
        local_token: str | None = None,
        read_token: Callable[[str], Credential | None] | None = None,
    ) -> None:
        """`local_token` lets the operator of this machine in without an API key.

        `read_token` verifies a JWT. Without it no JWT is accepted, nor a cookie made for one.
        """
        self.cookie_name = COOKIE
        if local_token is not None:
            # Browsers send cookies to every port, so each program on this machine has its own.
            self.cookie_name += f"_{sha256(local_token.encode()).hexdigest()[:12]}"
        self.takes_jwts = read_token is not None
        self._read_token = read_token
        self._memory = memory
        self._ring = memory.api_keys.ring()
        self._local_token = local_token

    def with_key(self, token: str) -> str | None:
        """Return the cookie for an API key, or None if the key is not valid."""
        principal = self._ring.who(token)
        if principal is None:
            return None
        return self._signed(principal.actor.removeprefix("key:"))

    def with_jwt(self, token: str) -> str | None:
        """Return the cookie for a JWT, or None if the token is not valid.

        :raises InvalidInput: its claims do not fit into a cookie
        """
        found = None if self._read_token is None else self._read_token(token)
        if found is None:
            return None
        cookie = self._signed(_packed(found))
        if len(cookie) > _LONGEST_COOKIE:
            raise InvalidInput("token", "must name fewer agents: they do not fit into a cookie")
        return cookie

    @property
    def is_local(self) -> bool:
        """True where an address with a token lets the operator of this machine in."""
        return self._local_token is not None

    def with_local_token(self, given: str) -> str | None:
        """Return the cookie for the token that `octopus inspect` put into the address."""
        if self._local_token is None or not secrets.compare_digest(
            given.encode(), self._local_token.encode()
        ):
            return None
        return self._signed(_LOCAL)

    def visitor(self, cookie: str) -> Visitor | None:
        """Return the owner of a cookie, or None if it is unknown, changed or expired."""
        parts = cookie.split(".")
        if len(parts) != _COOKIE_PARTS or not parts[1].isdigit():
            return None
        name, issued, _ = parts
        right = self._signature(name, issued)
        if right is None or not secrets.compare_digest(cookie.encode(), right.encode()):
            return None
        if not 0 <= time.time() - int(issued) < SECONDS or self._has_ended(cookie):
            return None
        if name == _LOCAL:
            return local_operator(cookie)
        if name.startswith(_JWT):
            principal = _unpacked(name)
            return None if principal is None else Visitor(principal=principal, cookie=cookie)
        key = self._key(name)
        return None if key is None else Visitor(principal=key.principal(), cookie=cookie)

    def end(self, cookie: str) -> None:
        """End a visit in every process, before its time."""
        if cookie:
            self._memory.api_keys.end_visit(*_visit_of(cookie))

    def _has_ended(self, cookie: str) -> bool:
        return self._memory.api_keys.has_visit_ended(*_visit_of(cookie))

    def _signed(self, name: str) -> str:
        return self._signature(name, str(int(time.time()))) or ""

    def _signature(self, name: str, issued: str) -> str | None:
        secret = self._secret(name)
        if secret is None:
            return None
        mac = hmac.new(secret, f"{name}.{issued}".encode(), sha256).hexdigest()
        return f"{name}.{issued}.{mac}"

    def _secret(self, name: str) -> bytes | None:
        if name == _LOCAL:
            token = self._local_token
            return None if token is None else sha256(b"inspector\0" + token.encode()).digest()
        if name.startswith(_JWT):
            return self._memory.api_keys.signing_secret() if self.takes_jwts else None
        return self._memory.api_keys.signing_secret_of(name)

    def _key(self, key_id: str) -> ApiKey | None:
        found = self._memory.api_keys.find(key_id)
        return found if found is not None and found.is_valid(self._memory.now()) else None


def _visit_of(cookie: str) -> tuple[str, datetime]:
    """Return the id of a signed cookie's visit, and the time at which it ends by itself."""
    until = datetime.fromtimestamp(int(cookie.split(".")[1]) + SECONDS, UTC)
    return sha256(cookie.encode()).hexdigest()[:32], until


def local_operator(cookie: str = "") -> Visitor:
    """Return the operator of this machine: an administrator of every tenant."""
    principal = Principal(tenant="default", role=AccessRole.ADMIN, actor="inspector")
    return Visitor(principal=principal, every_tenant=True, cookie=cookie)


def _packed(credential: Credential) -> str:
    principal = credential.principal
    body = {
        "tenant": principal.tenant,
        "role": principal.role.value,
        "actor": principal.actor,
        "agents": None if principal.agents is None else sorted(principal.agents),
        "user": principal.user,
        "until": credential.expires_at.timestamp(),
    }
    return _JWT + urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")


def _unpacked(name: str) -> Principal | None:
    """Return the principal of a signed cookie, or None if its token has expired."""
    packed = name.removeprefix(_JWT)
    body = json.loads(urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    if time.time() >= body["until"]:
        return None
    agents = body["agents"]
    return Principal(
        tenant=body["tenant"],
        role=AccessRole(body["role"]),
        actor=body["actor"],
        agents=None if agents is None else frozenset(agents),
        user=body["user"],
    )
