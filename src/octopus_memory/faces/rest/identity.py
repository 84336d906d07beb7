"""Authentication by API keys or JWTs, rate limits, and the check that a request is local."""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from contextlib import nullcontext
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Protocol

from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from ...domain.identity import AccessRole, Principal
from ...engine.privacy.api_keys import KeyRing
from ..lockout import Lockout
from .http import header
from .problems import Refused

DEVELOPER = Principal(tenant="default", role=AccessRole.ADMIN, actor="development mode")
ISSUER_RETRY_SECONDS = 5
_MOST_TRACKED = 50_000
_CHECKS_AT_ONCE = 4


class IssuerUnavailable(Exception):
    """The public keys of the JWT issuer cannot be fetched now."""


class TokenReader(Protocol):
    """Reads credentials other than API keys."""

    def who(self, token: str) -> Principal | None:
        """Return the principal of a token; None for an invalid one.

        :raises IssuerUnavailable: the keys of the issuer cannot be fetched now
        """


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Limiter:
    """A token bucket for each caller.

    It holds the requests of one minute, so that all of them may come at once, and is refilled
    evenly.
    """

    def __init__(self, per_minute: int) -> None:
        self._rate = per_minute / 60
        self._most = float(per_minute)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Return how many seconds the caller must wait; zero if it need not."""
        now = time.monotonic()
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._buckets[caller] = _Bucket(self._most, now)
            if len(self._buckets) > _MOST_TRACKED:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(caller)
        bucket.left = min(self._most, bucket.left + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.left < 1:
            return (1 - bucket.left) / self._rate
        bucket.left -= 1
        return 0.0


class Gate:
    """Authenticates every request that can reach data."""

    def __init__(
        self,
        ring: KeyRing,
        *,
        tokens: TokenReader | None,
        limiter: Limiter,
        lockout: Lockout,
        development: bool,
    ) -> None:
        self._ring = ring
        self._tokens = tokens
        self._limiter = limiter
        self._lockout = lockout
        self._development = development
        # Guessers and a slow JWT issuer may block only a few of the threads that check credentials.
        self._guesses = asyncio.Semaphore(_CHECKS_AT_ONCE)
        self._token_checks = asyncio.Semaphore(_CHECKS_AT_ONCE)

    async def admit(self, scope: Scope) -> Principal:
        principal = await self._who(scope)
        wait = self._limiter.wait(f"{principal.tenant}\0{principal.actor}")
        if wait:
            raise _too_many("too many requests with this credential", wait)
        return principal

    async def _who(self, scope: Scope) -> Principal:
        scheme, _, token = (header(scope, b"authorization") or "").partition(" ")
        if not token and self._development:
            check_local(scope)
            return DEVELOPER
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise _unauthorized("send a credential: Authorization: Bearer <key>")
        principal = self._ring.remembered(token)
        if principal is not None:
            return principal
        host = scope["client"][0] if scope.get("client") else ""
        locked = self._lockout.left(host)
        principal = await self._checked(token, is_suspect=locked > 0)
        if principal is not None:
            return principal
        # Only instead of a 401, because others may send valid credentials from the same address.
        if locked:
            raise _too_many("too many wrong credentials from this address", locked)
        self._lockout.failed(host)
        raise _unauthorized("the credential is not valid, or has expired")

    async def _checked(self, token: str, *, is_suspect: bool) -> Principal | None:
        """Return the principal of a credential; None for an invalid one."""
        async with self._guesses if is_suspect else nullcontext():
            principal = await run_in_threadpool(self._ring.who, token)
        if principal is not None or self._tokens is None:
            return principal
        try:
            async with self._token_checks:
                return await run_in_threadpool(self._tokens.who, token)
        except IssuerUnavailable as error:
            raise Refused(
                503,
                "issuer-unavailable",
                "the keys of the JWT issuer cannot be fetched now. Try again later.",
                headers={"Retry-After": str(ISSUER_RETRY_SECONDS)},
            ) from error


def need(principal: Principal, *roles: AccessRole) -> None:
    """Check the role.

    :raises Refused: the role is not among `roles`
    """
    if principal.role not in roles:
        raise Refused(403, "forbidden", f"the role {principal.role} may not do this")


def _unauthorized(detail: str) -> Refused:
    return Refused(401, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})


def _too_many(detail: str, wait: float) -> Refused:
    seconds = str(max(1, round(wait + 0.5)))
    return Refused(429, "too-many-requests", detail, headers={"Retry-After": seconds})


_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::([0-9]{1,5}))?", re.IGNORECASE)
_LAST_PORT = 65_535
_FORWARDING = frozenset(
    {
        b"cf-connecting-ip",
        b"fastly-client-ip",
        b"fly-client-ip",
        b"forwarded",
        b"true-client-ip",
        b"via",
        b"x-client-ip",
        b"x-cluster-client-ip",
        b"x-original-forwarded-for",
        b"x-original-host",
        b"x-real-ip",
    }
)
_FORWARDED = b"x-forwarded-"


def check_local(scope: Scope) -> None:
    """Refuse requests from other machines, from proxies and from pages of other sites.

    The address alone does not tell, because a proxy on this machine has a loopback address too;
    nor does Host, because a proxy may put its own.

    :raises Refused: it is not this machine's own
    """
    names = [name for name, _ in scope["headers"]]
    if any(name in _FORWARDING or name.startswith(_FORWARDED) for name in names):
        raise _refused("development mode does not accept requests from a proxy")
    if not _is_loopback(scope["client"][0] if scope.get("client") else ""):
        raise _refused("development mode accepts requests from this machine only")
    hosts = _values(scope, b"host")
    if len(hosts) != 1 or not _is_local_host(hosts[0]):
        raise _refused(
            "development mode accepts requests from this machine only: Host must be localhost"
        )
    if not all(is_own_page(scope, origin) for origin in _values(scope, b"origin")):
        raise _refused("development mode does not accept requests from pages of other sites")


def is_own_page(scope: Scope, origin: str) -> bool:
    """Return whether an origin is this service, reached by a name of this machine.

    Any other name in Host may be one that an attacker has made to lead here (DNS rebinding).
    """
    hosts = _values(scope, b"host")
    if len(hosts) != 1 or not _is_local_host(hosts[0]):
        return False
    return origin in {f"http://{hosts[0]}", f"https://{hosts[0]}"}


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _is_local_host(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and int(found[1] or 0) <= _LAST_PORT


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for each, value in scope["headers"] if each == name]


def _refused(detail: str) -> Refused:
    return Refused(403, "forbidden", detail)
