"""Audit log, newest first, with the check of its hash chain."""

from __future__ import annotations

from ....domain.audit import AuditEntry
from ....domain.identity import AccessRole
from ..visit import Answer, Page, Visit

_PAGE = 50
_LOOKED_AT = 2_000
"""Entries that a filter reads for one page."""
_VERIFIED_UNASKED = 5_000
"""Entries up to which the chain is verified whenever the page is opened."""


def show(visit: Visit) -> Answer:
    visit.need(AccessRole.ADMIN, AccessRole.AUDITOR, whole=True)
    tenant = visit.tenant
    head = tenant.audit_head()
    top = min(visit.number("before", head.seq + 1), head.seq + 1)
    action, actor, user = visit.given("action"), visit.given("actor"), visit.given("user")
    subject = tenant.subject(user) if user else ""
    found: list[AuditEntry] = []
    low = top
    looked = 0
    while low > 1 and len(found) < _PAGE and looked < _LOOKED_AT:
        first = max(1, low - _PAGE)
        part = tenant.audit(after=first - 1, limit=low - first)
        looked += low - first
        low = first
        found += [each for each in reversed(part) if _is_wanted(each, action, actor, subject)]
    if len(found) > _PAGE:
        low = found[_PAGE - 1].seq
        found = found[:_PAGE]
    verify = visit.given("verify") == "on" or head.seq <= _VERIFIED_UNASKED
    values = {
        "entries": found,
        "action": action,
        "actor": actor,
        "user": user,
        "following": low if low > 1 else None,
        "is_first": top == head.seq + 1,
        "check": tenant.verify_audit() if verify else None,
        "head": head.seq,
    }
    return Page(template="audit.html", values=values)


def _is_wanted(entry: AuditEntry, action: str, actor: str, subject: str) -> bool:
    if action and action not in entry.action:
        return False
    if actor and actor not in entry.actor:
        return False
    return not subject or entry.subject == subject
