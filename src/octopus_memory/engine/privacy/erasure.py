"""Erasure of keys, rows, caches, mirrors and files, with a receipt of its progress.

One transaction removes the rows and records the erasure as unfinished. Where scopes have keys, one
records it before, the keys are destroyed, and another one removes the rows. Every later step can be
repeated by any process, because the first one may die at any point.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from ...domain.erasure import (
    ErasedCopies,
    EraseProgress,
    EraseReceipt,
    Erasure,
    StepState,
    Subject,
)
from ...domain.errors import (
    InvalidInput,
    KeyUnavailable,
    NotFound,
    OctopusError,
    StoreCorrupt,
    StoreError,
)
from ...domain.ids import as_id, new_id
from ..core import audit, leases
from ..core.runtime import Runtime
from ..work.mirror import feed

log = logging.getLogger(__name__)

KEYS = "keys"
"""The pending step of an erasure whose keys could not be destroyed yet."""
VERIFICATION = "verification"
"""The pending step of an erasure that was interrupted before its verification."""


def erase(runtime: Runtime, subject: Subject, *, actor: str, physical: bool = True) -> EraseReceipt:
    """Remove everything of the subject; the receipt lists the steps that are pending.

    If an error is raised, nothing was removed.

    :raises EpisodeNotFound: for an episode that is not in its scope
    :raises SessionNotFound: for a session that is not in its scope
    :raises LegalHold: when the user or an episode is under a hold; nothing is removed
    """
    return complete(runtime, begin(runtime, subject, actor=actor, physical=physical))


def begin(runtime: Runtime, subject: Subject, *, actor: str, physical: bool = True) -> Erasure:
    """Remove the rows of the subject, and record the erasure for `complete` or `finish`.

    :raises: as `erase` does
    """
    if not isinstance(physical, bool):
        raise InvalidInput("physical", "must be true or false")
    # Ledger entries that wait in this process may be about the subject, and must not be stored
    # after the rows are removed.
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
    return begun


def complete(runtime: Runtime, begun: Erasure) -> EraseReceipt:
    """Do the later steps of an erasure: the mirror, the files, the verification."""
    try:
        _take_out(runtime, begun)
        if begun.physical and not _rewrite(runtime, begun):
            log.warning(
                "an erasure is incomplete until the files are rewritten: run octopus compact"
            )
        return _settle(runtime, begun)
    except StoreError as error:
        # The rows are removed, so the caller gets a receipt. The erasure stays unfinished and is
        # retried.
        log.warning("verifying an erasure failed and will be retried: %s", error.for_log())
        return replace(_begun(begun), pending=(VERIFICATION, *_silent(runtime)))


def finish(runtime: Runtime, *, younger_than: timedelta | None = None) -> int:
    """Continue unfinished erasures; returns how many were completed.

    Erasures younger than `younger_than` are left to the call that began them.
    """
    now = runtime.clock.now()
    waiting = [
        erasure
        for erasure in reversed(runtime.store.erasures(unfinished=True))
        if younger_than is None or now - erasure.at >= younger_than
    ]
    _destroy_doomed(runtime)
    waiting = [_shredded(runtime, erasure) for erasure in waiting]
    wanted = [erasure for erasure in waiting if erasure.physical]
    if wanted:
        _rewrite(runtime, max(wanted, key=lambda erasure: erasure.number))
    done = 0
    for erasure in waiting:
        try:
            if _has_news(runtime, erasure):
                done += _settle(runtime, erasure).is_complete
        except StoreCorrupt as error:
            # A damaged page must not stop the other work.
            log.warning("verifying an erasure failed: %s", error.for_log())
    return done


def compact(runtime: Runtime, *, actor: str) -> bool:
    """Rewrite the files and complete the receipts that waited for it; returns False if it is
    blocked.

    The audit log records only that it was done.
    """
    done = runtime.store.compact()
    outcome = "done" if done else "busy"
    audit.record(runtime, "compact", tenant=audit.INSTALLATION, actor=actor, outcome=outcome)
    finish(runtime)
    return done


def compact_if_owed(runtime: Runtime, *, actor: str) -> bool | None:
    """Call `compact` if any process removed rows since the last rewrite; None if not."""
    try:
        return compact(runtime, actor=actor) if runtime.store.state().owes_compaction else None
    except StoreError as error:
        log.warning("rewriting the files failed: %s", error.for_log())
        return False


def receipt(runtime: Runtime, tenant: str, given: EraseReceipt | UUID | str) -> EraseReceipt:
    """Return a receipt.

    :raises NotFound: when the tenant has no such receipt
    """
    return _receipt_of(_known(runtime, tenant, given))


def _known(runtime: Runtime, tenant: str, given: EraseReceipt | UUID | str) -> Erasure:
    erasure_id = as_id("erasure_id", given, EraseReceipt)
    if erasure_id is not None:
        for erasure in runtime.store.erasures(tenant, erasure_id=erasure_id):
            return erasure
    shown = str(given if erasure_id is None else erasure_id)
    raise NotFound(f"no receipt {shown!r} in this tenant: receipts() lists them")


def _receipt_of(erasure: Erasure) -> EraseReceipt:
    kept = erasure.receipt
    return _begun(erasure) if kept is None else EraseReceipt.from_dict(kept)


def progress(runtime: Runtime, tenant: str, given: EraseReceipt | UUID | str) -> EraseProgress:
    """Return the steps of an erasure that are done and pending.

    :raises NotFound: when the tenant has no such erasure
    """
    store = runtime.store
    erasure, state = _known(runtime, tenant, given), store.state()
    current = _receipt_of(erasure)
    mirror = StepState.NOT_NEEDED
    if state.mirror is not None:
        pending = state.mirror in current.pending or store.waiting_removals(erasure)
        mirror = StepState.PENDING if pending else StepState.DONE
    files = StepState.NOT_NEEDED
    if erasure.physical or state.compacted >= erasure.number:
        files = StepState.DONE if state.compacted >= erasure.number else StepState.PENDING
    verified = VERIFICATION not in current.pending
    return EraseProgress(
        erasure=erasure,
        receipt=current,
        rows=StepState.PENDING if erasure.keeps_rows else StepState.DONE,
        vectors=StepState.DONE,
        mirror=mirror,
        files=files,
        verification=StepState.DONE if verified else StepState.PENDING,
    )


def receipts(
    runtime: Runtime,
    tenant: str,
    *,
    before: EraseReceipt | UUID | str | None = None,
    limit: int = 100,
) -> list[EraseReceipt]:
    """Return the tenant's receipts, newest first."""
    if before is not None:
        given, before = before, as_id("before", before, EraseReceipt)
        if before is None:
            raise InvalidInput(
                "before", f"must be a receipt's id, not {given!r}: receipts() lists them"
            )
    return [
        _receipt_of(erasure)
        for erasure in runtime.store.erasures(tenant, before=before, limit=limit)
    ]


