"""Facts of a user: read, add, correct, pin and delete."""

from __future__ import annotations

from uuid import UUID

from ....domain.errors import InvalidInput
from ....domain.facts import FactKind
from ....engine import facts
from ....engine.scope import MemoryScope
from ..visit import Answer, Page, Redirect, Visit
from .replay import SEES

_PAGE = 50


def show(visit: Visit) -> Answer:
    visit.need(*SEES)
    scope, history = visit.scope, visit.given("history") == "on"
    found = scope.facts(history=history)
    everything = {fact.id: fact for fact in scope.facts(history=True)}
    page = visit.number("page", 1)
    pages = max(1, -(-len(found) // _PAGE))
    part = found[(page - 1) * _PAGE : page * _PAGE]
    values = {
        "scope": scope.scope,
        "facts": part,
        "sessions": facts.sessions_of(visit.memory.runtime, scope.scope, part),
        "everything": everything,
        "history": history,
        "kinds": list(FactKind),
        "number": page,
        "pages": pages,
    }
    return Page(template="facts.html", values=values)


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
