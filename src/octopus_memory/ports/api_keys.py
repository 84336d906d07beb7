"""API keys: how the service identifies its callers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft
    from ..domain.identity import ApiKey


class ApiKeys(ABC):
    """Stored API keys, with hashed secrets.

    An `entry` for the audit log is recorded in the same transaction, if the key exists.
    """

    @abstractmethod
    def put_key(self, key: ApiKey, secret_hash: bytes, *, entry: AuditDraft | None = None) -> None:
        """Store a new key."""

    @abstractmethod
    def find_key(self, key_id: str) -> tuple[ApiKey, bytes] | None:
        """A key of any tenant and its secret's hash. Takes no tenant, because the key names it."""

    @abstractmethod
    def list_keys(self, tenant: str | None = None) -> list[ApiKey]:
        """The keys of one tenant or of all, oldest first, including revoked ones."""

    @abstractmethod
    def update_key(
        self,
        key_id: str,
        *,
        used_at: datetime | None = None,
        revoked_at: datetime | None = None,
        expires_at: datetime | None = None,
        entry: AuditDraft | None = None,
    ) -> bool:
        """Set the times of a key that are given; False for an unknown id.

        The first revocation stays, and an expiry is never postponed.
        """

    @abstractmethod
    def end_visit(self, visit: str, until: datetime, *, now: datetime) -> None:
        """Record that a visit of the inspector has ended, and drop records whose time is over.

        `visit` is a hash of 32 digits. `until` is the time from which on the visit would not be
        accepted anyway.
        """

    @abstractmethod
    def has_visit_ended(self, visit: str, until: datetime) -> bool:
        """True after `end_visit` with the same arguments."""