def _take_out(runtime: Runtime, erasure: Erasure) -> None:
    """Remove the rows from a remote index now if it can be reached, else later."""
    feed(
        runtime,
        leases.new_worker_id(),
        verify=False,
        stop=lambda: not runtime.store.waiting_removals(erasure),
    )


def _rewrite(runtime: Runtime, erasure: Erasure) -> bool:
    """Rewrite the files; a failure does not fail the erasure, because it is retried."""
    if runtime.store.state().compacted >= erasure.number:
        return True
    try:
        return runtime.store.compact()
    except StoreError as error:
        log.warning("rewriting the files failed and will be retried: %s", error.for_log())
        return False


def _shredded(runtime: Runtime, erasure: Erasure) -> Erasure:
    """Return the erasure after its keys and rows are gone; as it was if that must wait."""
    if not erasure.keeps_rows:
        return erasure
    try:
        done, _ = runtime.store.shred(erasure)
    except KeyUnavailable as error:
        log.warning("an erasure waits for the key store: %s", error.for_log())
        return erasure
    runtime.clear_caches()
    return done


def _destroy_doomed(runtime: Runtime) -> None:
    try:
        runtime.store.destroy_doomed()
    except KeyUnavailable as error:
        log.warning("keys of removed data wait for the key store: %s", error.for_log())


def _settle(runtime: Runtime, erasure: Erasure) -> EraseReceipt:
    """Search for rows that are left, and store the receipt."""
    found = _search(runtime, erasure)
    if not found.is_complete:
        # Read again, because another process may have stored one since.
        stored = runtime.store.erasures(erasure.tenant, erasure_id=erasure.id)
        if any(found.to_dict() == each.receipt for each in stored):
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
    # Another process may have finished it first: then its receipt counts.
    return found if kept else receipt(runtime, erasure.tenant, erasure.id)


def _search(runtime: Runtime, erasure: Erasure) -> EraseReceipt:
    store = runtime.store
    pending: tuple[str, ...] = ()
    copies: ErasedCopies | None = ErasedCopies()
    try:
        erasure, copies = store.shred(erasure)
    except KeyUnavailable as error:
        log.warning("an erasure is incomplete until the key store answers: %s", error.for_log())
        pending = (KEYS,)
    left = store.left_of(erasure)
    mirror = store.state().mirror
    if mirror is not None:
        # A forgotten turn's row is replaced in the mirror, where its episode stays.
        copied = 0 if erasure.chosen is not None else _left_in_mirror(runtime, erasure)
        left |= {} if copied is None else {mirror: copied}
        if copied is None or store.waiting_removals(erasure):
            pending += (mirror,)
    physical = store.state().compacted >= erasure.number
    return EraseReceipt(
        id=erasure.id,
        at=erasure.at,
        tenant=erasure.tenant,
        subject=erasure.subject,
        removed=erasure.removed,
        left=left,
        physical=physical,
        pending=pending if physical else (*pending, *_silent(runtime)),
        nodes=tuple(store.nodes()) if physical else (),
        copies=copies,
    )


def _silent(runtime: Runtime) -> tuple[str, ...]:
    """The nodes of a distributed database that do not answer, as a receipt names them."""
    try:
        return tuple(f"node {name}" for name, up in runtime.store.nodes().items() if not up)
    except StoreError:
        # The coordinator itself does not answer.
        return ()


def _left_in_mirror(runtime: Runtime, erasure: Erasure) -> int | None:
    try:
        if erasure.episode_ids:
            count = runtime.index.count_mirrored
            left = [count(erasure.scope_ids, each) for each in erasure.episode_ids]
            return None if None in left else sum(each or 0 for each in left)
        return runtime.index.count_mirrored(erasure.scope_ids, erasure.episode_id)
    except OctopusError as error:
        log.warning("searching the remote index failed: %s", type(error).__name__)
        return None


def _has_news(runtime: Runtime, erasure: Erasure) -> bool:
    """Return whether a new search could differ from the stored receipt."""
    if erasure.receipt is None:
        return True
    was = EraseReceipt.from_dict(erasure.receipt)
    waits = runtime.store.waiting_removals(erasure) > 0
    rewritten = runtime.store.state().compacted >= erasure.number
    is_changed = was.physical != rewritten or bool(was.pending) != waits
    return is_changed or KEYS in was.pending or any(was.left.values())


def _begun(erasure: Erasure) -> EraseReceipt:
    return EraseReceipt(
        id=erasure.id,
        at=erasure.at,
        tenant=erasure.tenant,
        subject=erasure.subject,
        removed=erasure.removed,
        pending=(VERIFICATION,),
    )
