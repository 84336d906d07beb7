"""Standing facts about a user, each with its source.

A summarizer finds facts in one episode (`FoundFact`). The store keeps them with their source
(`Fact`). `consolidate` decides which are current: of the facts that share a slot, the newest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from uuid import UUID

from .episode import check_text, check_time
from .errors import InvalidInput

FACT_LIMIT = 300
"""Maximum length of a fact, in characters."""
MOST_FACTS_OF_EPISODE = 50
"""Maximum number of standing facts kept of one episode."""
MOST_FACTS_READ = 2_000
"""Maximum number of unpinned facts of a scope that are read: the newest."""
_SLOT_LIMIT = 64
_HASH_DIGITS = 16


class FactKind(StrEnum):
    """Subject of a fact, in the order in which the context block shows them."""

    NAME = "name"
    """The user's name, and how to address them."""
    LANGUAGE = "language"
    INSTRUCTION = "instruction"
    """Instruction for the agent's behavior: "be formal", "answer briefly"."""
    CONSTRAINT = "constraint"
    """Must be respected without asking: allergies, medication, diets, what the user gave up."""
    PREFERENCE = "preference"
    PERSON = "person"
    """Family, friends, colleagues, pets."""
    HOME = "home"
    WORK = "work"
    PLAN = "plan"
    """Current or upcoming: a trip, a deadline, a treatment."""
    OTHER = "other"


_SINGLE_VALUED = frozenset({FactKind.NAME, FactKind.LANGUAGE, FactKind.HOME})


class FactOrigin(StrEnum):
    """Source of a fact."""

    RULES = "rules"
    MODEL = "model"
    CALLER = "caller"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFact:
    """A standing fact that a summarizer found in one episode."""

    kind: FactKind
    text: str
    """A short statement about the user that reads on its own, in the conversation's language."""
    ordinal: int
    """Position of the turn that says it."""
    slot: str = ""
    """Facts of one kind and slot replace each other: `home` has one value, so its slot is empty or
    `address`; a pet's slot is its name. A fact that replaces nothing has a slot of its own, made
    from its words."""
    ends: bool = False
    """True if it says that the slot's previous fact is over: "the cat died", "I left Acme"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A standing fact with its source and its time."""

    id: UUID
    kind: FactKind
    text: str
    slot: str
    since: datetime
    """Time when it was said, or when the caller gave it."""
    until: datetime | None = None
    """Time when a newer fact replaced it; None while it is current."""
    replaces: UUID | None = None
    """Id of the fact that it replaced."""
    episode_id: UUID | None = None
    """Source episode; None for a fact that the caller gave."""
    turn_id: UUID | None = None
    ordinal: int | None = None
    """Position of the source turn in its episode."""
    origin: FactOrigin = FactOrigin.RULES
    is_pinned: bool = False
    """A pinned fact is shown first, and no fact found later replaces it."""
    ends: bool = False
    is_deleted: bool = False
    """True if the caller deleted it: its text is gone, and its slot stays empty until a newer fact
    fills it."""

    @property
    def is_current(self) -> bool:
        return self.until is None and not self.is_deleted


def consolidate(facts: Iterable[Fact], *, as_of: datetime | None = None) -> list[Fact]:
    """Set `until` and `replaces` on a scope's facts; return them oldest first.

    Of the facts of one kind and slot the newest is current, unless an older one is pinned: a pinned
    fact gives way only to what the caller says. With `as_of`, facts said later do not count.
    """
    moment = None if as_of is None else check_time("as_of", as_of)
    slots: dict[tuple[FactKind, str], list[Fact]] = {}
    for fact in sorted(facts, key=lambda fact: (fact.since, fact.id.int)):
        if moment is None or fact.since <= moment:
            slots.setdefault((fact.kind, fact.slot), []).append(fact)
    settled = [fact for slot in slots.values() for fact in _resolve_slot(slot)]
    return sorted(settled, key=lambda fact: (fact.since, fact.id.int))


def current(facts: Iterable[Fact], *, as_of: datetime | None = None) -> list[Fact]:
    """The facts that are true now, or were known at `as_of`: pinned first, then by kind and time.

    A fact that only says that something is over is kept: "the cat died" is worth knowing.
    """
    order = {kind: rank for rank, kind in enumerate(FactKind)}
    found = [fact for fact in consolidate(facts, as_of=as_of) if fact.is_current]
    return sorted(found, key=lambda fact: (not fact.is_pinned, order[fact.kind], fact.since))


def check_fact_text(field: str, value: str) -> str:
    """Return `value` on one line, with 1 to `FACT_LIMIT` characters.

    :raises InvalidInput: otherwise
    """
    text = " ".join(check_text(field, value).split())
    if not 1 <= len(text) <= FACT_LIMIT:
        raise InvalidInput(field, f"must have 1 to {FACT_LIMIT} characters, and has {len(text):,}")
    return text


def check_given_slot(value: str | None) -> str | None:
    """Return a caller's slot if it is valid text.

    :raises InvalidInput: otherwise
    """
    return None if value is None else check_text("slot", value)


def check_slot(value: str) -> str:
    """The slot as it is stored: lower case, cut to the column's length."""
    return " ".join(value.casefold().split())[:_SLOT_LIMIT]


def slot_for(kind: FactKind, text: str) -> str:
    """Default slot of a fact.

    A kind that has one value at a time has one slot, so that the newest fact replaces the others.
    Any other fact gets a slot of its own, made from its words, and replaces only itself.
    """
    if kind in _SINGLE_VALUED:
        return ""
    words = " ".join(text.casefold().split())
    if len(words) <= _SLOT_LIMIT:
        return words
    # Two long texts that begin alike must not share a slot.
    digits = sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"{words[: _SLOT_LIMIT - _HASH_DIGITS - 1]} {digits}"


def check_kind(value: FactKind | str, field: str = "kind") -> FactKind:
    """Return the kind of fact that `value` names.

    :raises InvalidInput: for an unknown kind
    """
    try:
        return FactKind(value)
    except ValueError as error:
        raise InvalidInput(field, f"must be one of {', '.join(FactKind)}") from error


def _resolve_slot(slot: list[Fact]) -> list[Fact]:
    """Facts of one slot, oldest first, with `until` and `replaces` set."""
    settled: list[Fact] = []
    holder: int | None = None
    for fact in slot:
        before = None if holder is None else settled[holder]
        if before is not None and before.is_pinned and fact.origin is not FactOrigin.CALLER:
            settled.append(replace(fact, until=fact.since))
            continue
        if before is not None and holder is not None:
            settled[holder] = replace(before, until=fact.since)
        settled.append(replace(fact, replaces=None if before is None else before.id))
        holder = len(settled) - 1
    return settled
