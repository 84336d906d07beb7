"""Standing facts about a user, each with its source, and the table of slots that they fill.

Rules or a model find facts in the turns (`FoundFact`). The store keeps them with their source
(`Fact`). `consolidate` decides which are current: of the facts that share a slot, the newest, until
something ends it. Rules, models and callers fill the same slots. Where a user has several of a
kind, such as allergies or pets, the value is part of the slot.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from uuid import UUID

from ..words import sections
from .episode import check_name, check_text, check_time
from .errors import InvalidInput, InvalidSetting
from .message import Json


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
    """Upcoming: a trip, an exam, a treatment. Its text has the date, as 2025-06-14 or 2025-06."""
    OTHER = "other"


class Slot(NamedTuple):
    """A slot, or a family of slots with a value in their name."""

    kind: FactKind
    name: str
    """The slot as it is stored. `{value}` stands for the value, `{person}` for relation and name,
    `{topic}` for what an instruction or a plan is about."""


@cache
def slots() -> Mapping[str, Slot]:
    """The slots by the names under which rules fill them."""
    found = (line.partition(": ") for line in sections("slots")["slots"])
    made = ((name, slot.partition(" ")) for name, _, slot in found)
    return {name: Slot(FactKind(kind), slot) for name, (kind, _, slot) in made}


_ONE_PERSON = ("partner", "boss")
"""Relations that a user has one of: a new one ends the one before."""

_ENDED_WITH: Mapping[tuple[FactKind, str], tuple[tuple[FactKind, str], ...]] = MappingProxyType(
    {
        (FactKind.WORK, "employer"): ((FactKind.PERSON, "boss"), (FactKind.PERSON, "colleague")),
        (FactKind.HOME, ""): (
            (FactKind.HOME, "address"),
            (FactKind.PLAN, "move"),
            (FactKind.PERSON, "flatmate"),
            (FactKind.PERSON, "landlord"),
            (FactKind.PERSON, "neighbour"),
        ),
        (FactKind.PERSON, "partner"): (
            (FactKind.PERSON, "mother-in-law"),
            (FactKind.PERSON, "father-in-law"),
        ),
    }
)


_OTHER_NAMES: Mapping[tuple[FactKind, str], str] = MappingProxyType(
    {
        **dict.fromkeys(((FactKind.NAME, name) for name in ("name", "full name")), ""),
        **dict.fromkeys(((FactKind.HOME, name) for name in ("home", "city", "place")), ""),
        (FactKind.WORK, "company"): "employer",
        (FactKind.WORK, "profession"): "job",
    }
)


def canonical(kind: FactKind, slot: str) -> str:
    """The slot under its name of the table; models and earlier releases use others."""
    return _OTHER_NAMES.get((kind, slot), slot)


def ends_with(kind: FactKind, slot: str) -> tuple[tuple[FactKind, str], ...]:
    """Slots whose facts are over when the value of this slot changes or ends."""
    head = slot.partition(" ")[0] if kind is FactKind.PERSON else slot
    return _ENDED_WITH.get((kind, head), ())


def is_part_of(slot: str, whole: str) -> bool:
    """True if `whole` is about `slot`: "cat" and "miso" are parts of "cat miso"."""
    return slot != "" and f" {slot} " in f" {whole} "


def lone_relation(kind: FactKind, slot: str) -> str:
    """The relation that a user has one of, if the slot is that person's; else an empty text."""
    head = slot.partition(" ")[0] if kind is FactKind.PERSON else ""
    return head if head in _ONE_PERSON else ""


FACT_LIMIT = 300
"""Maximum length of a fact, in characters."""
MOST_FACTS_OF_EPISODE = 50
"""Maximum number of standing facts kept of one episode."""
MOST_FACTS_READ = 2_000
"""Maximum number of unpinned facts of a scope that are read: the newest."""
_SLOT_LIMIT = 64
_HASH_DIGITS = 16


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
    """True if it says that the facts of the slot are over: "the cat died", "I left Acme"."""


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
    """Time when it was over, because a newer fact replaced or ended it or its date passed; None
    while it is current."""
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


def consolidate(
    facts: Iterable[Fact], *, as_of: datetime | None = None, now: datetime | None = None
) -> list[Fact]:
    """Set `until` and `replaces` on a scope's facts; return them oldest first.

    Of the facts of one kind and slot the newest is current, unless an older one is pinned: a pinned
    fact gives way only to what the caller says. A fact that ends something is over at once, and so
    is what it ends, with all that ends with it. A plan is over when its date has passed. With
    `as_of`, facts said later do not count, and it is the time at which plans are looked at; else
    `now` is, if given.
    """
    moment = None if as_of is None else check_time("as_of", as_of)
    state = _State()
    for fact in sorted(facts, key=lambda fact: (fact.since, fact.id.int)):
        if moment is None or fact.since <= moment:
            state.take(fact)
    return [_with_date(fact, moment or now) for fact in state.settled]


def current(
    facts: Iterable[Fact], *, as_of: datetime | None = None, now: datetime | None = None
) -> list[Fact]:
    """Facts that are true now, or were known at `as_of`: pinned first, then by kind and time."""
    order = {kind: rank for rank, kind in enumerate(FactKind)}
    found = [fact for fact in consolidate(facts, as_of=as_of, now=now) if fact.is_current]
    return sorted(found, key=lambda fact: (not fact.is_pinned, order[fact.kind], fact.since))


