"""The verbs about standing facts inside one scope."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ...domain.checks import check_flag
from ...domain.episode import Scope, check_time
from ..core.runtime import Runtime
from . import facts

if TYPE_CHECKING:
    from ...domain.facts import Fact, FactKind


class FactCalls(ABC):
    """The part of `MemoryScope` that is about facts."""

    scope: Scope
    _actor: str

    @property
    @abstractmethod
    def _runtime(self) -> Runtime: ...

    @abstractmethod
    def _reading(self, action: str) -> AbstractContextManager[Runtime]: ...

    def facts(
        self,
        *,
        as_of: datetime | None = None,
        kinds: Collection[FactKind | str] | None = None,
        history: bool = False,
    ) -> list[Fact]:
        """The standing facts about this user: pinned first, then by kind and time.

        With `as_of`, what was known then. With `history`, also the facts that newer ones replaced,
        all in the order in which they were said. `kinds` keeps facts of these kinds alone.
        """
        moment = None if as_of is None else check_time("as_of", as_of)
        check_flag("history", history)
        with self._reading("facts") as runtime:
            return facts.listed(runtime, self.scope, as_of=moment, kinds=kinds, history=history)

    def add_fact(
        self,
        text: str,
        kind: FactKind | str = "other",
        slot: str | None = None,
        *,
        pinned: bool = False,
        actor: str | None = None,
    ) -> Fact:
        """Store a standing fact about this user; durable when it returns.

        It replaces the fact of its kind and `slot`. Without a slot, a name, a language or a home
        replaces the one before it, and any other fact replaces nothing. No fact that is found later
        replaces one that is `pinned`.

        :raises InvalidInput: naming the field, for what cannot be stored
        """
        return facts.add(
            self._runtime,
            self.scope,
            text,
            kind=kind,
            slot=slot,
            pinned=pinned,
            actor=actor or self._actor,
        )

    def correct_fact(
        self, fact_id: Fact | UUID | str, text: str, *, actor: str | None = None
    ) -> Fact:
        """Store what a fact should say; the old one stays as history, and a pin goes over.

        :raises FactNotFound: for an id that is not in this scope
        """
        return facts.correct(self._runtime, self.scope, fact_id, text, actor=actor or self._actor)

    def pin_fact(
        self, fact_id: Fact | UUID | str, *, pinned: bool = True, actor: str | None = None
    ) -> Fact:
        """Pin a fact, so that none that is found later replaces it, or take its pin off.

        :raises FactNotFound: for an id that is not in this scope
        """
        return facts.pin(
            self._runtime, self.scope, fact_id, pinned=pinned, actor=actor or self._actor
        )

    def delete_fact(self, fact_id: Fact | UUID | str, *, actor: str | None = None) -> None:
        """Delete a fact for good: its text is gone, and its source does not bring it back.

        Its slot stays empty until a newer fact fills it.

        :raises FactNotFound: for an id that is not in this scope, or was deleted
        :raises LegalHold: when a hold stands on the user or on the fact's episode
        """
        facts.delete(self._runtime, self.scope, fact_id, actor=actor or self._actor)
