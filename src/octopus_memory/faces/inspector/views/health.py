"""Rates, backlog, worker, sizes and API keys."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ....domain.errors import InvalidInput
from ....domain.identity import AccessRole, NewKey
from .. import wording
from ..charts import HEIGHT, WIDTH, chart
from ..visit import Answer, Page, Redirect, Visit

_WATCHES = (AccessRole.ADMIN, AccessRole.AUDITOR)
_GRACE = timedelta(hours=24)
_PAGE = 50
_LATE_SECONDS = 300


def show(visit: Visit) -> Answer:
    return _page(visit, None)


def live(visit: Visit) -> Answer:
    """Render the part of the page that the browser reloads while it is open."""
    visit.need(*_WATCHES, whole=True)
    return Page(template="health_live.html", values=_now(visit))


def _page(visit: Visit, made: NewKey | None) -> Page:
    visit.need(*_WATCHES, whole=True)
    keys = visit.memory.api_keys.list(visit.tenant.tenant)
    page = visit.number("page", 1)
    values = _now(visit) | {
        "stats": visit.memory.stats() if _is_installation(visit) else None,
        "configured": visit.memory.embedding_model,
        "keys": keys[(page - 1) * _PAGE : page * _PAGE],
        "number": page,
        "pages": max(1, -(-len(keys) // _PAGE)),
        "made": made,
        "may_change": visit.visitor.may(AccessRole.ADMIN),
        "role_names": [role.value for role in AccessRole],
    }
    return Page(template="health.html", values=values)


def _is_installation(visit: Visit) -> bool:
    """Check that the visitor may see counts of the whole database.

    An administrator of one tenant may if there is no other tenant.
    """
    if visit.visitor.every_tenant:
        return True
    first = visit.memory.tenants(limit=2)
    return [each.tenant for each in first] == [visit.tenant.tenant]


def _now(visit: Visit) -> dict[str, Any]:
    memory = visit.memory
    now = memory.now()
    waits = {
        wording.WORK[kind]: (
            work.waiting,
            None if work.oldest is None else (now - work.oldest).total_seconds(),
        )
        for kind, work in memory.backlog().items()
    }
    counts = memory.counts
    minutes = counts.minutes(None if visit.visitor.every_tenant else visit.tenant.tenant)
    return {
        "now": now,
        "waits": waits,
        "late": any((age or 0) > _LATE_SECONDS for _, age in waits.values()),
        "work_done": {wording.WORK[kind]: done for kind, done in counts.work().items()},
        "worker": memory.worker_state,
        "state": memory.database_state(),
        "next_retention": memory.next_retention(),
        "charts": (
            chart("Messages stored", [each.messages for each in minutes]),
            chart("Recalls and blocks", [each.recalls for each in minutes]),
            chart("Errors", [each.errors for each in minutes]),
        ),
        "minutes": [each for each in reversed(minutes) if any(each[1:])],
        "counts_since": counts.since,
        "chart_size": (WIDTH, HEIGHT),
        "of_all_tenants": visit.visitor.every_tenant,
    }


def make_key(visit: Visit) -> Answer:
    visit.need(AccessRole.ADMIN, whole=True)
    agents = [name.strip() for name in visit.given("agents").split(",") if name.strip()]
    made = visit.memory.api_keys.create(
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
    keys = visit.memory.api_keys
    return _page(visit, keys.rotate(_own_key(visit), grace=_GRACE, actor=visit.actor))


def revoke_key(visit: Visit) -> Answer:
    visit.memory.api_keys.revoke(_own_key(visit), actor=visit.actor)
    return Redirect(to=visit.link("/health"), message="The key is revoked.")


def _own_key(visit: Visit) -> str:
    visit.need(AccessRole.ADMIN, whole=True)
    found = visit.memory.api_keys.find(visit.given("key"))
    # In the same words for a key of another tenant, so that a tenant cannot probe for those.
    if found is None or found.tenant != visit.tenant.tenant:
        raise InvalidInput("key", "is not known")
    return found.id
