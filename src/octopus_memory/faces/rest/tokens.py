"""JWTs as credentials, checked with the published keys of their issuer."""

from __future__ import annotations

import logging
import math
import threading
import time
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any

import jwt

from ...domain.errors import InvalidInput
from ...domain.identity import AccessRole, Credential, Principal
from ...settings import JwtSettings
from .identity import ISSUER_RETRY_SECONDS, IssuerUnavailable

log = logging.getLogger(__name__)
_ALGORITHMS = ("RS256", "ES256")
"""Asymmetric algorithms only, because anyone with the public key could forge the others."""
_LEEWAY_SECONDS = 30
_FETCH_SECONDS = 5
_FRESH_SECONDS = 300.0
_UNKNOWN_SECONDS = 30.0
"""Seconds between fetches for unknown key ids, which anyone can send."""
_STALE_SECONDS = 3_600.0
_INVALID = (
    *(jwt.PyJWTError, InvalidInput, ValueError, TypeError, KeyError),
    # Of an expiry beyond the calendar.
    *(OverflowError, OSError),
)


class IssuerKeys:
    """The public keys of the issuer by id. Thread-safe.

    They are fetched when they are first needed, when they are old, and for an id that is not among
    them. A fetch that fails is not tried again at once, because each try may take seconds; until
    one succeeds, the keys that are known are used for an hour.
    """

    def __init__(self, url: str) -> None:
        self._client = jwt.PyJWKClient(url, cache_jwk_set=False, timeout=_FETCH_SECONDS)
        self._lock = threading.Lock()
        self._keys: dict[str, Any] = {}
        self._fetched_at = -math.inf
        self._failed_at = -math.inf

    def find(self, key_id: Any) -> Any | None:
        """Return a key; None if the issuer has none of this id.

        :raises IssuerUnavailable: it is not known, and the issuer's keys cannot be fetched
        """
        with self._lock:
            age = time.monotonic() - self._fetched_at
            known = self._keys.get(key_id) if isinstance(key_id, str) else None
            is_due = age > _FRESH_SECONDS or (known is None and age > _UNKNOWN_SECONDS)
            if not is_due or self._refresh():
                return self._keys.get(key_id) if isinstance(key_id, str) else None
            if known is None or age > _STALE_SECONDS:
                raise IssuerUnavailable
            return known

    def _refresh(self) -> bool:
        if time.monotonic() - self._failed_at < ISSUER_RETRY_SECONDS:
            return False
        try:
            found = self._client.get_signing_keys()
        except (jwt.PyJWTError, OSError, ValueError, HTTPException) as error:
            log.warning("could not fetch the keys of the JWT issuer: %s", type(error).__name__)
            self._failed_at = time.monotonic()
            return False
        self._keys = {key.key_id: key.key for key in found if key.key_id}
        self._fetched_at = time.monotonic()
        return True


class JwtReader:
    """Accepts tokens with a valid signature, issuer, audience and times."""

    def __init__(self, settings: JwtSettings) -> None:
        self._settings = settings
        self._keys = IssuerKeys(settings.jwks_url or "")

    def who(self, token: str) -> Principal | None:
        found = self.read(token)
        return None if found is None else found.principal

    def read(self, token: str) -> Credential | None:
        """Return the principal of a token with its expiry; None for an invalid one.

        :raises IssuerUnavailable: the keys of the issuer cannot be fetched now
        """
        try:
            claims = jwt.decode(
                token,
                self._key(token),
                algorithms=list(_ALGORITHMS),
                issuer=self._settings.issuer,
                audience=self._settings.audience,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
            return Credential(
                principal=self._principal(claims),
                expires_at=datetime.fromtimestamp(claims["exp"], UTC),
            )
        except _INVALID as error:
            log.info("refused a JWT: %s", type(error).__name__)
        return None

    def _key(self, token: str) -> Any:
        head = jwt.get_unverified_header(token)
        # Checked first, so that a token that is refused anyway causes no fetch of keys.
        if head.get("alg") not in _ALGORITHMS:
            raise ValueError(f"alg must be one of {', '.join(_ALGORITHMS)}")
        key = self._keys.find(head.get("kid"))
        if key is None:
            raise KeyError("kid")
        return key

    def _principal(self, claims: dict[str, Any]) -> Principal:
        settings = self._settings
        role = AccessRole(claims[settings.role_claim])
        user = claims.get(settings.user_claim)
        agents = claims.get(settings.agents_claim)
        # The audit log leaves out actors of this form from entries about their own data.
        name = user if role is AccessRole.USER else claims.get("sub", "unknown")
        return Principal(
            tenant=claims[settings.tenant_claim],
            role=role,
            actor=f"jwt:{name}"[:256],
            agents=None if agents is None else _listed(agents),
            user=user if role is AccessRole.USER else None,
        )


def _listed(agents: Any) -> frozenset[str]:
    """Return the agents of a token. A string would be read letter by letter."""
    if not isinstance(agents, list) or not all(isinstance(agent, str) for agent in agents):
        raise ValueError("agents must be a list of strings")
    return frozenset(agents)
