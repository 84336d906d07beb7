"""Standing facts in a SQL store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ....domain.episode import Scope
from ....ports.facts import Facts
from .statements import facts
from .transactions import Transactions

if TYPE_CHECKING:
    from ....domain.audit import AuditDraft
    from ....domain.facts import Fact


class SqlFacts(Transactions, Facts):
    def facts(self, scope: Scope, *, until: datetime | None = None) -> list[Fact]:
        return self._read(scope.tenant, facts.newest, scope, until)

    def add_fact(
        self,
        scope: Scope,
        fact: Fact,
        *,
        settings: str | None = None,
        entry: AuditDraft | None = None,
    ) -> None:
        self._write(scope.tenant, facts.add, scope, fact, settings=settings, entry=entry)

    def pin_fact(
        self, scope: Scope, fact_id: UUID, *, pinned: bool, entry: AuditDraft | None = None
    ) -> Fact:
        return self._write(scope.tenant, facts.pin, scope, fact_id, pinned=pinned, entry=entry)

    def delete_fact(
        self, scope: Scope, fact_id: UUID, *, at: datetime, entry: AuditDraft | None = None
    ) -> None:
        self._write(scope.tenant, facts.delete, scope, fact_id, at=at, entry=entry)

    def kept_facts(self, scope: Scope, episode_id: UUID | None) -> list[Fact]:
        return self._read(scope.tenant, facts.kept, scope, episode_id)

    def bring_facts(
        self, scope: Scope, facts: Sequence[Fact], *, settings: str | None = None
    ) -> int:
        return self._write(scope.tenant, _bring, scope, facts, settings) if facts else 0

    def rewrite_facts(self, scope: Scope, facts: Sequence[Fact]) -> None:
        if facts:
            self._write(scope.tenant, _rewrite, scope, facts)


_bring, _rewrite = facts.bring, facts.rewrite_given
