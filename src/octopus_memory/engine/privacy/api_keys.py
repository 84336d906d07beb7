"""API keys: create, rotate, revoke, and authenticate."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from ...domain import identity
from ...domain.audit import AuditDraft
from ...domain.errors import InvalidInput, StoreReadOnly
from ...domain.identity import AccessRole, ApiKey, NewKey, Principal
from ...ports.admin import ApiKeys as StoredKeys
from ...ports.models import Clock
from ..core import audit
from ..core.runtime import Runtime

_KNOWN_SECONDS = 2.0
"""Seconds that a key is cached, so another process's revocation is seen that late."""
_NOTED_SECONDS = 60.0
"""Seconds between two writes of a key's last use."""
_MOST_KNOWN = 10_000


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
        runtime = self._runtime
        if expires_at is not None and expires_at <= runtime.clock.now():
            raise InvalidInput("expires_at", "must be in the future")
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

    def rotate(self, key_id: str, *, grace: timedelta, actor: str = "library") -> NewKey:
        """Create a key with the same rights; the old one expires after `grace`."""
        old, now = _known(self._runtime, key_id), self._runtime.clock.now()
        if not old.is_valid(now):
            raise InvalidInput("key", f"{key_id} must not be expired or revoked: create a new one")
        try:
            ends_at = now + grace
        except OverflowError as error:
            raise InvalidInput("grace", "is too large") from error
        made = self.create(
            tenant=old.tenant,
            role=old.role,
            name=old.name,
            agents=old.agents,
            user=old.user,
            expires_at=old.expires_at,
            actor=actor,
        )
        entry = _entry(self._runtime, old, "rotate_key", actor)
        self._runtime.store.update_key(key_id, expires_at=ends_at, entry=entry)
        return made

    def revoke(self, key_id: str, *, actor: str = "library") -> None:
        """End a key. Services that have cached it refuse it within seconds."""
        key, now = _known(self._runtime, key_id), self._runtime.clock.now()
        entry = _entry(self._runtime, key, "revoke_key", actor)
        self._runtime.store.update_key(key_id, revoked_at=now, expires_at=now, entry=entry)

    def list(self, tenant: str | None = None) -> list[ApiKey]:
        """Return the keys of one tenant, or of all, without their tokens."""
        return self._runtime.store.list_keys(tenant)

    def find(self, key_id: str) -> ApiKey | None:
        """Return a key of any tenant; None for an unknown id."""
        found = self._runtime.store.find_key(key_id)
        return None if found is None else found[0]

    def signing_secret(self) -> bytes:
        """Derive the secret by which every process of a service signs what it gives a visitor."""
        return sha256(b"visits\0" + self._runtime.store.salt).digest()

    def signing_secret_of(self, key_id: str) -> bytes | None:
        """As `signing_secret`, for visits with a key, which end with it; None if it is unknown."""
        found = self._runtime.store.find_key(key_id)
        return None if found is None else sha256(self.signing_secret() + found[1]).digest()

    def end_visit(self, visit: str, until: datetime) -> None:
        """End a visit for every process; `until` is when it would have ended by itself."""
        self._runtime.store.end_visit(visit, until, now=self._runtime.clock.now())

    def has_visit_ended(self, visit: str, until: datetime) -> bool:
        """True if `end_visit` ended this visit."""
        return self._runtime.store.has_visit_ended(visit, until)

    def ring(self) -> KeyRing:
        """Make the cache by which a service authenticates tokens."""
        return KeyRing(self._runtime.store, self._runtime.clock)


def _known(runtime: Runtime, key_id: str) -> ApiKey:
    found = runtime.store.find_key(key_id)
    if found is None:
        raise InvalidInput("key", f"{key_id!r} does not exist: octopus keys list shows all keys")
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
    """A cached key, with the monotonic time at which it was read."""

    at: float
    key: ApiKey
    kept: bytes
    principal: Principal
    is_asked_for: bool = False
    """True while a thread reads it again."""


class KeyRing:
    """Authenticates tokens, with a cache of keys. Thread-safe."""

    def __init__(self, keys: StoredKeys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._noted: dict[str, float] = {}
        self._lock = threading.Lock()

    def remembered(self, token: str) -> Principal | None:
        """Return the principal of a token if its key is cached; None if a read is needed."""
        split = identity.split_token(token)
        if split is None:
            return None
        key_id, secret = split
        known = self._known.get(key_id)
        age = _KNOWN_SECONDS if known is None else time.monotonic() - known.at
        if known is None or age >= _KNOWN_SECONDS:
            return None
        if age > _KNOWN_SECONDS / 2 and not known.is_asked_for:
            # One thread refreshes the entry before it expires, so that not all wait at once.
            known.is_asked_for = True
            return None
        return self._judge(known, secret)

    def who(self, token: str) -> Principal | None:
        """Read a token's key and return its principal; None for an invalid token."""
        split = identity.split_token(token)
        if split is None:
            return None
        key_id, secret = split
        asked_at = time.monotonic()
        found = self._keys.find_key(key_id)
        known = None
        if found is not None:
            key, kept = found
            known = _Known(at=asked_at, key=key, kept=kept, principal=key.principal())
            with self._lock:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                newest = self._known.get(key_id)
                # A slow read must not replace a newer one.
                if newest is None or newest.at <= asked_at:
                    self._known[key_id] = known
        principal = self._judge(known, secret)
        if principal is not None:
            self._note_use(key_id)
        return principal

    def _judge(self, known: _Known | None, secret: str) -> Principal | None:
        # An unknown id takes as long as a wrong secret, against timing attacks.
        right = identity.same(identity.secret_hash(secret), known.kept if known else b"")
        if known is None or not right or not known.key.is_valid(self._clock.now()):
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
        # A service on a replica only reads, and its keys are valid all the same.
        with suppress(StoreReadOnly):
            self._keys.update_key(key_id, used_at=self._clock.now())
