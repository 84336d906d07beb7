"""Feeding a remote index, which mirrors the vectors, from the work queue."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

from ...domain.episode import Scope
from ...domain.errors import IndexUnavailable, InvalidSetting
from ...domain.search.row_format import unpack_vectors, vector_size
from ...ports.index import IndexMirror, MirrorRow
from ...ports.privacy import Lead
from ...ports.recall_rows import RecallRow, Removal, Work, WorkKind
from ..core import leases
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
    runtime: Runtime,
    worker_id: str,
    *,
    verify: bool = True,
    stop: Callable[[], bool] = lambda: False,
) -> FeedReport:
    """Apply all waiting changes to the remote index; an unreachable index never raises.

    With `verify` it also checks that the index still has a collection for this model, and drops
    those of former models. `stop` is called after each batch.

    One process feeds at a time, because a second one could write a row that it read before an
    erasure after the first one removed it.
    """
    mirror = _fed(runtime)
    if mirror is None or not (verify or waiting(runtime)):
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


_PAGE = 500
_SAMPLE = 8
"""The number of vectors compared in each scope."""
_SAME = 0.999
_MOST_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeDrift:
    """The differences of one scope between mirror and store."""

    scope_id: int
    missing: int = 0
    """Rows that only the store has."""
    extra: int = 0
    """Rows that only the mirror has."""
    changed: int = 0
    """Rows of the sample with another vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """The result of comparing a mirror with the store."""

    index: str
    model: str
    scopes: int = 0
    rows: int = 0
    missing: int = 0
    extra: int = 0
    changed: int = 0
    drifted: tuple[ScopeDrift, ...] = ()
    """The first hundred scopes that differ."""
    repaired: bool = False
    waiting: int = 0
    """Changes that wait for the index, because another process feeds it."""

    @property
    def is_true(self) -> bool:
        return not (self.missing or self.extra or self.changed)


@dataclass(slots=True)
class _Compared:
    scope_id: int
    rows: int
    missing: set[int]
    extra: set[int]
    changed: set[int]

    def drift(self) -> ScopeDrift | None:
        if not (self.missing or self.extra or self.changed):
            return None
        return ScopeDrift(
            scope_id=self.scope_id,
            missing=len(self.missing),
            extra=len(self.extra),
            changed=len(self.changed),
        )


