"""Work that is done after a call has returned: vectors, better summaries, time-outs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.episode import Episode, Scope, Turn
from ...domain.errors import (
    EmbedderFailed,
    EpisodeChanged,
    EpisodeNotFound,
    InvalidSetting,
    KeyMissing,
    KeyUnavailable,
    StoreCorrupt,
    StoreError,
    for_log,
)
from ...domain.facts import TENANT_SETTINGS
from ...domain.message import Role
from ...domain.policy import Layer, MemoryConfig, has_expired, resolved
from ...domain.search.terms import passage
from ...ports.models import Summarizer
from ...ports.recall_rows import Work, WorkKind
from ...ports.store import Capability
from ...ports.values import SUMMARY_ORDINAL, OpenEpisode
from ..core.runtime import Runtime
from ..write import close, index_turns

log = logging.getLogger(__name__)

_UNREADABLE = (KeyMissing, StoreCorrupt)
"""A text that is damaged, or whose user's key is lost, does not hold up the others."""
_LEASE = timedelta(seconds=60)
_EMBED_BATCH = 64
_MOST_ATTEMPTS = 8
_LONGEST_WAIT = timedelta(minutes=10)
_KEYS_KEPT = timedelta(days=7)
_NO_VECTORS: NDArray[np.float32] = np.empty((0, 0), np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingReport:
    """Counts of a run of pending work."""

    embedded: int = 0
    summarized: int = 0
    timed_out: int = 0
    indexed: int = 0
    """Rows written to a remote index."""

    def __add__(self, other: PendingReport) -> PendingReport:
        return PendingReport(
            embedded=self.embedded + other.embedded,
            summarized=self.summarized + other.summarized,
            timed_out=self.timed_out + other.timed_out,
            indexed=self.indexed + other.indexed,
        )


def prune(runtime: Runtime) -> None:
    """Remove idempotency keys that are too old for a retry, and expired previews."""
    now = runtime.clock.now()
    runtime.store.prune_idempotency_keys(before=now - _KEYS_KEPT)
    if Capability.FORGET in runtime.store.capabilities:
        runtime.store.prune_previews(before=now)


class Batch(NamedTuple):
    """The number of pieces of work claimed, and how many of them are damaged."""

    taken: int = 0
    damaged: int = 0

    @property
    def is_full(self) -> bool:
        """True if there may be more to claim."""
        return self.taken >= _EMBED_BATCH


def embed_pending(runtime: Runtime, worker_id: str) -> int:
    """Embed one batch; returns how many pieces of work were claimed.

    :raises EmbedderFailed: after the batch was postponed for a retry
    """
    return embed_batch(runtime, worker_id).taken


def embed_batch(runtime: Runtime, worker_id: str) -> Batch:
    """Embed one batch; damaged texts are postponed and do not block the others."""
    made = index_turns.make_some(runtime)
    in_use = runtime.store.state().model
    if in_use != runtime.embedder.model:
        raise EmbedderFailed(
            f"another process keeps vectors of {in_use!r} in this memory now: open it again, with "
            f"that embedder instead of {runtime.embedder.model!r}"
        )
    while not (claimed := _claim(runtime, worker_id)):
        # Some turns are indexed and not embedded.
        if not made:
            return Batch()
        made = index_turns.make_some(runtime)
    ready, damaged = _texts(runtime, claimed)
    if damaged:
        log.warning("%d texts are damaged, and get no vector", len(damaged))
        _give_back(runtime, damaged, worker_id)
    try:
        vectors = runtime.embedder.embed([text for _, text in ready]) if ready else _NO_VECTORS
    except EmbedderFailed:
        _give_back(runtime, [work for work in claimed if work not in damaged], worker_id)
        raise
    runtime.index.put(
        runtime.embedder.model,
        [(work, vector) for (work, _), vector in zip(ready, vectors, strict=True)],
    )
    left = {work.id for work in claimed} - {work.id for work in damaged}
    gone = left - {work.id for work, _ in ready}
    if gone:
        runtime.store.finish([work for work in claimed if work.id in gone])
    runtime.counts.count_work(WorkKind.EMBED, done=len(left))
    return Batch(len(claimed), len(damaged))


def _claim(runtime: Runtime, worker_id: str) -> list[Work]:
    now = runtime.clock.now()
    return runtime.store.claim(
        WorkKind.EMBED, worker_id=worker_id, limit=_EMBED_BATCH, now=now, until=now + _LEASE
    )


def _texts(runtime: Runtime, claimed: Sequence[Work]) -> tuple[list[tuple[Work, str]], list[Work]]:
    """Return the texts of the work whose turn or summary exists, and the work that is damaged."""
    try:
        return list(texts_of(runtime, claimed, runtime.store.turns_of(claimed))), []
    except _UNREADABLE:
        pass
    ready: list[tuple[Work, str]] = []
    damaged: list[Work] = []
    for work in claimed:
        alone = _text_alone(runtime, work)
        if alone is None:
            damaged.append(work)
        else:
            ready += alone
    return ready, damaged


def _text_alone(runtime: Runtime, work: Work) -> list[tuple[Work, str]] | None:
    """Return the text of one piece, None if it is damaged; the turn before it may be the damaged
    one.
    """
    for first in (max(work.ordinal - 1, 0), work.ordinal):
        places = [(work.episode_id, ordinal) for ordinal in range(first, work.ordinal + 1)]
        try:
            turns = runtime.store.turns_at(work.scope, places)
            return list(texts_of(runtime, [work], turns))
        except _UNREADABLE:
            continue
    return None


def texts_of(
    runtime: Runtime, pieces: Sequence[Work], read: Sequence[Turn]
) -> Iterator[tuple[Work, str]]:
    """Return what is embedded for each turn in `read`, and for each summary that exists."""
    turns = {(turn.episode_id, turn.ordinal): turn for turn in read}
    closed: dict[Scope, list[UUID]] = {}
    for work in pieces:
        if work.ordinal == SUMMARY_ORDINAL:
            closed.setdefault(work.scope, []).append(work.episode_id)
    episodes = {scope: runtime.store.episodes(scope, ids) for scope, ids in closed.items()}
    for work in pieces:
        if work.ordinal == SUMMARY_ORDINAL:
            episode = episodes[work.scope].get(work.episode_id)
            if episode is not None and episode.summary:
                yield work, close.embedded_summary(episode)
            continue
        turn = turns.get((work.episode_id, work.ordinal))
        if turn is not None:
            yield work, passage(turn.text, previous=_said_before(turns, work))


def _said_before(turns: dict[tuple[UUID, int], Turn], work: Work) -> str | None:
    turn = turns.get((work.episode_id, work.ordinal - 1))
    if turn is None or turn.role not in (Role.USER, Role.ASSISTANT):
        return None
    return turn.text


def resolve_times(runtime: Runtime, worker_id: str) -> int:
    """Resolve the times that turns of an earlier release tell of; returns how many were claimed.

    Scopes in memory are read again, because their rows lack these times.
    """
    resolved = 0
    while True:
        now = runtime.clock.now()
        claimed = runtime.store.claim(
            WorkKind.TIMES, worker_id=worker_id, limit=_EMBED_BATCH, now=now, until=now + _LEASE
        )
        if not claimed:
            break
        turns = {(turn.episode_id, turn.ordinal): turn for turn in _readable(runtime, claimed)}
        told = {work.id: _told(runtime, turns, work) for work in claimed}
        runtime.store.finish(claimed, told={id_: at for id_, at in told.items() if at})
        resolved += len(claimed)
        if len(claimed) < _EMBED_BATCH:
            break
    if resolved:
        runtime.counts.count_work(WorkKind.TIMES, done=resolved)
        runtime.index.clear_cache()
    return resolved


def _readable(runtime: Runtime, claimed: Sequence[Work]) -> list[Turn]:
    """Read the turns of the work, without those that are damaged."""
    try:
        return runtime.store.turns_of(claimed)
    except _UNREADABLE:
        found: list[Turn] = []
        for work in claimed:
            with suppress(*_UNREADABLE):
                found += runtime.store.turns_at(work.scope, [(work.episode_id, work.ordinal)])
        return found


def _told(runtime: Runtime, turns: Mapping[tuple[UUID, int], Turn], work: Work) -> int:
    turn = turns.get((work.episode_id, work.ordinal))
    return 0 if turn is None else runtime.lexicon.told(turn.text, turn.at)


def summarize_pending(
    runtime: Runtime, worker_id: str, *, go_on: Callable[[], bool] = lambda: True
) -> int:
    """Ask the model for summaries that closing did not wait for; returns how many were stored.

    `go_on` is called after each, because a model may take a minute for one.
    """
    model = runtime.summarizer
    if model is None:
        return 0
    improved = 0
    while True:
        now = runtime.clock.now()
        until = now + _LEASE + timedelta(seconds=runtime.timeouts.in_background)
        claimed = runtime.store.claim(
            WorkKind.SUMMARIZE, worker_id=worker_id, limit=1, now=now, until=until
        )
        if not claimed:
            return improved
        improved += _improve(runtime, model, claimed[0], worker_id)
        if not go_on():
            return improved


def _improve(runtime: Runtime, model: Summarizer, work: Work, worker_id: str) -> bool:
    """Store the model's summary; returns whether it was. A failure is postponed and blocks no
    other.
    """
    try:
        turns, made_of = close.read(runtime, work.scope, work.episode_id)
        if not turns:
            runtime.store.finish([work])
            return False
        made = model.summarize(turns, timeout=runtime.timeouts.in_background)
    except _UNREADABLE:
        log.warning("an episode is damaged, and gets no better summary")
        _give_back(runtime, [work], worker_id)
        return False
    except (KeyUnavailable, StoreError):
        # The database or the key store failed, not this episode.
        raise
    except Exception as error:  # noqa: BLE001 - any failure of a model is tried again
        log.warning("summarizer %s failed: %s", model.name, for_log(error))
        _give_back(runtime, [work], worker_id)
        return False
    summary = close.new_summary(runtime, work.scope, close.limited(made), model.name, turns=turns)
    try:
        new = replace(summary, made_of=made_of)
        close.put_summary(runtime, work, new, turns, replacing=work.seq)
    except EpisodeChanged:
        # Its text was rewritten meanwhile.
        _give_back(runtime, [work], worker_id)
        return False
    runtime.store.finish([work])
    runtime.counts.count_work(WorkKind.SUMMARIZE, done=1)
    return True


def _give_back(runtime: Runtime, claimed: Sequence[Work], worker_id: str) -> None:
    """Postpone the work, doubling the wait with each attempt. Summaries are given up, vectors
    never.
    """
    now = runtime.clock.now()
    for work in claimed:
        runtime.counts.count_work(work.kind, failed=1)
        if work.kind is WorkKind.SUMMARIZE and work.attempts + 1 >= _MOST_ATTEMPTS:
            runtime.store.finish([work])
            continue
        wait = min(timedelta(seconds=2 ** min(work.attempts, 10)), _LONGEST_WAIT)
        runtime.store.postpone([work], until=now + wait, worker_id=worker_id)


def close_idle(runtime: Runtime, *, between: Callable[[], None] = lambda: None) -> int:
    """Close the episodes of every tenant that have timed out; returns how many.

    The model's summaries follow as pending work. `between` is called after every episode.
    """
    closed = 0
    warn_of_unusable(runtime)
    for episode in expired(runtime, now=runtime.clock.now()):
        try:
            closed += not close.close_expired(runtime, episode, wait=False).is_open
        except (EpisodeChanged, EpisodeNotFound):
            # It continued or was erased since it was read.
            pass
        except (*_UNREADABLE, InvalidSetting) as error:
            # A damaged episode must not keep the others open.
            log.warning("closing an idle episode failed: %s", type(error).__name__)
        between()
    return closed


def expired(runtime: Runtime, *, now: datetime) -> Iterator[Episode]:
    """Yield the open episodes of every tenant that have timed out."""
    sessions = [runtime.defaults.session, *(config.session for config in usable_configs(runtime))]
    idle = min(session.idle_timeout_minutes for session in sessions)
    longest = min(session.max_session_hours for session in sessions)
    after = None
    while True:
        page = runtime.store.open_episodes(
            touched_before=now - timedelta(minutes=idle),
            opened_before=now - timedelta(hours=longest),
            after=after,
            limit=200,
        )
        yield from (found.episode for found in page if _has_expired(runtime, found, now))
        if not page:
            return
        after = page[-1].episode.id


def _has_expired(runtime: Runtime, found: OpenEpisode, now: datetime) -> bool:
    scope = found.episode.scope
    try:
        session = runtime.config(scope.tenant, scope.agent).session
    except InvalidSetting:
        return False
    return has_expired(
        started_at=found.opened_at, last_seen_at=found.touched_at, at=now, config=session
    )


def usable_configs(runtime: Runtime) -> Iterator[MemoryConfig]:
    """Yield the effective settings of agents with stored ones, without those that are invalid."""
    for _, layers in _stored_layers(runtime):
        with suppress(InvalidSetting):
            yield resolved(layers)


def warn_of_unusable(runtime: Runtime) -> None:
    """Log the agents with invalid settings, once per round or run."""
    for agent, layers in _stored_layers(runtime):
        try:
            resolved(layers)
        except InvalidSetting as error:
            log.warning(
                "the settings of agent %r are invalid: its episodes stay as they are until it "
                "is configured again: %s",
                agent,
                error,
            )


def _stored_layers(runtime: Runtime) -> Iterator[tuple[str, list[Layer]]]:
    """Yield each agent with stored settings, once per tenant, with its layers."""
    stored = runtime.store.configs()
    for (tenant, agent), own in stored.items():
        if agent == TENANT_SETTINGS:
            continue
        both = [own] if tenant is None else [stored.get((None, agent), {}), own]
        yield agent, [runtime.defaults.overrides(), *both]


def is_waiting(runtime: Runtime) -> bool:
    """Return whether any text waits for its vector."""
    return runtime.store.backlog()[WorkKind.EMBED].waiting > 0
