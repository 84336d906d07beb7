"""Erasure: the rows at once, then caches, copies and files, and a receipt that says how far it is.

The rows go in one transaction, which remembers the erasure as unfinished. Everything after it can
be done again, by whoever comes next: a process may die anywhere in between.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from ...domain.erasure import EraseReceipt, Erasure, Subject
from ...domain.errors import InvalidInput, NotFound, OctopusError, StoreCorrupt, StoreError
from ...domain.ids import as_id, new_id
from ..core import audit, leases
from ..core.runtime import Runtime
from ..work.mirror import feed

log = logging.getLogger(__name__)

VERIFICATION = "verification"
"""What is pending of an erasure that was cut short before its search."""


def erase(runtime: Runtime, subject: Subject, *, actor: str, physical: bool = True) -> EraseReceipt:
    """Remove everything of the subject; the receipt says what is still to be done, if anything is.

    Where an error is raised, nothing is gone.

    :raises EpisodeNotFound: for an episode that is not in its scope
    :raises SessionNotFound: for a session that is not in its scope
    :raises LegalHold: when a hold stands on the user or one of the episodes; nothing is gone
    """
    if not isinstance(physical, bool):
        raise InvalidInput("physical", "must be true or false")
    # What waits in this process is about the subject, too, and must not come after the rows went.
    runtime.ledger.flush()
    erasure_id = new_id()
    about = {"erasure": str(erasure_id), **audit.episode_detail(subject.episode_id)}
    entry = audit.draft(
        runtime, "erase", tenant=subject.tenant, actor=actor, user=subject.user, **about
    )
    erasure = Erasure(
        id=erasure_id,
        tenant=subject.tenant,
        at=entry.at,
        subject=entry.subject or "",
        actor=entry.actor,
        physical=physical,
    )
    with audit.refusals(
        runtime, "erase", tenant=subject.tenant, actor=actor, user=subject.user, **about
    ):
        begun = runtime.store.erase(subject, erasure, entry)
    runtime.clear_caches()
    try:
        _take_out(runtime, begun)
        if physical and not _rewrite(runtime, begun):
            log.warning("an erasure waits for the files to be rewritten: octopus compact")
        return _settle(runtime, begun)
    except StoreError as error:
        # The rows are gone, so the caller gets a receipt. It stays unfinished, and is tried again.
        log.warning("an erasure cannot be verified yet: %s", error.for_log())
        return _begun(begun)


def finish(runtime: Runtime, *, younger_than: timedelta | None = None) -> int:
    """Go on with erasures that were cut short or did not reach everything; returns how many ended.

    Those of the last moments (`younger_than`) are left to the call that is still at them.
    """
    now = runtime.clock.now()
    waiting = [
        erasure
        for erasure in reversed(runtime.store.erasures(unfinished=True))
        if younger_than is None or now - erasure.at >= younger_than
    ]
    wanted = [erasure for erasure in waiting if erasure.physical]
    if wanted:
        _rewrite(runtime, max(wanted, key=lambda erasure: erasure.number))
    done = 0
    for erasure in waiting:
        try:
            if _has_news(runtime, erasure):
                done += _settle(runtime, erasure).is_complete
        except StoreCorrupt as error:
            # A damaged page must not keep the other work waiting.
            log.warning("an erasure cannot be verified: %s", error.for_log())
    return done


def compact(runtime: Runtime, *, actor: str) -> bool:
    """Rewrite the files, and complete the receipts that waited for it; False when it cannot be now.

    What is recorded says only that it was done.
    """
    done = runtime.store.compact()
    outcome = "done" if done else "busy"
    audit.record(runtime, "compact", tenant=audit.INSTALLATION, actor=actor, outcome=outcome)
    finish(runtime)
    return done


def compact_if_owed(runtime: Runtime, *, actor: str) -> bool | None:
    """As `compact`, after rows were removed, by whomever; None where nothing asks for it."""
    try:
        return compact(runtime, actor=actor) if runtime.store.state().owes_compaction else None
    except StoreError as error:
        log.warning("the files are not rewritten now: %s", error.for_log())
        return False


def receipt(runtime: Runtime, tenant: str, given: EraseReceipt | UUID | str) -> EraseReceipt:
    """:raises NotFound: when the tenant has no such receipt"""
    erasure_id = as_id("erasure_id", given, EraseReceipt)
    if erasure_id is None:
        raise _not_found(str(given))
    kept = runtime.store.receipt(tenant, erasure_id)
    if kept is not None:
        return EraseReceipt.from_dict(kept)
    for erasure in runtime.store.erasures(tenant, unfinished=True):
        if erasure.id == erasure_id:
            return _begun(erasure)
    raise _not_found(erasure_id)


def _not_found(erasure_id: UUID | str) -> NotFound:
    return NotFound(f"no receipt {str(erasure_id)!r} in this tenant: receipts() lists them")


def receipts(
    runtime: Runtime,
    tenant: str,
    *,
    before: EraseReceipt | UUID | str | None = None,
    limit: int = 100,
) -> list[EraseReceipt]:
    """The tenant's receipts, newest first."""
    if before is not None:
        given, before = before, as_id("before", before, EraseReceipt)
        if before is None:
            raise InvalidInput("before", f"{given!r} is no receipt's id: receipts() lists them")
    found = []
    for erasure in runtime.store.erasures(tenant, before=before, limit=limit):
        kept = runtime.store.receipt(tenant, erasure.id)
        found.append(_begun(erasure) if kept is None else EraseReceipt.from_dict(kept))
    return found


