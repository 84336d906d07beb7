"""Erasure of a user, confirmed by typing the id, and its receipts."""

from __future__ import annotations

import json
from uuid import UUID

from ....domain.erasure import EraseReceipt, is_genuine
from ....domain.errors import InvalidInput
from ....domain.identity import AccessRole
from ..visit import Answer, Download, Forbidden, Page, Redirect, Visit

_WATCHES = (AccessRole.ADMIN, AccessRole.AUDITOR)
_OWNS = (AccessRole.ADMIN, AccessRole.USER)
_PAGE = 20


def show(visit: Visit) -> Answer:
    visit.need(*_WATCHES, AccessRole.USER)
    receipts: list[EraseReceipt] = []
    if visit.visitor.may(*_WATCHES) and visit.visitor.is_whole:
        before = visit.given("before") or None
        receipts = visit.tenant.receipts(before=before, limit=_PAGE + 1)
    user = visit.visitor.principal.user or visit.given("user")
    values = {
        "user": user,
        "agent": visit.given("agent"),
        "receipts": receipts[:_PAGE],
        "following": receipts[_PAGE - 1].id if len(receipts) > _PAGE else None,
        "may_erase": visit.visitor.may(*_OWNS),
        "wrong": "",
    }
    return Page(template="erasure.html", values=values)


def erase(visit: Visit) -> Answer:
    visit.need(*_OWNS)
    principal = visit.visitor.principal
    user, agent = visit.given("user"), visit.given("agent") or None
    if not user:
        raise InvalidInput("user", "must be given")
    if visit.given("confirm") != user:
        raise InvalidInput("confirm", "must be the user's id, letter by letter; nothing is erased")
    if agent is None and principal.agents is not None:
        raise Forbidden("this credential is for some agents: name one of them")
    if not principal.reaches(agent=agent, user=user):
        raise Forbidden("this credential is for another agent or user")
    trace = None
    if visit.given("verify") == "on":
        trace = visit.tenant.trace(user, agent=agent)
    receipt = visit.tenant.erase_user(user, agent=agent, actor=visit.actor)
    found = ""
    if trace is not None:
        search = trace.search()
        found = "bytes were found" if search is not None and search.found else "no byte is left"
    if not visit.visitor.may(*_WATCHES) or not visit.visitor.is_whole:
        return _page(visit, receipt, found)
    to = visit.link("/erasure/receipt", id=str(receipt.id), files=found)
    return Redirect(to=to, message="Everything of this user is erased.")


def receipt(visit: Visit) -> Answer:
    visit.need(*_WATCHES, whole=True)
    return _page(visit, visit.tenant.receipt(_id(visit)), visit.given("files")[:100])


def _page(visit: Visit, found: EraseReceipt, files: str) -> Page:
    body = found.to_dict()
    values = {
        "receipt": found,
        "body": json.dumps(body, indent=2),
        "is_genuine": is_genuine(body),
        "files": files,
        "may_download": visit.visitor.may(*_WATCHES) and visit.visitor.is_whole,
    }
    return Page(template="receipt.html", values=values)


def download(visit: Visit) -> Answer:
    visit.need(*_WATCHES, whole=True)
    found = visit.tenant.receipt(_id(visit))
    content = json.dumps(found.to_dict(), indent=2).encode()
    return Download(name=f"erasure-{found.id}.json", content=content)


def _id(visit: Visit) -> UUID:
    try:
        return UUID(visit.given("id"))
    except ValueError as error:
        raise InvalidInput("id", "must be the id of a receipt") from error
