"""Backlog, worker, sizes and API keys."""

from __future__ import annotations

from datetime import timedelta

from ....domain.errors import InvalidInput
from ....domain.identity import AccessRole
from ....engine.privacy import api_keys
from ..visit import Answer, Forbidden, Page, Redirect, Visit

_WATCHES = (AccessRole.ADMIN, AccessRole.AUDITOR)
_GRACE = timedelta(hours=24)
_PAGE = 50
_LATE_SECONDS = 300


def show(visit: Visit) -> Answer:
    return _page(visit, None)


def _page(visit: Visit, made: api_keys.NewKey | None) -> Page:
    visit.need(*_WATCHES, whole=True)
    memory, runtime = visit.memory, visit.memory.runtime
    # Counts of the whole installation are the operator's, not one tenant's.
    stats = memory.stats() if visit.visitor.every_tenant else None
    backlog = memory.backlog()
    now = memory.now()
    waits = {
        kind.value: (
            work.waiting,
            None if work.oldest is None else (now - work.oldest).total_seconds(),
        )
        for kind, work in backlog.items()
    }
    done = memory.counters.counts()
    keys = runtime.store.list_keys(visit.tenant.tenant)
    page = visit.number("page", 1)
    values = {
        "stats": stats,
        "waits": waits,
        "late": any((age or 0) > _LATE_SECONDS for _, age in waits.values()),
        "work_done": {kind.value: counts for kind, counts in done.items()},
        "state": runtime.store.state(),
        "next_retention": memory.next_retention(),
        "keys": keys[(page - 1) * _PAGE : page * _PAGE],
        "number": page,
        "pages": max(1, -(-len(keys) // _PAGE)),
        "now": now,
        "made": made,
        "may_change": visit.visitor.may(AccessRole.ADMIN),
        "role_names": [role.value for role in AccessRole],
    }
    return Page(template="health.html", values=values)


def make_key(visit: Visit) -> Answer:
    visit.need(AccessRole.ADMIN, whole=True)
    agents = [name.strip() for name in visit.given("agents").split(",") if name.strip()]
    made = api_keys.make_key(
        visit.memory.runtime,
        tenant=visit.tenant.tenant,
        role=visit.given("role"),
        name=visit.given("name"),
        agents=agents or None,
        user=visit.given("user") or None,
        actor=visit.actor,
    )
    # Shown at once: the token cannot be had again, and must not stand in an address.
    return _page(visit, made)


def rotate_key(visit: Visit) -> Answer:
    made = api_keys.rotate_key(
        visit.memory.runtime, _own_key(visit), grace=_GRACE, actor=visit.actor
    )
    return _page(visit, made)


def revoke_key(visit: Visit) -> Answer:
    api_keys.revoke_key(visit.memory.runtime, _own_key(visit), actor=visit.actor)
    return Redirect(to=visit.link("/health"), message="The key is revoked.")


def _own_key(visit: Visit) -> str:
    visit.need(AccessRole.ADMIN, whole=True)
    found = visit.memory.runtime.store.find_key(visit.given("key"))
    if found is None:
        raise InvalidInput("key", "is not known")
    if found[0].tenant != visit.tenant.tenant:
        raise Forbidden("this key belongs to another tenant")
    return found[0].id
