"""Search in what was said: of one user, or of all users that the visitor reaches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from ....domain.episode import Scope, TurnHit
from ....domain.errors import InvalidInput
from ....engine.core import audit
from ..visit import Answer, Page, Visit
from .replay import SEES
from .users import after_of

_TURNS = 30
_USERS = 25
_TURNS_OF_EACH = 3
_LEAST_OF_ONE = 0.4
"""Relevance from which a turn of the user that was named is shown."""
_LONGEST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A turn, and who said it."""

    scope: Scope
    hit: TurnHit


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
    whose = _whose(visit)
    reached = None
    if whose is not None:
        scopes = [whose]
    else:
        scopes, reached = _people(visit)
    found = [
        Found(scope=scope, hit=hit)
        for scope in scopes
        for hit in visit.memory.scope(
            tenant=scope.tenant, agent=scope.agent, user=scope.user, actor=visit.actor
        ).recall_turns(
            words,
            limit=_TURNS_OF_EACH if whose is None else _TURNS,
            min_score=_least(visit, scope) if whose is None else _LEAST_OF_ONE,
            since=since,
            until=until,
        )
    ]
    # Whatever `audit_reads` says, because no session or user that was asked for bounds it.
    audit.record(
        visit.memory.runtime,
        "search",
        tenant=visit.tenant.tenant,
        actor=visit.actor,
        user=None if whose is None else whose.user,
        users=len(scopes),
    )
    found.sort(key=lambda each: -(each.hit.score or 0.0))
    return _page(visit, words=words, found=found, searched=len(scopes), reached=reached)


def _page(
    visit: Visit,
    *,
    words: str = "",
    found: list[Found] | None = None,
    searched: int = 0,
    reached: Scope | None = None,
) -> Page:
    values = {
        "scope": _whose(visit),
        "words": words,
        "since": visit.given("since"),
        "until": visit.given("until"),
        "found": found,
        "searched": searched,
        "reached": reached,
    }
    return Page(template="search.html", values=values)


def _whose(visit: Visit) -> Scope | None:
    """The user that the request names; None for all of them."""
    return visit.whose if visit.given("agent") or visit.given("user") else None


def _least(visit: Visit, scope: Scope) -> float:
    """The relevance from which a turn is shown among those of many users.

    Most of them said nothing about it, and a search always has a best turn.
    """
    return visit.memory.config(scope.agent, tenant=scope.tenant).recall.min_recall_score


def _people(visit: Visit) -> tuple[list[Scope], Scope | None]:
    """The next users that the visitor reaches, and the last of them if there are more."""
    principal = visit.visitor.principal
    people = visit.tenant.people(
        agents=principal.agents,
        user=principal.user,
        after=after_of(visit),
        limit=_USERS + 1,
        actor=visit.actor,
    )
    scopes = [each.scope for each in people[:_USERS]]
    return scopes, scopes[-1] if len(people) > _USERS else None


def _day(visit: Visit, name: str) -> datetime | None:
    given = visit.given(name)
    if not given:
        return None
    try:
        return datetime.combine(date.fromisoformat(given), time(), UTC)
    except ValueError as error:
        raise InvalidInput(name, "must be a date such as 2026-05-31") from error
