"""Erasure and the audit log in a SQL store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from uuid import UUID

from ...domain.audit import AuditDraft, AuditEntry
from ...domain.episode import Scope
from ...domain.erasure import Subject
from ...domain.message import Json
from ...ports.forgetting import Erasure, Forgetting
from . import chain, erasing, meta, mirror
from .transactions import Every, Transactions


class SqlForgetting(Transactions, Forgetting):
    def user_scopes(self, tenant: str, user: str | None = None) -> list[Scope]:
        return self._read(tenant, erasing.user_scopes, tenant, user)

    def erase(self, subject: Subject, erasure: Erasure, entry: AuditDraft) -> Erasure:
        return self._write(subject.tenant, erasing.erase, subject, erasure, entry)

    def left_of(self, erasure: Erasure) -> dict[str, int]:
        return self._read(erasure.tenant, erasing.left_of, erasure)

    def unfinished(self) -> list[Erasure]:
        return self._read(Every.TENANT, erasing.unfinished)

    def receipt(self, tenant: str, erasure_id: UUID) -> Mapping[str, Json] | None:
        return self._read(tenant, erasing.receipt, tenant, erasure_id)

    def keep_receipt(
        self, erasure: Erasure, receipt: Mapping[str, Json], entry: AuditDraft, *, finished: bool
    ) -> None:
        self._write(
            erasure.tenant, erasing.keep_receipt, erasure, receipt, entry, finished=finished
        )

    def waiting_removals(self, erasure: Erasure) -> int:
        return self._read(erasure.tenant, mirror.waiting_removals, erasure.scope_ids)

    def owes_compaction(self) -> bool:
        return self._read(Every.TENANT, meta.get, meta.COMPACTION) is not None

    def compact(self) -> bool:
        owed = self._read(Every.TENANT, meta.get, meta.COMPACTION)
        with self._translated():
            if not self._rewrite():
                return False
        self._write(Every.TENANT, meta.drop_if, meta.COMPACTION, owed)
        return True

    @abstractmethod
    def _rewrite(self) -> bool:
        """Rewrite every file that a removed row may have left bytes in; False if it cannot now."""

    def record(self, entry: AuditDraft) -> AuditEntry:
        return self._write(entry.tenant, chain.append, entry)

    def audit(self, tenant: str, *, after: int = 0, limit: int = 1_000) -> list[AuditEntry]:
        return self._read(tenant, chain.entries, tenant, after=after, limit=limit)

    def audited(self) -> list[str]:
        return self._read(Every.TENANT, chain.tenants)

    def removals_made(self) -> int:
        return int(self._read(Every.TENANT, meta.get, meta.REMOVALS) or b"0")