def _take_out(runtime: Runtime, erasure: Erasure) -> None:
    """Tell a remote index at once, where it can be reached; else it is told later."""
    feed(
        runtime,
        leases.new_worker_id(),
        look=False,
        stop=lambda: not runtime.store.waiting_removals(erasure),
    )


def _rewrite(runtime: Runtime, erasure: Erasure) -> bool:
    """Not being able to is no failure of the erasure: it is tried again."""
    if runtime.store.state().compacted >= erasure.number:
        return True
    try:
        return runtime.store.compact()
    except StoreError as error:
        log.warning("the files cannot be rewritten yet: %s", error.for_log())
        return False


def _settle(runtime: Runtime, erasure: Erasure) -> EraseReceipt:
    """Look for what is left, and keep the receipt that says so."""
    found = _search(runtime, erasure)
    if not found.is_complete and found.to_dict() == runtime.store.receipt(
        erasure.tenant, erasure.id
    ):
        return found
    entry = audit.draft(
        runtime,
        "erase_receipt",
        tenant=erasure.tenant,
        actor=erasure.actor,
        outcome="complete" if found.is_complete else "incomplete",
        erasure=str(erasure.id),
        sha256=found.sha256,
    )
    entry = replace(entry, subject=erasure.subject)
    kept = runtime.store.keep_receipt(erasure, found.to_dict(), entry, finished=found.is_complete)
    # Somebody else may have finished it meanwhile: theirs is the receipt then.
    return found if kept else receipt(runtime, erasure.tenant, erasure.id)


def _search(runtime: Runtime, erasure: Erasure) -> EraseReceipt:
    store = runtime.store
    left = store.left_of(erasure)
    pending: tuple[str, ...] = ()
    mirror = store.state().mirror
    if mirror is not None:
        copied = _left_in_mirror(runtime, erasure)
        left |= {} if copied is None else {mirror: copied}
        if copied is None or store.waiting_removals(erasure):
            pending = (mirror,)
    return EraseReceipt(
        id=erasure.id,
        at=erasure.at,
        tenant=erasure.tenant,
        subject=erasure.subject,
        removed=erasure.removed,
        left=left,
        physical=store.state().compacted >= erasure.number,
        pending=pending,
    )


def _left_in_mirror(runtime: Runtime, erasure: Erasure) -> int | None:
    try:
        if erasure.episode_ids:
            count = runtime.index.count_mirrored
            left = [count(erasure.scope_ids, each) for each in erasure.episode_ids]
            return None if None in left else sum(each or 0 for each in left)
        return runtime.index.count_mirrored(erasure.scope_ids, erasure.episode_id)
    except OctopusError as error:
        log.warning("the remote index cannot be searched: %s", type(error).__name__)
        return None


def _has_news(runtime: Runtime, erasure: Erasure) -> bool:
    """Whether a new search could say something else than the receipt that is kept."""
    kept = runtime.store.receipt(erasure.tenant, erasure.id)
    if kept is None:
        return True
    was = EraseReceipt.from_dict(kept)
    waits = runtime.store.waiting_removals(erasure) > 0
    rewritten = runtime.store.state().compacted >= erasure.number
    return was.physical != rewritten or bool(was.pending) != waits or any(was.left.values())


def _begun(erasure: Erasure) -> EraseReceipt:
    return EraseReceipt(
        id=erasure.id,
        at=erasure.at,
        tenant=erasure.tenant,
        subject=erasure.subject,
        removed=erasure.removed,
        pending=(VERIFICATION,),
    )
