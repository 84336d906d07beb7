"""Standing facts: found at the end of an episode, or given, corrected, pinned and deleted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from ..domain.checks import check_flag, fact_id_of, kinds_of
from ..domain.episode import Scope, Turn, check_time
from ..domain.errors import FactNotFound
from ..domain.facts import (
    FACT_LIMIT,
    MOST_FACTS_OF_EPISODE,
    Fact,
    FactKind,
    FactOrigin,
    FoundFact,
    check_fact_text,
    check_given_slot,
    check_kind,
    check_slot,
    consolidate,
    current,
    slot_for,
)
from ..domain.ids import new_id
from .core import audit
from .core.pii_guard import Guard
from .core.runtime import Runtime
from .write.settings_retry import retry_on_settings_change

_MICROSECOND = timedelta(microseconds=1)


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
            return listed(runtime, self.scope, as_of=moment, kinds=kinds, history=history)

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
        return add(
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
        return correct(self._runtime, self.scope, fact_id, text, actor=actor or self._actor)

    def pin_fact(
        self, fact_id: Fact | UUID | str, *, pinned: bool = True, actor: str | None = None
    ) -> Fact:
        """Pin a fact, so that none that is found later replaces it, or take its pin off.

        :raises FactNotFound: for an id that is not in this scope
        """
        return pin(self._runtime, self.scope, fact_id, pinned=pinned, actor=actor or self._actor)

    def delete_fact(self, fact_id: Fact | UUID | str, *, actor: str | None = None) -> None:
        """Delete a fact for good: its text is gone, and its source does not bring it back.

        Its slot stays empty until a newer fact fills it.

        :raises FactNotFound: for an id that is not in this scope, or was deleted
        :raises LegalHold: when a hold stands on the user or on the fact's episode
        """
        delete(self._runtime, self.scope, fact_id, actor=actor or self._actor)


def found(
    turns: Sequence[Turn], facts: Iterable[FoundFact], origin: FactOrigin
) -> tuple[Fact, ...]:
    """Facts that a summarizer found in these turns; `guarded` makes of them what is stored.

    A model's answer is not trusted: what is empty or names a turn that is not there is left out.
    """
    said = {turn.ordinal: turn for turn in turns}
    kept: list[Fact] = []
    for fact in facts:
        turn, text = said.get(fact.ordinal), " ".join(fact.text.split())
        if turn is None or not text:
            continue
        kept.append(
            Fact(
                id=new_id(),
                kind=fact.kind,
                text=text,
                slot=fact.slot,
                since=turn.at,
                turn_id=turn.id,
                ordinal=turn.ordinal,
                origin=origin,
                ends=fact.ends,
            )
        )
    return tuple(kept)


def guarded(facts: Iterable[Fact], guard: Guard) -> tuple[Fact, ...]:
    """Facts found in one episode, as they are stored: without personal data, and of a fit length.

    Of those that then say the same, the first is kept.
    """
    kept: dict[tuple[FactKind, str, str], Fact] = {}
    for fact in facts:
        if len(kept) == MOST_FACTS_OF_EPISODE:
            break
        safe = redacted(fact, guard)
        kept.setdefault((safe.kind, safe.slot, safe.text), safe)
    return tuple(kept.values())


def _guarded_slot(guard: Guard, slot: str) -> str:
    """A slot without personal data, for a guard that has read the fact's text.

    A slot is in lower case, in which the redactor knows only the names that it has heard.
    """
    return check_slot(guard.text(slot))


def redacted(fact: Fact, guard: Guard) -> Fact:
    """The fact without personal data, and cut; the same object where nothing changes."""
    text = _cut(guard.text(fact.text))
    slot = _guarded_slot(guard, fact.slot)
    return fact if (text, slot) == (fact.text, fact.slot) else replace(fact, text=text, slot=slot)


def listed(
    runtime: Runtime,
    scope: Scope,
    *,
    as_of: datetime | None,
    kinds: Collection[FactKind | str] | None,
    history: bool,
) -> list[Fact]:
    """The facts that are current, or with `history` all that are known, oldest first."""
    wanted = kinds_of(kinds)
    stored = runtime.store.facts(scope, until=as_of)
    if history:
        facts = [fact for fact in consolidate(stored, as_of=as_of) if not fact.is_deleted]
    else:
        facts = current(stored, as_of=as_of)
    return facts if wanted is None else [fact for fact in facts if fact.kind in wanted]


@retry_on_settings_change
def add(
    runtime: Runtime,
    scope: Scope,
    text: str,
    *,
    kind: FactKind | str,
    slot: str | None,
    pinned: bool,
    actor: str,
) -> Fact:
    """Store a fact that the caller gives."""
    text, fact_kind = check_fact_text("text", text), check_kind(kind)
    check_flag("pinned", pinned)
    slot = check_given_slot(slot)
    guard = _guard(runtime, scope)
    kept = _cut(guard.text(text))
    own = slot_for(fact_kind, kept) if slot is None else _guarded_slot(guard, slot)
    fact = Fact(
        id=new_id(),
        kind=fact_kind,
        text=kept,
        slot=own,
        since=runtime.clock.now(),
        origin=FactOrigin.CALLER,
        is_pinned=pinned,
    )
    return _store(runtime, scope, fact, guard, "fact_add", actor=actor)


@retry_on_settings_change
def correct(
    runtime: Runtime, scope: Scope, given: Fact | UUID | str, text: str, *, actor: str
) -> Fact:
    """Store what a fact should say; it takes the place of the one that is corrected.

    The old one stays as history, and a pin goes over to the new one.
    """
    fact_id, text = fact_id_of(given), check_fact_text("text", text)
    about = {"fact": str(fact_id)}
    names = {"tenant": scope.tenant, "user": scope.user, "actor": actor}
    with audit.refusals(runtime, "fact_correct", **names, **about):
        stored = runtime.store.facts(scope)
        old = next((fact for fact in stored if fact.id == fact_id and not fact.is_deleted), None)
        if old is None:
            raise FactNotFound(fact_id)
    # The conversation's clock may be ahead of this one, and the newest fact is the one that holds.
    beside = [fact.since for fact in stored if (fact.kind, fact.slot) == (old.kind, old.slot)]
    guard = _guard(runtime, scope)
    fact = Fact(
        id=new_id(),
        kind=old.kind,
        text=_cut(guard.text(text)),
        slot=old.slot,
        since=max(runtime.clock.now(), max(beside) + _MICROSECOND),
        origin=FactOrigin.CALLER,
        is_pinned=old.is_pinned,
    )
    return _store(runtime, scope, fact, guard, "fact_correct", actor=actor, corrected=str(old.id))


def pin(
    runtime: Runtime, scope: Scope, given: Fact | UUID | str, *, pinned: bool, actor: str
) -> Fact:
    """Pin a fact, or take its pin off."""
    check_flag("pinned", pinned)
    fact_id = fact_id_of(given)
    action, about = "fact_pin" if pinned else "fact_unpin", {"fact": str(fact_id)}
    names = {"tenant": scope.tenant, "user": scope.user, "actor": actor}
    with audit.refusals(runtime, action, **names, **about):
        entry = audit.draft(runtime, action, **names, **about)
        runtime.store.pin_fact(scope, fact_id, pinned=pinned, entry=entry)
    return _settled(runtime, scope, fact_id)


def delete(runtime: Runtime, scope: Scope, given: Fact | UUID | str, *, actor: str) -> None:
    """Clear a fact's text for good."""
    fact_id = fact_id_of(given)
    about = {"fact": str(fact_id)}
    names = {"tenant": scope.tenant, "user": scope.user, "actor": actor}
    with audit.refusals(runtime, "fact_delete", **names, **about):
        entry = audit.draft(runtime, "fact_delete", **names, **about)
        runtime.store.delete_fact(scope, fact_id, at=entry.at, entry=entry)


