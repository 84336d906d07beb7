"""First page: tenants, agents and users, with counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....domain.episode import Scope
from ..visit import Answer, Page, Visit

if TYPE_CHECKING:
    from ....domain.episode import ScopeOverview, TenantOverview

_PAGE = 25
_TENANTS = 50
_LONGEST = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    people: list[ScopeOverview]
    reached: Scope | None
    """Scope that the next page starts after; None on the last page."""


def show(visit: Visit) -> Answer:
    text = visit.given("find")[:_LONGEST]
    after = after_of(visit)
    listed = _search(visit, text, after) if text else _list(visit, after)
    following = None
    if listed.reached is not None:
        user, agent = listed.reached.user, listed.reached.agent
        following = visit.link("/", find=text, after_user=user, after_agent=agent)
    tenants = _tenants(visit)
    values = {
        "people": listed.people,
        "text": text,
        "following": following,
        "is_first": after is None,
        "tenants": tenants[:_TENANTS],
        "more_tenants": tenants[_TENANTS - 1].tenant if len(tenants) > _TENANTS else None,
        "later_tenants": bool(visit.given("after_tenant")),
    }
    return Page(template="users.html", values=values)


def after_of(visit: Visit) -> Scope | None:
    """The last user of the page before."""
    agent, user = visit.given("after_agent"), visit.given("after_user")
    if not agent or not user:
        return None
    return Scope(tenant=visit.visitor.principal.tenant, agent=agent, user=user)


def _list(visit: Visit, after: Scope | None) -> _Listed:
    principal = visit.visitor.principal
    found = visit.tenant.people(
        agents=principal.agents,
        user=principal.user,
        after=after,
        limit=_PAGE + 1,
        actor=visit.actor,
    )
    people = found[:_PAGE]
    return _Listed(people=people, reached=people[-1].scope if len(found) > _PAGE else None)


def _search(visit: Visit, text: str, after: Scope | None) -> _Listed:
    principal = visit.visitor.principal
    search = visit.tenant.search_people(
        text,
        agents=principal.agents,
        user=principal.user,
        after=after,
        limit=_PAGE,
        actor=visit.actor,
    )
    return _Listed(people=list(search.found), reached=search.reached)


def _tenants(visit: Visit) -> list[TenantOverview]:
    if not visit.visitor.every_tenant:
        return []
    return visit.memory.tenants(after=visit.given("after_tenant") or None, limit=_TENANTS + 1)
