"""Facts of a user: read, add, correct, pin and delete."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

from ....domain.errors import InvalidInput
from ....domain.facts import Fact, FactKind
from ....engine.scope import MemoryScope
from .. import wording
from ..visit import Answer, Page, Redirect, Visit
from .replay import SEES

_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """What is true of one thing, and what was true of it before."""

    fact: Fact
    """The current fact; the last one if the slot is over."""
    past: tuple[Fact, ...]
    """Facts that it followed, oldest first."""


def show(visit: Visit) -> Answer:
    visit.need(*SEES)
    scope, history = visit.scope, visit.given("history") == "on"
    kind = visit.given("kind") if visit.given("kind") in list(FactKind) else ""
    slots = [slot for slot in _slots(scope.facts(history=True)) if history or slot.fact.is_current]
    counts = Counter(slot.fact.kind.value for slot in slots)
    found = [slot for slot in slots if not kind or slot.fact.kind == kind]
    page = visit.number("page", 1)
    part = found[(page - 1) * _PAGE : page * _PAGE]
    said = [fact for slot in part for fact in (slot.fact, *slot.past)]
    values = {
        "scope": scope.scope,
        "slots": part,
        "kind": kind,
        "counts": {each.value: counts[each] for each in FactKind if counts[each]},
        "total": len(slots),
        "sessions": visit.memory.inspection(scope).sessions_of(said),
        "history": history,
        "kinds": wording.KINDS,
        "number": page,
        "pages": max(1, -(-len(found) // _PAGE)),
    }
    return Page(template="facts.html", values=values)


def _slots(said: list[Fact]) -> list[Slot]:
    """Group facts by slot, in the order of kinds, and by the time of what is current."""
    by_slot: dict[tuple[FactKind, str], list[Fact]] = {}
    for fact in said:
        if fact.text:
            by_slot.setdefault((fact.kind, fact.slot), []).append(fact)
    slots = []
    for together in by_slot.values():
        if all(fact.until == fact.since for fact in together):
            # An end, such as that of an address by "I moved", of what nobody told.
            continue
        held = [fact for fact in together if fact.is_current] or together[-1:]
        past = tuple(fact for fact in together if fact not in held)
        slots += [Slot(fact=held[-1], past=past), *(Slot(fact=f, past=()) for f in held[:-1])]
    order = {kind: rank for rank, kind in enumerate(FactKind)}
    return sorted(slots, key=lambda slot: (order[slot.fact.kind], slot.fact.since))


def add(visit: Visit) -> Answer:
    visit.need(*SEES)
    scope = visit.scope
    scope.add_fact(
        visit.given("text"), visit.given("kind") or "other", pinned=visit.given("pinned") == "on"
    )
    return _back(visit, scope, "The fact is stored.")


def correct(visit: Visit) -> Answer:
    visit.need(*SEES)
    scope = visit.scope
    scope.correct_fact(_fact_id(visit), visit.given("text"))
    return _back(visit, scope, "The fact is corrected; the old one is history.")


def pin(visit: Visit) -> Answer:
    visit.need(*SEES)
    scope, pinned = visit.scope, visit.given("pinned") == "on"
    scope.pin_fact(_fact_id(visit), pinned=pinned)
    return _back(visit, scope, "The fact is pinned." if pinned else "The pin is off.")


def delete(visit: Visit) -> Answer:
    visit.need(*SEES)
    scope = visit.scope
    scope.delete_fact(_fact_id(visit))
    return _back(visit, scope, "The fact is deleted for good.")


def _fact_id(visit: Visit) -> UUID:
    try:
        return UUID(visit.given("fact"))
    except ValueError as error:
        raise InvalidInput("fact", "must be the id of a fact") from error


def _back(visit: Visit, scope: MemoryScope, message: str) -> Redirect:
    return Redirect(to=visit.scope_link("/facts", scope.scope), message=message)
