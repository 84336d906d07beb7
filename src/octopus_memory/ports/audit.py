"""The audit log: one hash chain for each tenant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft, AuditEntry, AuditHead


class AuditLog(ABC):
    """Entries by tenant; the tenant "" is the installation's own log."""

    @abstractmethod
    def record(self, entry: AuditDraft) -> AuditEntry:
        """Append to the tenant's log."""

    @abstractmethod
    def audit(self, tenant: str, *, after: int = 0, limit: int = 1_000) -> list[AuditEntry]:
        """The tenant's entries with a `seq` above `after`, in order."""

    @abstractmethod
    def audit_head(self, tenant: str) -> AuditHead:
        """The end of the tenant's log, stored apart from it to detect missing entries."""
