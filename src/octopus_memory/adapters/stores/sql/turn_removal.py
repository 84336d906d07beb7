"""Removing single turns in a SQL store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ....ports.turn_removal import TurnRemovals
from .statements import turn_removal
from .transactions import Transactions

if TYPE_CHECKING:
    from ....domain.audit import AuditDraft
    from ....ports.turn_removal import TurnRemoval


class SqlTurnRemovals(Transactions, TurnRemovals):
    def remove_turns(
        self, removals: Sequence[TurnRemoval], *, now: datetime, entry: AuditDraft | None = None
    ) -> None:
        if removals:
            tenant = removals[0].was.episode.scope.tenant
            self._write(tenant, turn_removal.remove, removals, now=now, entry=entry)
