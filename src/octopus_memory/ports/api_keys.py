"""API keys: what the service needs of a store to know its callers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft
    from ..domain.identity import ApiKey


class Keys(ABC):
    """The part of a store that keeps credentials, hashed.

    An `entry` for the audit log is recorded in the same transaction, if there is such a key.
    """

    @abstractmethod
    def put_key(self, key: ApiKey, secret_hash: bytes, *, entry: AuditDraft | None = None) -> None:
        """Keep a new key."""

    @abstractmethod
    def find_key(self, key_id: str) -> tuple[ApiKey, bytes] | None:
        """The key of any tenant and its secret's hash: who asks is not known before this."""

    @abstractmethod
    def listed_keys(self, tenant: str | None = None) -> list[ApiKey]:
        """The keys of one tenant, or of all, oldest first; revoked ones too."""

    @abstractmethod
    def end_key(
        self,
        key_id: str,
        *,
        revoked_at: datetime | None,
        expires_at: datetime,
        entry: AuditDraft | None = None,
    ) -> bool:
        """Revoke a key, or let it expire; False for an id that is not known.

        What is revoked stays so, and an expiry is never put off.
        """

    @abstractmethod
    def key_used(self, key_id: str, at: datetime) -> None:
        """Note when a key was last used."""
