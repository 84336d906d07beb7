"""Standing facts: what is true of a user until a newer fact replaces it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.episode import Scope

if TYPE_CHECKING:
    from ..domain.audit import AuditDraft
    from ..domain.facts import Fact


class Facts(ABC):
    """Standing facts of a scope.

    Facts that a summarizer finds are stored with the episode's summary (`NewSummary.facts`) and
    share the episode's fate: deleting it hides them, a purge or an erasure removes them, archiving
    keeps them. Every write bumps the scope's version. An `entry` for the audit log is recorded in
    the same transaction.
    """

    @abstractmethod
    def facts(
        self, scope: Scope, *, until: datetime | None = None, given: bool = False
    ) -> list[Fact]:
        """The scope's facts as stored, in any order; `until` and `replaces` are not set.

        That is: the newest `MOST_FACTS_READ` by `since`, and all pinned ones. Leaves out facts of
        deleted episodes. Includes deleted facts, without text and with the slot of other facts that
        share it. With `until`, leaves out facts said later.

        With `given`, every fact that a caller gave instead, by `since` and id, without deleted ones
        whose slot no other fact has.
        """

    @abstractmethod
    def add_facts(
        self,
        scope: Scope,
        facts: Sequence[Fact],
        *,
        settings: str | None = None,
        entry: AuditDraft | None = None,
    ) -> int:
        """Store facts without an episode as they are; skip those whose id is stored already.

        Returns how many were stored. Creates the scope if it is new and there is a fact. `settings`
        is as `Append.settings`.

        :raises SettingsChanged: when the agent's settings have another version than `settings`
        """

    @abstractmethod
    def pin_fact(
        self, scope: Scope, fact_id: UUID, *, pinned: bool, entry: AuditDraft | None = None
    ) -> Fact:
        """Set or clear a fact's pin; returns the changed fact.

        :raises FactNotFound: when the scope has no such fact, or it or its episode is deleted
        """

    @abstractmethod
    def delete_fact(
        self, scope: Scope, fact_id: UUID, *, at: datetime, entry: AuditDraft | None = None
    ) -> None:
        """Clear a fact's text, slot and pin, and keep digests of text and slot.

        By the digests its slot stays empty until a newer fact fills it, and a new summary of its
        episode does not restore it, neither in the same words nor as another fact of the slot that
        was said no later. It counts as a removal, because the files hold the old text until they
        are rewritten.

        :raises FactNotFound: when the scope has no such fact, or it or its episode is deleted
        :raises LegalHold: when a hold applies to the user or to the fact's episode
        """
