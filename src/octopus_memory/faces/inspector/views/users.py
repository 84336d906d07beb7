"""First page: tenants, agents and users, with counts."""

from __future__ import annotations

from ....domain.episode import Scope
from ..visit import Answer, Page, Visit

_PAGE = 25
_MOST_TENANTS = 200


def show(visit: Visit) -> Answer:
    principal = visit.visitor.principal
    starts = visit.given("starts")[:256]
    last = None
    if visit.given("after_user") and visit.given("after_agent"):
        agent, user = visit.given("after_agent"), visit.given("after_user")
        last = Scope(tenant=principal.tenant, agent=agent, user=user)
    found = visit.tenant.people(
        starts=starts,
        agents=principal.agents,
        user=principal.user,
        after=last,
        limit=_PAGE + 1,
        actor=visit.actor,
    )
    people = found[:_PAGE]
    following = None
    if len(found) > _PAGE:
        scope = people[-1].scope
        following = visit.link("/", starts=starts, after_user=scope.user, after_agent=scope.agent)
    tenants = visit.memory.tenants(limit=_MOST_TENANTS) if visit.visitor.every_tenant else []
    values = {
        "people": people,
        "starts": starts,
        "following": following,
        "is_first": last is None,
        "tenants": tenants,
    }
    return Page(template="users.html", values=values)