def _store(
    runtime: Runtime,
    scope: Scope,
    fact: Fact,
    guard: Guard,
    action: str,
    *,
    actor: str,
    **about: str,
) -> Fact:
    """Store a fact that passed the guard, by whose settings the write is decided."""
    entry = audit.draft(
        runtime,
        action,
        tenant=scope.tenant,
        actor=actor,
        user=scope.user,
        fact=str(fact.id),
        kind=fact.kind.value,
        **about,
    )
    runtime.store.add_fact(scope, fact, settings=guard.settings, entry=entry)
    return _settled(runtime, scope, fact.id, fact)


def _settled(runtime: Runtime, scope: Scope, fact_id: UUID, known: Fact | None = None) -> Fact:
    """The fact with what it replaces, or what replaced it."""
    for fact in consolidate(runtime.store.facts(scope)):
        if fact.id == fact_id:
            return fact
    if known is None:
        # Another caller removed it just now.
        raise FactNotFound(fact_id)
    return known


def _guard(runtime: Runtime, scope: Scope) -> Guard:
    """Without numbers: these count within one episode, and a caller's fact has none."""
    return runtime.guard(scope, numbered=False)


def _cut(text: str) -> str:
    return text if len(text) <= FACT_LIMIT else text[: FACT_LIMIT - 1] + "…"
