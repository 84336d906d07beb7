"""Search in what was said: of one user, or of all users that the visitor reaches."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from ....domain.episode import Scope, TurnSearch
from ....domain.errors import InvalidInput
from ..visit import Answer, Page, Visit
from .replay import SEES
from .users import after_of

_TURNS = 30
_USERS = 25
_TURNS_OF_EACH = 3
_LEAST_OF_ONE = 0.4
"""Relevance from which a turn of the user that was named is shown."""
_LONGEST = 500


def show(visit: Visit) -> Answer:
    visit.need(*SEES)
    return _page(visit)


def find(visit: Visit) -> Answer:
    """Show what was found. A form and no link, because the words would stand in the address."""
    visit.need(*SEES)
    words = visit.given("words").strip()[:_LONGEST]
    if not words:
        raise InvalidInput("words", "must be given")
    since, until = _day(visit, "since"), _day(visit, "until")
    if until is not None:
        until += timedelta(days=1)
    whose, principal = _whose(visit), visit.visitor.principal
    found = visit.tenant.search(
        words,
        agents=principal.agents if whose is None else [whose.agent],
        user=principal.user if whose is None else whose.user,
        after=after_of(visit),
        limit=_USERS,
        turns=_TURNS_OF_EACH if whose is None else _TURNS,
        min_score=None if whose is None else _LEAST_OF_ONE,
        since=since,
        until=until,
        actor=visit.actor,
    )
    return _page(visit, words=words, search=found)


def _page(visit: Visit, *, words: str = "", search: TurnSearch | None = None) -> Page:
    values = {
        "scope": _whose(visit),
        "words": words,
        "since": visit.given("since"),
        "until": visit.given("until"),
        "search": search,
    }
    return Page(template="search.html", values=values)


def _whose(visit: Visit) -> Scope | None:
    """The user that the request names; None for all of them."""
    return visit.whose if visit.given("agent") or visit.given("user") else None


def _day(visit: Visit, name: str) -> datetime | None:
    given = visit.given(name)
    if not given:
        return None
    try:
        return datetime.combine(date.fromisoformat(given), time(), UTC)
    except ValueError as error:
        raise InvalidInput(name, "must be a date such as 2026-05-31") from error
