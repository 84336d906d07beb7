"""Feeding a remote index from the store's work list."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from ...domain.episode import Scope
from ...domain.errors import IndexUnavailable, InvalidSetting
from ...ports.index import IndexMirror, MirrorRow
from ...ports.retention import Lead
from ...ports.work import Removal, Work, WorkKind
from ..core.runtime import Runtime

log = logging.getLogger(__name__)

_JOB = "index"
_LEASE = timedelta(seconds=120)
_BATCH = 256
_REMOVALS = 64
_LONGEST_WAIT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedReport:
    """What a run of feeding did."""

    given: int = 0
    """Rows that the index took in."""
    removed: int = 0
    """Removals that it made, each of any number of rows."""
    failed: bool = False
    """Whether the index could not be reached: the rest waits."""

    def __add__(self, other: FeedReport) -> FeedReport:
        return FeedReport(
            given=self.given + other.given,
            removed=self.removed + other.removed,
            failed=self.failed or other.failed,
        )

    def __bool__(self) -> bool:
        """Whether there may be more to do at once."""
        return bool(self.given or self.removed) and not self.failed


def attach(runtime: Runtime) -> None:
    """Have the store queue what a remote index must be told, from now on.

    A memory that is opened without its remote index goes on queueing for it: one command run with
    other settings must not make the copy drift. `detach` is how to stop.
    """
    fed = _fed(runtime)
    if fed is not None:
        runtime.store.use_mirror(fed.name)
        return
    mirror = runtime.store.state().mirror
    if mirror is not None:
        log.warning(
            "this memory feeds %s, which these settings do not name: set index, or stop feeding "
            "it with: octopus index drop",
            mirror.partition("/")[0],
        )


def detach(runtime: Runtime, *, abandon: bool = False) -> list[str]:
    """Remove the index's copy and stop feeding it; returns what was removed.

    With `abandon` the mirror is left as it is: for a server that is gone for good.

    :raises InvalidSetting: when the copy that is fed is not the one that the settings name
    :raises IndexUnavailable: when it cannot be reached
    """
    gone: list[str] = []
    if not abandon:
        mirror, fed = runtime.index.mirror, runtime.store.state().mirror
        if fed is not None and (mirror is None or mirror.name != fed):
            raise InvalidSetting(
                "index",
                f"is not {fed.partition('/')[0]}, which this memory feeds: name it to have its "
                "copy removed",
            )
        gone = [] if mirror is None else mirror.drop_models(keep=None)
    runtime.store.use_mirror(None)
    return gone


def waiting(runtime: Runtime) -> int:
    """How many changes a remote index must still be told of."""
    if _fed(runtime) is None:
        return 0
    backlog = runtime.store.backlog()
    return sum(backlog[kind].waiting for kind in (WorkKind.INDEX, WorkKind.UNINDEX))


def feed(
    runtime: Runtime, worker_id: str, *, look: bool = True, stop: Callable[[], bool] = lambda: False
) -> FeedReport:
    """Give the remote index all that waits and can be claimed now; never raises because of it.

    With `look` it is also seen whether the index still has its place for this model, which it may
    have lost, and what it keeps of former models goes. `stop` is asked after each batch.

    One process feeds at a time. Were there two, one could give a row that it read before an
    erasure after the other had already removed it.
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
            log.warning("feeding the index is put off: %s", error)
            return FeedReport(failed=True)


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
        return FeedReport(failed=True)
    runtime.store.finish(claimed)
    return FeedReport(given=len(claimed))


def _rows(runtime: Runtime, claimed: Sequence[Work]) -> list[MirrorRow]:
    """Those that are still there with a vector of the model in use."""
    by_scope: dict[tuple[int, Scope], list[int]] = {}
    for work in claimed:
        by_scope.setdefault((work.scope_id, work.scope), []).append(work.seq)
    rows = []
    for (scope_id, scope), seqs in by_scope.items():
        read = runtime.store.recall_rows_at(scope, seqs)
        # A scope that was erased and begun again since has the same name, and is another.
        state = runtime.store.recall_state(scope)
        if state is None or state.scope_id != scope_id:
            continue
        rows += [
            MirrorRow(tenant=scope.tenant, scope_id=scope_id, row=row)
            for row in read
            if row.model == runtime.embedder.model and row.vector is not None
        ]
    return rows


def _take_out(runtime: Runtime, mirror: IndexMirror, worker_id: str) -> FeedReport:
    now = runtime.clock.now()
    claimed = runtime.store.claim_removals(
        worker_id=worker_id, limit=_REMOVALS, now=now, until=now + _LEASE
    )
    for number, removal in enumerate(claimed):
        try:
            mirror.remove(removal)
        except IndexUnavailable as error:
            _give_back(runtime, claimed[number:], worker_id, error)
            return FeedReport(removed=number, failed=True)
        runtime.store.finish([removal])
    return FeedReport(removed=len(claimed))


def _give_back(
    runtime: Runtime, claimed: Sequence[Work | Removal], worker_id: str, error: IndexUnavailable
) -> None:
    """Each try waits twice as long; nothing is ever given up."""
    log.warning("%d changes of the index are put off: %s", len(claimed), error)
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
