"""Feeding a remote index, which mirrors the vectors, from the work queue."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from ...domain.episode import Scope
from ...domain.errors import IndexUnavailable, InvalidSetting
from ...ports.index import IndexMirror, MirrorRow
from ...ports.privacy import Lead
from ...ports.recall_rows import Removal, Work, WorkKind
from ..core.runtime import Runtime

log = logging.getLogger(__name__)

_JOB = "index"
_LEASE = timedelta(seconds=120)
_BATCH = 256
_REMOVALS = 64
_LONGEST_WAIT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedReport:
    """Counts of a feeding run."""

    given: int = 0
    """Rows written to the index."""
    removed: int = 0
    """Removals from the index, each of any number of rows."""
    problem: str = ""
    """Why the index could not be fed, if it could not; the rest stays queued."""

    @property
    def failed(self) -> bool:
        return bool(self.problem)

    def __add__(self, other: FeedReport) -> FeedReport:
        return FeedReport(
            given=self.given + other.given,
            removed=self.removed + other.removed,
            problem=self.problem or other.problem,
        )

    def __bool__(self) -> bool:
        """Return whether there may be more work to claim."""
        return bool(self.given or self.removed) and not self.failed


def attach(runtime: Runtime) -> None:
    """Have the store queue changes for the remote index from now on.

    A memory that is opened without its remote index still queues for it, because one command with
    other settings must not make the mirror drift. `detach` stops it.
    """
    fed = _fed(runtime)
    if fed is not None:
        runtime.store.use_mirror(fed.name)
        return
    mirror = runtime.store.state().mirror
    if mirror is not None:
        log.warning(
            "this memory feeds %s, but the settings name another index: set index, or stop feeding "
            "it with: octopus index drop",
            mirror.partition("/")[0],
        )


def detach(runtime: Runtime, *, abandon: bool = False) -> list[str]:
    """Remove the mirror and stop feeding it; returns the names of the collections removed.

    With `abandon` the mirror is not touched, because its server is gone permanently.

    :raises InvalidSetting: when the settings name another index than the one that is fed
    :raises IndexUnavailable: when it cannot be reached
    """
    gone: list[str] = []
    if not abandon:
        mirror, fed = runtime.index.mirror, runtime.store.state().mirror
        if fed is not None and (mirror is None or mirror.name != fed):
            raise InvalidSetting(
                "index",
                f"must be {fed.partition('/')[0]}, which this memory feeds, to have its "
                "copy removed",
            )
        gone = [] if mirror is None else mirror.drop_models(keep=None)
    runtime.store.use_mirror(None)
    return gone


def waiting(runtime: Runtime) -> int:
    """Count the changes that wait for the remote index."""
    if _fed(runtime) is None:
        return 0
    backlog = runtime.store.backlog()
    return sum(backlog[kind].waiting for kind in (WorkKind.INDEX, WorkKind.UNINDEX))


def feed(
    runtime: Runtime, worker_id: str, *, look: bool = True, stop: Callable[[], bool] = lambda: False
) -> FeedReport:
    """Apply all waiting changes to the remote index; an unreachable index never raises.

    With `look` it also verifies that the index still has a collection for this model, and drops
    those of former models. `stop` is called after each batch.

    One process feeds at a time, because a second one could write a row that it read before an
    erasure after the first one removed it.
    """
    mirror = _fed(runtime)
    if mirror is None or not (look or waiting(runtime)):
        return FeedReport()
    with runtime.store.lead(_JOB, worker_id=worker_id) as lead:
        if lead is None:
            return FeedReport()
        try:
            return _feed(runtime, mirror, worker_id, lead, stop)
        except IndexUnavailable as error:
            log.warning("feeding the index failed and will be retried: %s", error)
            return FeedReport(problem=str(error))


def _feed(
    runtime: Runtime, mirror: IndexMirror, worker_id: str, lead: Lead, stop: Callable[[], bool]
) -> FeedReport:
    report = FeedReport()
    model = runtime.embedder.model
    is_mine = runtime.store.state().model == model
    if is_mine and mirror.prepare(model, runtime.embedder.dimension):
        runtime.store.queue_for_mirror()
    while not stop() and lead.renew():
        done = _take_out(runtime, mirror, worker_id)
        if is_mine and not done.failed:
            done += _give(runtime, mirror, worker_id)
        report += done
        if not done:
            break
    if is_mine and not report.failed:
        _retire(runtime, mirror)
    return report


def _give(runtime: Runtime, mirror: IndexMirror, worker_id: str) -> FeedReport:
    now = runtime.clock.now()
    claimed = runtime.store.claim(
        WorkKind.INDEX, worker_id=worker_id, limit=_BATCH, now=now, until=now + _LEASE
    )
    if not claimed:
        return FeedReport()
    try:
        mirror.upsert(runtime.embedder.model, _rows(runtime, claimed))
    except IndexUnavailable as error:
        _give_back(runtime, claimed, worker_id, error)
        return FeedReport(problem=str(error))
    runtime.store.finish(claimed)
    return FeedReport(given=len(claimed))


def _rows(runtime: Runtime, claimed: Sequence[Work]) -> list[MirrorRow]:
    """Read the claimed rows that still exist with a vector of the current model."""
    by_scope: dict[tuple[int, Scope], list[int]] = {}
    for work in claimed:
        by_scope.setdefault((work.scope_id, work.scope), []).append(work.seq)
    rows = []
    for (scope_id, scope), seqs in by_scope.items():
        state, read = runtime.store.recall_rows(scope, seqs=seqs)
        # A scope that was erased and used again has the same name but another id.
        if state.scope_id != scope_id:
            continue
        rows += [
            MirrorRow(tenant=scope.tenant, scope_id=scope_id, row=row)
            for row in read
            if row.model == runtime.embedder.model and row.vector is not None
        ]
    return rows


def _take_out(runtime: Runtime, mirror: IndexMirror, worker_id: str) -> FeedReport:
    now = runtime.clock.now()
    claimed = runtime.store.claim(
        WorkKind.UNINDEX, worker_id=worker_id, limit=_REMOVALS, now=now, until=now + _LEASE
    )
    for number, removal in enumerate(claimed):
        try:
            mirror.remove(removal)
        except IndexUnavailable as error:
            _give_back(runtime, claimed[number:], worker_id, error)
            return FeedReport(removed=number, problem=str(error))
        runtime.store.finish([removal])
    return FeedReport(removed=len(claimed))


def _give_back(
    runtime: Runtime, claimed: Sequence[Work | Removal], worker_id: str, error: IndexUnavailable
) -> None:
    """Postpone the work, doubling the wait with each attempt; it is never given up."""
    log.warning("%d changes of the index failed and will be retried: %s", len(claimed), error)
    now = runtime.clock.now()
    by_tries = sorted(claimed, key=lambda work: work.attempts)
    for attempts, work in groupby(by_tries, key=lambda work: work.attempts):
        wait = min(timedelta(seconds=2 ** min(attempts, 10)), _LONGEST_WAIT)
        runtime.store.postpone(list(work), until=now + wait, worker_id=worker_id)


def _retire(runtime: Runtime, mirror: IndexMirror) -> None:
    backlog = runtime.store.backlog()
    if not any(backlog[kind].waiting for kind in (WorkKind.EMBED, WorkKind.INDEX)):
        mirror.drop_models(keep=runtime.embedder.model)


def _fed(runtime: Runtime) -> IndexMirror | None:
    mirror = runtime.index.mirror
    return mirror if mirror is not None and mirror.name else None
