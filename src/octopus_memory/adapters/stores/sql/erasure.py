"""Erasure and the audit log in a SQL store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from ....domain.episode import Scope
from ....domain.message import Json
from ....ports.erasure import Forgetting
from .statements import audit as audit_sql
from .statements import erasure as erasure_sql
from .statements import meta, mirror
from .transactions import Every, Reach, Transactions

if TYPE_CHECKING:
    from ....domain.audit import AuditDraft, AuditEntry, AuditHead
    from ....domain.erasure import Erasure, Subject


class SqlForgetting(Transactions, Forgetting):
    def user_scopes(self, tenant: str, user: str | None = None) -> list[Scope]:
        return self._read(tenant, erasure_sql.user_scopes, tenant, user)

    def erase(self, subject: Subject, erasure: Erasure, entry: AuditDraft) -> Erasure:
        return self._write(subject.tenant, erasure_sql.erase, subject, erasure, entry)

    def left_of(self, erasure: Erasure) -> dict[str, int]:
        return self._read(erasure.tenant, erasure_sql.left_of, erasure)

    def unfinished(self) -> list[Erasure]:
        return self._read(Every.TENANT, erasure_sql.unfinished)

    def erasures(
        self, tenant: str, *, before: UUID | None = None, limit: int = 100
    ) -> list[Erasure]:
        return self._read(tenant, erasure_sql.erasures, tenant, before=before, limit=limit)

    def receipt(self, tenant: str, erasure_id: UUID) -> Mapping[str, Json] | None:
        return self._read(tenant, erasure_sql.receipt, tenant, erasure_id)

    def keep_receipt(
        self, erasure: Erasure, receipt: Mapping[str, Json], entry: AuditDraft, *, finished: bool
    ) -> bool:
        return self._write(
            erasure.tenant, erasure_sql.keep_receipt, erasure, receipt, entry, finished=finished
        )

    def waiting_removals(self, erasure: Erasure) -> int:
        return self._read(erasure.tenant, mirror.waiting_removals, erasure.scope_ids)

    def compacted(self) -> int:
        return self._read(Every.TENANT, meta.number, meta.COMPACTED)

    def compact(self) -> bool:
        # What is removed from here on may be missed, and stays owed.
        made = self.removals_made()
        with self._translated():
            if not self._rewrite():
                return False
        self._write(Every.TENANT, meta.raise_to, meta.COMPACTED, made)
        return True

    @abstractmethod
    def _rewrite(self) -> bool:
        """Rewrite every file that a removed row may have left bytes in; False if it cannot now."""

    def record(self, entry: AuditDraft) -> AuditEntry:
        return self._write(_reach(entry.tenant), audit_sql.append, entry)

    def audit(self, tenant: str, *, after: int = 0, limit: int = 1_000) -> list[AuditEntry]:
        return self._read(_reach(tenant), audit_sql.entries, tenant, after=after, limit=limit)

    def audit_head(self, tenant: str) -> AuditHead:
        return self._read(_reach(tenant), audit_sql.head, tenant)

    def audited(self) -> list[str]:
        return self._read(Every.TENANT, audit_sql.tenants)

    def removals_made(self) -> int:
        return self._read(Every.TENANT, meta.number, meta.REMOVALS)


def _reach(tenant: str) -> Reach:
    """The installation's own log belongs to no tenant."""
    return tenant or Every.TENANT
