"""Forgetting what a user said: what would go, then the removal with its receipt."""

from __future__ import annotations

from ..visit import Answer, Page, Visit
from .erasure import receipt_page
from .replay import SEES


def show(visit: Visit) -> Answer:
    visit.need(*SEES)
    values = {"scope": visit.scope.scope, "about": "", "preview": None}
    return Page(template="forget.html", values=values)


def preview(visit: Visit) -> Answer:
    """Show what would go. A form and no link, because the words would stand in the address."""
    visit.need(*SEES)
    scope, about = visit.scope, visit.given("about").strip()
    turn, fact = visit.given("turn"), visit.given("fact")
    found = scope.forget(about or None, turns=[turn] if turn else (), facts=[fact] if fact else ())
    values = {"scope": scope.scope, "about": about, "preview": found}
    return Page(template="forget.html", values=values)


def confirm(visit: Visit) -> Answer:
    visit.need(*SEES)
    receipt = visit.scope.forget(confirm=visit.given("token"))
    return receipt_page(visit.tenant.erasing(receipt.id))
