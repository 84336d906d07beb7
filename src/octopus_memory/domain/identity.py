"""Access control of the service: roles, principals and API keys."""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from .episode import check_name
from .errors import InvalidInput

PREFIX = "oct"
ACTING_AS = " as "
"""Stands in the audit log between a credential and the actor that its holder named."""


MOST_AGENTS = 1_000
"""Maximum number of agents of a credential: every listing names them in one statement."""


class AccessRole(StrEnum):
    AGENT = "agent"
    """May write and recall as its agents, for every user."""
    USER = "user"
    """May read, export and erase one user's own data."""
    ADMIN = "admin"
    """May do everything in the tenant."""
    AUDITOR = "auditor"
    """May read metadata and the audit log, but no conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The identity and rights of a credential."""

    tenant: str
    role: AccessRole
    actor: str
    """Name in the audit log."""
    agents: frozenset[str] | None = None
    """Agents it may use; None for all of the tenant's."""
    user: str | None = None
    """User whose data it may read; None for all."""

    def __post_init__(self) -> None:
        check_name("tenant", self.tenant, longest=100)
        check_name("actor", self.actor)
        if self.role is AccessRole.USER and self.user is None:
            raise InvalidInput("user", "must be given for a credential with the role user")
        if self.user is not None:
            check_name("user", self.user)
        if self.agents is not None and len(self.agents) > MOST_AGENTS:
            raise InvalidInput("agents", f"must be at most {MOST_AGENTS:,}, or left out for all")
        for agent in self.agents or ():
            check_name("agent", agent)

    def acting_as(self, named: str) -> Principal:
        """The principal whose calls the audit log records with the actor that it named.

        The credential's own name stays in the entry, so nobody can act in another's name alone. A
        credential for one user, or one that may only look, names no other actor.

        :raises InvalidInput: for a name that the log cannot hold
        """
        longest = 256 - len(self.actor) - len(ACTING_AS)
        check_name("Octopus-Actor", named, longest=max(1, longest))
        if self.user is not None or self.role not in {AccessRole.AGENT, AccessRole.ADMIN}:
            return self
        return replace(self, actor=f"{self.actor}{ACTING_AS}{named}")

    def reaches(self, *, agent: str | None = None, user: str | None = None) -> bool:
        """True if the principal may access data of this agent and this user."""
        if agent is not None and self.agents is not None and agent not in self.agents:
            return False
        return user is None or self.user is None or user == self.user


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A verified credential that expires by itself, such as a JWT."""

    principal: Principal
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key as stored, without its secret."""

    id: str
    tenant: str
    role: AccessRole
    name: str
    agents: tuple[str, ...] | None = None
    user: str | None = None
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name, longest=100)
        # Raises for a key without a valid principal.
        self.principal()

    def is_valid(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def principal(self) -> Principal:
        return Principal(
            tenant=self.tenant,
            role=self.role,
            actor=f"key:{self.id}",
            agents=None if self.agents is None else frozenset(self.agents),
            user=self.user,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key and its token, which is not stored and cannot be shown again."""

    key: ApiKey
    token: str


def new_key_id() -> str:
    return secrets.token_hex(8)


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def as_token(key_id: str, secret: str) -> str:
    return f"{PREFIX}_{key_id}_{secret}"


def split_token(token: str) -> tuple[str, str] | None:
    """Id and secret of an Octopus token; None for any other text."""
    prefix, _, rest = token.partition("_")
    key_id, _, secret = rest.partition("_")
    return (key_id, secret) if prefix == PREFIX and key_id and secret else None


def secret_hash(secret: str) -> bytes:
    """SHA-256 of a secret. A slow hash is not needed, because the secret has 256 random bits."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def same(one: bytes, other: bytes) -> bool:
    return hmac.compare_digest(one, other)
