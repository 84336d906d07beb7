"""JWTs as credentials: signed by somebody whose keys are published."""

from __future__ import annotations

import logging
from typing import Any

import jwt

from ...domain.errors import InvalidInput
from ...domain.identity import AccessRole, Principal
from ...settings import JwtSettings

log = logging.getLogger(__name__)
_ALGORITHMS = ("RS256", "ES256")
"""Only signatures that the holder of a public key cannot make."""
_LEEWAY_SECONDS = 30


class JwtReader:
    """Takes a token whose signature, issuer, audience and times are right."""

    def __init__(self, settings: JwtSettings) -> None:
        self._settings = settings
        self._keys = jwt.PyJWKClient(settings.jwks_url or "", timeout=5)

    def who(self, token: str) -> Principal | None:
        try:
            key = self._keys.get_signing_key_from_jwt(token)
            claims = jwt.decode(
                token,
                key.key,
                algorithms=list(_ALGORITHMS),
                issuer=self._settings.issuer,
                audience=self._settings.audience,
                leeway=_LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
            return self._principal(claims)
        except jwt.PyJWKClientConnectionError as error:
            log.warning("the keys for JWTs cannot be fetched: %s", type(error).__name__)
        except (jwt.PyJWTError, InvalidInput, ValueError, TypeError, KeyError) as error:
            log.info("a JWT was refused: %s", type(error).__name__)
        return None

    def _principal(self, claims: dict[str, Any]) -> Principal:
        settings = self._settings
        role = AccessRole(claims[settings.role_claim])
        user = claims.get(settings.user_claim)
        agents = claims.get(settings.agents_claim)
        # By the name that the audit log knows not to keep of somebody's own calls.
        name = user if role is AccessRole.USER else claims.get("sub", "unknown")
        return Principal(
            tenant=claims[settings.tenant_claim],
            role=role,
            actor=f"jwt:{name}"[:256],
            agents=None if agents is None else _listed(agents),
            user=user if role is AccessRole.USER else None,
        )


def _listed(agents: Any) -> frozenset[str]:
    """A text would be taken letter by letter."""
    if not isinstance(agents, list) or not all(isinstance(agent, str) for agent in agents):
        raise ValueError("agents must be a list of texts")
    return frozenset(agents)