class _State:
    """Facts in the order in which they were said, and which of them hold their slots."""

    def __init__(self) -> None:
        self.settled: list[Fact] = []
        self._holders: dict[tuple[FactKind, str], int] = {}

    def take(self, fact: Fact) -> None:
        """Add a fact; it may end others."""
        key = fact.kind, canonical(fact.kind, fact.slot)
        before = self._held(key)
        may_end = fact.origin is FactOrigin.CALLER
        if before is not None and before.is_pinned and not may_end:
            self.settled.append(replace(fact, until=fact.since))
            return
        over = self._ended_by(fact, key, before)
        replaced = before if before is not None else self._held(next(iter(over), key))
        for other in over:
            held = self._held(other)
            if held is not None and (may_end or not held.is_pinned):
                self.settled[self._holders.pop(other)] = replace(held, until=fact.since)
        until = fact.since if fact.ends else None
        self.settled.append(
            replace(fact, until=until, replaces=None if replaced is None else replaced.id)
        )
        if not fact.ends:
            self._holders[key] = len(self.settled) - 1

    def _held(self, key: tuple[FactKind, str]) -> Fact | None:
        place = self._holders.get(key)
        return None if place is None else self.settled[place]

    def _ended_by(
        self, fact: Fact, own: tuple[FactKind, str], before: Fact | None
    ) -> dict[tuple[FactKind, str], None]:
        """Slots that a fact ends: its own, what is about the same, and what ends with it."""
        over = {own: None} if before is not None else {}
        lone = lone_relation(fact.kind, fact.slot)
        for kind, slot in self._holders:
            if kind is not fact.kind or (kind, slot) == own:
                continue
            # The same words in another slot are the same fact, found by an earlier release.
            held = self._held((kind, slot))
            is_same = held is not None and held.text == fact.text
            if is_same or _ends(fact, slot, lone):
                over[kind, slot] = None
        is_changed = fact.ends or (before is not None and before.text != fact.text)
        for kind, part in ends_with(*own):
            for other, slot in self._holders:
                if other is kind and is_part_of(part, slot):
                    place = slot.removeprefix(part).strip()
                    # "I live in Oslo" says that the planned move to Oslo has happened.
                    if is_changed or (place and place in fact.text.casefold()):
                        over[other, slot] = None
        return over


def _ends(fact: Fact, slot: str, lone: str) -> bool:
    """True if a fact ends the fact of another slot of its kind."""
    if fact.ends:
        return is_part_of(fact.slot, slot) or (lone == slot != "")
    return bool(lone) and is_part_of(lone, slot) and not is_part_of(fact.slot, slot)


_DATE = re.compile(r"\b(\d{4})-(\d{2})(?:-(\d{2}))?\b")


def _with_date(fact: Fact, now: datetime | None) -> Fact:
    """End a plan whose date has passed."""
    if fact.kind is not FactKind.PLAN or fact.until is not None or now is None or fact.is_pinned:
        return fact
    over = plan_end(fact.text)
    return fact if over is None or over > now else replace(fact, until=over)


def plan_end(text: str) -> datetime | None:
    """The end of the last day that a plan names, as 2025-06-14 or 2025-06; None without a date."""
    ends: list[datetime] = []
    for year, month, day in _DATE.findall(text):
        try:
            last = int(day) if day else monthrange(int(year), int(month))[1]
            ends.append(datetime(int(year), int(month), last, tzinfo=UTC) + timedelta(days=1))
        except (ValueError, OverflowError):
            # Not a date of the calendar.
            continue
    return max(ends, default=None)


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


TENANT_SETTINGS = ""
"""The agent under which a tenant's own settings are stored; no real agent is empty."""
SHARE_FACTS = "share_facts"
MOST_SHARING = 50
"""Maximum number of agents that share, because each context reads the facts of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactSharing:
    """Facts of these kinds that one of these agents knows of a user are known to all of them."""

    kinds: tuple[FactKind, ...]
    agents: tuple[str, ...]

    @classmethod
    def of(cls, kinds: Collection[FactKind | str], agents: Collection[str]) -> Self:
        """Check what a caller gave.

        :raises InvalidSetting: for no kind, fewer than two agents or too many
        """
        for field, value in (("kinds", kinds), ("agents", agents)):
            if isinstance(value, str) or not isinstance(value, Collection):
                raise InvalidSetting(f"{SHARE_FACTS}.{field}", "must be a list")
        named = tuple(dict.fromkeys(check_name("agent", each) for each in agents))
        if not 2 <= len(named) <= MOST_SHARING:
            raise InvalidSetting(
                f"{SHARE_FACTS}.agents", f"must name 2 to {MOST_SHARING} agents, not {len(named)}"
            )
        if not kinds:
            raise InvalidSetting(f"{SHARE_FACTS}.kinds", "must name at least one kind of facts")
        known = {check_kind(each, f"{SHARE_FACTS}.kinds") for each in kinds}
        return cls(kinds=tuple(kind for kind in FactKind if kind in known), agents=named)

    def others(self, agent: str) -> tuple[str, ...]:
        """The agents that share with this one; none if it is not one of them."""
        return tuple(each for each in self.agents if each != agent) if agent in self.agents else ()

    def to_dict(self) -> dict[str, Json]:
        return {"kinds": [kind.value for kind in self.kinds], "agents": list(self.agents)}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Reverse of `to_dict`; kinds that this version does not know are left out."""
        known = {kind.value: kind for kind in FactKind}
        kinds = tuple(known[each] for each in kept["kinds"] if each in known)
        return cls(kinds=kinds, agents=tuple(kept["agents"]))