class MemoryMirror:
    """The operator's calls about a remote index's copy of the vectors: `Memory.mirror`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def verify(self, *, repair: bool = False) -> IndexReport:
        """Compare the mirror with the store, and with `repair` correct it: see `verify`."""
        return verify(self._runtime, leases.new_worker_id(), repair=repair)

    def rebuild(self, progress: Callable[[int], None] = lambda _: None) -> IndexReport:
        """Drop the mirror and fill it again from the store: see `rebuild`."""
        return rebuild(self._runtime, leases.new_worker_id(), progress)

    def drop(self, *, abandon: bool = False) -> list[str]:
        """Remove the mirror and stop feeding it: see `detach`."""
        return detach(self._runtime, abandon=abandon)

    def rows(self) -> int:
        """Count the vectors that a whole mirror has."""
        return self._runtime.store.stats().vectors.get(self._runtime.embedder.model, 0)


def verify(runtime: Runtime, worker_id: str, *, repair: bool = False) -> IndexReport:
    """Compare the ids and a sample of the vectors of every scope, in both directions.

    Waiting changes are applied first, because they are not drift. With `repair` missing rows are
    written and extra ones removed; the report counts them as they were.

    :raises IndexUnavailable: when the index is unreachable
    :raises InvalidSetting: when the stored vectors are of another model
    """
    mirror, model = runtime.index.mirror, runtime.embedder.model
    if mirror is None:
        return IndexReport(index="exact", model=model)
    _check_model(runtime)
    _feed_or_fail(runtime, worker_id)
    scopes = rows = 0
    found: list[_Compared] = []
    known: set[int] = set()
    for scope_id, scope in _scopes(runtime):
        compared = _compare(runtime, mirror, scope_id, scope)
        known.add(scope_id)
        scopes, rows = scopes + 1, rows + compared.rows
        if compared.drift() is not None:
            found.append(compared)
            if repair:
                _repair(runtime, mirror, scope, compared)
    for scope_id in sorted(_strange(runtime, mirror, known)):
        extra = mirror.seqs(model, scope_id)
        found.append(_Compared(scope_id, 0, set(), extra, set()))
        if repair:
            mirror.delete(model, scope_id, sorted(extra))
    if repair and found:
        _feed_or_fail(runtime, worker_id)
    return IndexReport(
        index=mirror.name.partition("/")[0] or "pgvector",
        model=model,
        scopes=scopes,
        rows=rows,
        missing=sum(len(each.missing) for each in found),
        extra=sum(len(each.extra) for each in found),
        changed=sum(len(each.changed) for each in found),
        drifted=tuple(drift for each in found[:_MOST_SHOWN] if (drift := each.drift())),
        repaired=repair and bool(found),
        waiting=waiting(runtime),
    )


def rebuild(
    runtime: Runtime, worker_id: str, progress: Callable[[int], None] = lambda _: None
) -> IndexReport:
    """Fill the mirror again from the store; recall uses the store's vectors meanwhile.

    An interrupted rebuild continues with the next pending work, or is started again.

    :raises IndexUnavailable: when the index is unreachable
    :raises InvalidSetting: when the stored vectors are of another model
    """
    mirror, model = runtime.index.mirror, runtime.embedder.model
    if mirror is None:
        return IndexReport(index="exact", model=model)
    _check_model(runtime)
    mirror.drop_models(keep=None)
    mirror.prepare(model, runtime.embedder.dimension)
    if mirror.name:
        runtime.store.queue_for_mirror()
        _feed_or_fail(runtime, worker_id)
    else:
        given = 0
        for scope_id, scope in _scopes(runtime):
            rows = _stored(runtime, scope)
            mirror.upsert(model, _copied(scope_id, scope, list(rows.values())))
            given += len(rows)
            progress(given)
    return verify(runtime, worker_id)


def _check_model(runtime: Runtime) -> None:
    """Refuse another model, because an empty mirror of it would seem to match the store."""
    in_use, model = runtime.store.state().model, runtime.embedder.model
    if in_use not in (None, model):
        raise InvalidSetting(
            "embedder",
            f"must be the one of the stored vectors, {in_use}, not {model}: run octopus reembed "
            "first",
        )


def _feed_or_fail(runtime: Runtime, worker_id: str) -> None:
    problem = feed(runtime, worker_id).problem
    if problem:
        raise IndexUnavailable(f"{problem}. Waiting changes stay queued and are retried")


def _scopes(runtime: Runtime) -> Iterator[tuple[int, Scope]]:
    after = 0
    while page := runtime.store.scopes(after=after, limit=_PAGE):
        yield from page
        after = page[-1][0]


def _stored(runtime: Runtime, scope: Scope) -> dict[int, RecallRow]:
    _, rows = runtime.store.recall_rows(scope, after=0)
    return {row.seq: row for row in rows if row.model == runtime.embedder.model and row.vector}


def _compare(runtime: Runtime, mirror: IndexMirror, scope_id: int, scope: Scope) -> _Compared:
    model = runtime.embedder.model
    kept, stored = mirror.seqs(model, scope_id), _stored(runtime, scope)
    missing, extra = stored.keys() - kept, kept - stored.keys()
    if missing or extra:
        # Read both again, because a write may have come between the two reads.
        waits = set(runtime.store.waiting_rows(scope, limit=len(missing) + _PAGE))
        again, stored = mirror.seqs(model, scope_id), _stored(runtime, scope)
        missing = (missing & stored.keys()) - again - waits
        extra = (extra & again) - stored.keys()
    both = sorted(stored.keys() & kept)
    sample = both[:: max(1, len(both) // _SAMPLE)][:_SAMPLE]
    return _Compared(
        scope_id=scope_id,
        rows=len(stored),
        missing=set(missing),
        extra=set(extra),
        changed=_changed(runtime, mirror, scope_id, [stored[seq] for seq in sample]),
    )


def _changed(
    runtime: Runtime, mirror: IndexMirror, scope_id: int, sample: list[RecallRow]
) -> set[int]:
    if not sample:
        return set()
    kept = mirror.vectors(runtime.embedder.model, scope_id, [row.seq for row in sample])
    changed = set()
    for row in sample:
        vector, other = row.vector or b"", kept.get(row.seq)
        if other is not None and vector_size(len(other)) == len(vector):
            cosine = float(unpack_vectors([vector], len(other))[0] @ other)
            if cosine >= _SAME:
                continue
        changed.add(row.seq)
    return changed


def _repair(runtime: Runtime, mirror: IndexMirror, scope: Scope, found: _Compared) -> None:
    model = runtime.embedder.model
    if found.extra:
        mirror.delete(model, found.scope_id, sorted(found.extra))
    if not (found.missing or found.changed):
        return
    if mirror.name:
        # By the queue, so that a row that is removed meanwhile is not written after its removal.
        runtime.store.queue_for_mirror(found.scope_id)
    else:
        _, rows = runtime.store.recall_rows(scope, seqs=sorted(found.missing | found.changed))
        mirror.upsert(model, _copied(found.scope_id, scope, rows))


def _strange(runtime: Runtime, mirror: IndexMirror, known: set[int]) -> set[int]:
    """Return the scopes that only the mirror has, and that were not created meanwhile."""
    strange = mirror.scope_ids(runtime.embedder.model) - known
    return strange - {scope_id for scope_id, _ in _scopes(runtime)} if strange else strange


def _copied(scope_id: int, scope: Scope, rows: list[RecallRow]) -> list[MirrorRow]:
    return [MirrorRow(tenant=scope.tenant, scope_id=scope_id, row=row) for row in rows]
