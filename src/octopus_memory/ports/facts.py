"""Standing facts: what the engine needs of a store to keep them."""

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
    """The part of a store that keeps standing facts.

    Facts that a summarizer finds are written with the episode's summary (`NewSummary.facts`) and go
    with the episode: a deleted episode hides them, a purge or an erasure removes them, archiving
    keeps them. Every write bumps the scope's version. An `entry` for the audit log is recorded in
    the same transaction.
    """

    @abstractmethod
    def facts(self, scope: Scope, *, until: datetime | None = None) -> list[Fact]:
        """The scope's facts as they are stored, in any order: `until` and `replaces` are not set.

        The newest `MOST_FACTS_READ` by `since`, and all that are pinned; none whose episode is
        deleted. Deleted facts are among them, without text, and with the slot of the others that
        had the same one. With `until`, none said later.
        """

    @abstractmethod
    def add_fact(
        self,
        scope: Scope,
        fact: Fact,
        *,
        settings: str | None = None,
        entry: AuditDraft | None = None,
    ) -> None:
        """Store a fact that the caller gave; it has no episode. Makes the scope if it is new.

        `settings` is as `Append.settings`.

        :raises SettingsChanged: when the agent's settings are not those that it was decided by
        """

    @abstractmethod
    def pin_fact(
        self, scope: Scope, fact_id: UUID, *, pinned: bool, entry: AuditDraft | None = None
    ) -> Fact:
        """Set or clear a fact's pin; returns the fact as it is then.

        :raises FactNotFound: when the scope has no such fact, or it or its episode is deleted
        """

    @abstractmethod
    def delete_fact(
        self, scope: Scope, fact_id: UUID, *, at: datetime, entry: AuditDraft | None = None
    ) -> None:
        """Clear a fact's text and slot, and its pin; keep digests of them.

        By these its slot stays empty until a newer fact fills it, and its episode does not bring it
        back: neither the same words nor another fact of the slot said no later. It counts in
        `removals_made`, because the files have the old text until they are rewritten.

        :raises FactNotFound: when the scope has no such fact, or it or its episode is deleted
        :raises LegalHold: when a hold stands on the user or on the fact's episode
        """

    @abstractmethod
    def kept_facts(self, scope: Scope, episode_id: UUID | None) -> list[Fact]:
        """Every fact of one episode, or every one that the caller gave, by `since` and id.

        Deleted facts are among them as far as another fact has their slot: without it they would
        say nothing elsewhere. None of an episode that is deleted.
        """

    @abstractmethod
    def bring_facts(
        self, scope: Scope, facts: Sequence[Fact], *, settings: str | None = None
    ) -> int:
        """Store facts without an episode as they are; those whose id is there are passed over.

        Returns how many were stored. `settings` is as `Append.settings`.

        :raises SettingsChanged: as `add_fact`
        """

    @abstractmethod
    def rewrite_facts(self, scope: Scope, facts: Sequence[Fact]) -> None:
        """Replace slot and text of facts that the caller gave; those that are gone are passed over.

        It counts in `removals_made`.

        :raises LegalHold: when a hold stands on the user
        """
