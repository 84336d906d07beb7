"""API keys: made, rotated, revoked, and known again when they come."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...domain import identity
from ...domain.audit import AuditDraft
from ...domain.errors import InvalidInput
from ...domain.identity import AccessRole, ApiKey, Principal
from ..core import audit
from ..core.runtime import Runtime

_KNOWN_SECONDS = 2.0
"""How soon a key that another process revoked is refused here."""
_NOTED_SECONDS = 60.0
"""How often the last use of a key is written down."""
_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key and its token, which is shown this once and cannot be had again."""

    key: ApiKey
    token: str


class ApiKeys:
    """The operator's calls about API keys: `Memory.api_keys`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def create(
        self,
        *,
        tenant: str,
        role: AccessRole | str,
        name: str,
        agents: Sequence[str] | None = None,
        user: str | None = None,
        expires_at: datetime | None = None,
        actor: str = "library",
    ) -> NewKey:
        """Create a key and return it with its token, which is not stored."""
        return make_key(
            self._runtime,
            tenant=tenant,
            role=role,
            name=name,
            agents=agents,
            user=user,
            expires_at=expires_at,
            actor=actor,
        )

    def rotate(self, key_id: str, *, grace: timedelta, actor: str = "library") -> NewKey:
        """Create a key with the same rights; the old one expires after `grace`."""
        return rotate_key(self._runtime, key_id, grace=grace, actor=actor)

    def revoke(self, key_id: str, *, actor: str = "library") -> None:
        """End a key. Services that have cached it refuse it within seconds."""
        revoke_key(self._runtime, key_id, actor=actor)

    def list(self, tenant: str | None = None) -> list[ApiKey]:
        """Return the keys of one tenant, or of all, without their tokens."""
        return self._runtime.store.list_keys(tenant)

    def find(self, key_id: str) -> ApiKey | None:
        """Return a key of any tenant; None for an unknown id."""
        found = self._runtime.store.find_key(key_id)
        return None if found is None else found[0]

    def ring(self) -> KeyRing:
        """Make the cache by which a service authenticates tokens."""
        return KeyRing(self._runtime)


def make_key(
    runtime: Runtime,
    *,
    tenant: str,
    role: AccessRole | str,
    name: str,
    agents: Sequence[str] | None = None,
    user: str | None = None,
    expires_at: datetime | None = None,
    actor: str,
) -> NewKey:
    if expires_at is not None and expires_at <= runtime.clock.now():
        raise InvalidInput("expires_at", "is over already: give a time to come")
    secret = identity.new_secret()
    key = ApiKey(
        id=identity.new_key_id(),
        tenant=tenant,
        role=_role(role),
        name=name,
        agents=None if agents is None else tuple(agents),
        user=user,
        created_at=runtime.clock.now(),
        expires_at=expires_at,
    )
    entry = _entry(runtime, key, "make_key", actor)
    runtime.store.put_key(key, identity.secret_hash(secret), entry=entry)
    return NewKey(key=key, token=identity.as_token(key.id, secret))


def rotate_key(runtime: Runtime, key_id: str, *, grace: timedelta, actor: str) -> NewKey:
    """A new key with the same rights; the old one works until the grace is over."""
    old = _known(runtime, key_id)
    now = runtime.clock.now()
    if not old.is_valid(now):
        raise InvalidInput("key", f"{key_id} has ended already: make a new one")
    try:
        ends_at = now + grace
    except OverflowError as error:
        raise InvalidInput("grace", "is longer than the calendar: give fewer hours") from error
    made = make_key(
        runtime,
        tenant=old.tenant,
        role=old.role,
        name=old.name,
        agents=old.agents,
        user=old.user,
        expires_at=old.expires_at,
        actor=actor,
    )
    entry = _entry(runtime, old, "rotate_key", actor)
    runtime.store.end_key(key_id, revoked_at=None, expires_at=ends_at, entry=entry)
    return made


def revoke_key(runtime: Runtime, key_id: str, *, actor: str) -> None:
    key, now = _known(runtime, key_id), runtime.clock.now()
    entry = _entry(runtime, key, "revoke_key", actor)
    runtime.store.end_key(key_id, revoked_at=now, expires_at=now, entry=entry)


def _known(runtime: Runtime, key_id: str) -> ApiKey:
    found = runtime.store.find_key(key_id)
    if found is None:
        raise InvalidInput("key", f"there is no key {key_id!r}: octopus keys list shows them")
    return found[0]


def _role(given: AccessRole | str) -> AccessRole:
    try:
        return AccessRole(given)
    except ValueError as error:
        raise InvalidInput("role", f"must be one of {', '.join(AccessRole)}") from error


def _entry(runtime: Runtime, key: ApiKey, action: str, actor: str) -> AuditDraft:
    detail = {"key": key.id, "role": key.role.value}
    return audit.draft(runtime, action, tenant=key.tenant, actor=actor, **detail)


@dataclass(slots=True, kw_only=True)
class _Known:
    """A key as the database had it at a time, by this process's clock."""

    at: float
    key: ApiKey
    kept: bytes
    principal: Principal
    is_asked_for: bool = False
    """Whether somebody is asking the database anew."""


class KeyRing:
    """Knows a token again without asking the database each time. Thread-safe."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: dict[str, _Known] = {}
        self._noted: dict[str, float] = {}
        self._lock = threading.Lock()

    def remembered(self, token: str) -> Principal | None:
        """Who a token stands for, as far as it can be said without asking the database."""
        split = identity.split_token(token)
        if split is None:
            return None
        key_id, secret = split
        known = self._known.get(key_id)
        age = _KNOWN_SECONDS if known is None else time.monotonic() - known.at
        if known is None or age >= _KNOWN_SECONDS:
            return None
        if age > _KNOWN_SECONDS / 2 and not known.is_asked_for:
            # One asks in good time, so that not all who come with this key wait at once.
            known.is_asked_for = True
            return None
        return self._judge(known, secret)

    def who(self, token: str) -> Principal | None:
        """Who a token stands for; None for one that is unknown, revoked, expired or wrong."""
        split = identity.split_token(token)
        if split is None:
            return None
        key_id, secret = split
        asked_at = time.monotonic()
        found = self._runtime.store.find_key(key_id)
        known = None
        if found is not None:
            key, kept = found
            known = _Known(at=asked_at, key=key, kept=kept, principal=key.principal())
            with self._lock:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                newest = self._known.get(key_id)
                # A slow answer must not take the place of a newer one.
                if newest is None or newest.at <= asked_at:
                    self._known[key_id] = known
        principal = self._judge(known, secret)
        if principal is not None:
            self._note_use(key_id)
        return principal

    def _judge(self, known: _Known | None, secret: str) -> Principal | None:
        # An unknown id costs as much as a wrong secret, so that the time tells nothing.
        right = identity.same(identity.secret_hash(secret), known.kept if known else b"")
        if known is None or not right or not known.key.is_valid(self._runtime.clock.now()):
            return None
        return known.principal

    def _note_use(self, key_id: str) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._noted.get(key_id, -_NOTED_SECONDS) < _NOTED_SECONDS:
                return
            if len(self._noted) >= _MOST_KNOWN:
                self._noted.clear()
            self._noted[key_id] = now
        self._runtime.store.set_key_used(key_id, self._runtime.clock.now())
