"""Erasure of a user, confirmed by typing the id, with its progress and receipts."""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING
from uuid import UUID

from ....domain.episode import check_name
from ....domain.erasure import (
    EraseProgress,
    EraseReceipt,
    FileSearch,
    StepState,
    is_genuine,
)
from ....domain.errors import InvalidInput, OctopusError, for_log
from ....domain.identity import AccessRole
from ..visit import Answer, Download, Forbidden, Page, Redirect, Visit

if TYPE_CHECKING:
    from ....ports.privacy import Trace

log = logging.getLogger(__name__)

_WATCHES = (AccessRole.ADMIN, AccessRole.AUDITOR)
_OWNS = (AccessRole.ADMIN, AccessRole.USER)
_PAGE = 20
_MOST_SEARCHES = 1_000


class _Searches:
    """Searches of the files that this process began, by erasure. Bounded and thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: OrderedDict[UUID, FileSearch | None] = OrderedDict()

    def begin(self, erasure_id: UUID) -> None:
        with self._lock:
            self._results[erasure_id] = None
            if len(self._results) > _MOST_SEARCHES:
                self._results.popitem(last=False)

    def end(self, erasure_id: UUID, result: FileSearch | None) -> None:
        with self._lock:
            if result is None:
                self._results.pop(erasure_id, None)
            else:
                self._results[erasure_id] = result

    def is_running(self, erasure_id: UUID) -> bool:
        with self._lock:
            return erasure_id in self._results and self._results[erasure_id] is None

    def result(self, erasure_id: UUID) -> FileSearch | None:
        with self._lock:
            return self._results.get(erasure_id)


_searches = _Searches()


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
    }
    return Page(template="erasure.html", values=values)


def erase(visit: Visit) -> Answer:
    visit.need(*_OWNS)
    principal = visit.visitor.principal
    user = check_name("user", visit.given("user"))
    agent = visit.given("agent") or None
    if visit.given("confirm") != user:
        raise InvalidInput("confirm", "must be the user's id, letter by letter; nothing is erased")
    if agent is None and principal.agents is not None:
        raise Forbidden("this credential is for some agents: name one of them")
    if not principal.reaches(agent=agent, user=user):
        raise Forbidden("this credential is for another agent or user")
    trace = None
    if visit.given("verify") == "on":
        trace = visit.tenant.trace(user, agent=agent)
    begun = visit.tenant.begin_erasing(user, agent=agent, actor=visit.actor).receipt
    if trace is not None:
        _searches.begin(begun.id)
    if principal.user is not None:
        # The user's keys are erased too, so that no later request could show the receipt.
        _complete(visit, begun, trace)
        return receipt_page(visit.tenant.erasing(begun), signed_out=True)
    return Redirect(
        to=visit.link("/erasure/progress", id=str(begun.id)),
        afterwards=lambda: _complete(visit, begun, trace),
    )


def _complete(visit: Visit, begun: EraseReceipt, trace: Trace | None) -> None:
    """Do the steps after the rows. If this process dies, a worker does them."""
    found = None
    try:
        visit.tenant.finish_erasing(begun)
        found = None if trace is None else trace.search()
    except (OctopusError, OSError) as error:
        words = for_log(error)
        log.warning("completing an erasure failed and will be retried: %s", words)
    finally:
        _searches.end(begun.id, found)


def progress(visit: Visit) -> Answer:
    """Show the steps of an erasure."""
    return Page(template="progress.html", values=_steps(visit))


def steps(visit: Visit) -> Answer:
    """Render the part of the page that the browser reloads while an erasure runs."""
    return Page(template="progress_steps.html", values=_steps(visit))


def _steps(visit: Visit) -> dict[str, object]:
    found = _own(visit)
    searches = _searches.is_running(found.erasure.id)
    return {
        "progress": found,
        "receipt": found.receipt,
        "rows": sum(found.receipt.removed.values()),
        "vectors": found.receipt.removed.get("recall rows", 0),
        "searches": searches,
        "search": _searches.result(found.erasure.id),
        "is_over": found.is_over and not searches,
        "waits": found.verification is StepState.DONE and not searches,
    }


def _own(visit: Visit) -> EraseProgress:
    """Return the progress of the erasure that the request names.

    :raises Forbidden: the visitor may see no receipts of others, and did not ask for this erasure
    """
    visit.need(*_WATCHES, AccessRole.USER)
    found = visit.tenant.erasing(_id(visit))
    principal = visit.visitor.principal
    if visit.visitor.may(*_WATCHES) and visit.visitor.is_whole:
        return found
    is_own = found.erasure.actor == visit.actor
    if principal.user is not None:
        is_own = found.erasure.subject == visit.tenant.subject(principal.user)
    if not is_own:
        raise Forbidden("this receipt is of another erasure")
    return found


def receipt(visit: Visit) -> Answer:
    return receipt_page(_own(visit))


def receipt_page(found: EraseProgress, *, signed_out: bool = False) -> Page:
    body = found.receipt.to_dict()
    values = {
        "receipt": found.receipt,
        "signed_out": signed_out,
        "body": json.dumps(body, indent=2),
        "is_genuine": is_genuine(body),
        "search": _searches.result(found.erasure.id),
    }
    return Page(template="receipt.html", values=values)


def download(visit: Visit) -> Answer:
    found = _own(visit).receipt
    content = json.dumps(found.to_dict(), indent=2).encode()
    return Download(name=f"erasure-{found.id}.json", content=content)


def _id(visit: Visit) -> UUID:
    try:
        return UUID(visit.given("id"))
    except ValueError as error:
        raise InvalidInput("id", "must be the id of a receipt") from error
