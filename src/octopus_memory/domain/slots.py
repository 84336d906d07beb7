"""The table of slots: what a standing fact may be about, and what ends with it.

Rules, models and callers fill the same slots. A slot has one current value. Where a user has
several of a kind, such as allergies or pets, the value is part of the slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


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


SLOTS: Mapping[str, Slot] = MappingProxyType(
    {
        "name": Slot(FactKind.NAME, ""),
        "address": Slot(FactKind.NAME, "address"),
        "pronouns": Slot(FactKind.NAME, "pronouns"),
        "answers": Slot(FactKind.LANGUAGE, "answers"),
        "native": Slot(FactKind.LANGUAGE, "native"),
        "spoken": Slot(FactKind.LANGUAGE, "spoken"),
        "instruction": Slot(FactKind.INSTRUCTION, "{topic}"),
        "allergy": Slot(FactKind.CONSTRAINT, "allergy {value}"),
        "diet": Slot(FactKind.CONSTRAINT, "diet"),
        "eats": Slot(FactKind.CONSTRAINT, "diet"),
        "avoids": Slot(FactKind.CONSTRAINT, "avoids {value}"),
        "medication": Slot(FactKind.CONSTRAINT, "medication {value}"),
        "condition": Slot(FactKind.CONSTRAINT, "condition {value}"),
        "state": Slot(FactKind.CONSTRAINT, "condition {value}"),
        "pregnancy": Slot(FactKind.CONSTRAINT, "condition pregnancy"),
        "smokes": Slot(FactKind.CONSTRAINT, "smoking"),
        "smoke-free": Slot(FactKind.CONSTRAINT, "smoking"),
        "sober": Slot(FactKind.CONSTRAINT, "alcohol"),
        "person": Slot(FactKind.PERSON, "{person}"),
        "person's allergy": Slot(FactKind.PERSON, "allergy of {person} {value}"),
        "person's condition": Slot(FactKind.PERSON, "condition of {person} {value}"),
        "home": Slot(FactKind.HOME, ""),
        "postal address": Slot(FactKind.HOME, "address"),
        "employer": Slot(FactKind.WORK, "employer"),
        "job": Slot(FactKind.WORK, "job"),
        "school": Slot(FactKind.WORK, "school"),
        "subject": Slot(FactKind.WORK, "subject"),
        "plan": Slot(FactKind.PLAN, "{topic}"),
        "birthday": Slot(FactKind.OTHER, "birthday"),
        "birth year": Slot(FactKind.OTHER, "birth year"),
        "favourite": Slot(FactKind.PREFERENCE, "favourite {topic}"),
    }
)

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
