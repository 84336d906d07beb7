"""Writing a conversation: open, add, store, keep open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from ..domain import boundary, calls
from ..domain.episode import EndReason, Episode, Scope, Session, Turn, check_name, check_time
from ..domain.errors import (
    EpisodeChanged,
    EpisodeClosed,
    EpisodeNotFound,
    InvalidInput,
    SessionNotFound,
)
from ..domain.ids import new_id
from ..domain.message import Json, MessageLike, Role
from ..domain.policy import MemoryConfig
from ..ports.store import Append, NewTurn, SessionState, Target
from . import consolidate, intake
from .intake import Times
from .parts import Parts

_RETRIES = 20
"""How often a write is planned anew because another caller was faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Where new turns go."""

    session_id: str
    episode_id: UUID
    target: Target
    goes_on: Episode | None = None
    """The episode they are added to, open or resumed."""


def open_episode(
    parts: Parts,
    scope: Scope,
    session_id: str | None,
    *,
    at: datetime | None,
    metadata: Mapping[str, Json] | None,
) -> Episode:
    """The session's open episode, a new one, or with `allow_resume` the last one again."""
    now = parts.clock.now()
    at = now if at is None else check_time("at", at)
    session_id = intake.session_id(session_id)
    intake.check_metadata(metadata)
    config = parts.config(scope.tenant, scope.agent)
    for _ in range(_RETRIES):
        state = parts.store.session(scope, session_id)
        episode = _still_open(parts, config, state, at)
        if episode is not None:
            return episode
        if state is not None and state.episode is not None and _may_resume(state.episode, config):
            return state.episode
        write = Append(
            scope=scope,
            session_id=session_id,
            episode_id=new_id(),
            target=Target.NEW,
            at=at,
            now=now,
            metadata=metadata,
        )
        try:
            parts.store.append(write)
        except EpisodeChanged:
            continue
        return parts.store.episodes(scope, [write.episode_id])[write.episode_id]
    raise EpisodeChanged(session_id)


def add(
    parts: Parts,
    scope: Scope,
    where: Episode | UUID | str,
    messages: MessageLike | Sequence[MessageLike],
    *,
    idempotency_key: str | None,
    at: Times,
    tokens: Sequence[int] | None = None,
) -> list[Turn]:
    """Add to an episode, or to a session, which gets a new episode where it has none open."""
    now = parts.clock.now()
    config = parts.config(scope.tenant, scope.agent)
    parsed = intake.parse(messages, config)
    turns = intake.new_turns(
        parts, scope, parsed, intake.times(at, len(parsed), now), config, tokens
    )
    idempotency = intake.idempotency(idempotency_key, parsed)
    for _ in range(_RETRIES):
        plan = _plan(parts, scope, where, config, turns, retried=idempotency is not None)
        write = Append(
            scope=scope,
            session_id=plan.session_id,
            episode_id=plan.episode_id,
            target=plan.target,
            at=turns[0].at,
            now=now,
            turns=turns,
            idempotency=idempotency,
        )
        left = _left(parts, scope, plan, config, turns)
        try:
            return _append_apart(parts, left, write) if left else parts.store.append(write)
        except EpisodeChanged:
            if _is_closed_for_good(parts, scope, where, config):
                raise EpisodeClosed(plan.episode_id) from None
    raise EpisodeChanged(plan.session_id)


def store(
    parts: Parts,
    scope: Scope,
    messages: Sequence[MessageLike],
    *,
    session_id: str | None,
    at: Times,
    ended_at: datetime | None,
    reason: EndReason,
    summary: str | None,
    key_facts: Sequence[str] | None,
    metadata: Mapping[str, Json] | None,
    input_tokens: int | None,
    output_tokens: int | None,
    idempotency_key: str | None,
) -> Episode:
    """A whole episode in one call and one transaction."""
    now = parts.clock.now()
    config = parts.config(scope.tenant, scope.agent)
    parsed = intake.parse(messages, config)
    times = intake.times(at, len(parsed), now)
    turns = intake.new_turns(parts, scope, parsed, times, config, None)
    calls.check_results(parsed, lambda _: False)
    intake.check_metadata(metadata)
    for field, count in (("input_tokens", input_tokens), ("output_tokens", output_tokens)):
        if count is not None:
            intake.check_tokens(field, count)
    episode_id, session_id = new_id(), intake.session_id(session_id)
    if ended_at is None:
        ended_at = boundary.end_time(last_message_at=times[-1], now=now, config=config.session)
    closing = consolidate.closing_for(
        parts,
        scope,
        [intake.as_turn(turn, place, episode_id, session_id) for place, turn in enumerate(turns)],
        reason=reason,
        ended_at=check_time("ended_at", ended_at),
        summary=summary,
        key_facts=key_facts,
        wait=True,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )
    write = Append(
        scope=scope,
        session_id=session_id,
        episode_id=episode_id,
        target=Target.NEW,
        at=times[0],
        now=now,
        turns=turns,
        metadata=metadata,
        idempotency=intake.idempotency(idempotency_key, parsed),
        closing=closing,
    )
    for _ in range(_RETRIES):
        try:
            stored = parts.store.append(write)
        except EpisodeChanged:
            # Looked at only now: a call that is retried may find its session going on again.
            _end_open_episode(parts, scope, session_id, config, times[0])
            continue
        return parts.store.episodes(scope, [stored[0].episode_id])[stored[0].episode_id]
    raise EpisodeChanged(session_id)


def heartbeat(parts: Parts, scope: Scope, session_id: str, *, at: datetime | None) -> Session:
    """Keep an idle session open; one that ended already stays so, and its status says it."""
    now = parts.clock.now()
    at = now if at is None else check_time("at", at)
    config = parts.config(scope.tenant, scope.agent)
    state = parts.store.session(scope, check_name("session_id", session_id))
    if state is None:
        raise SessionNotFound(session_id)
    _still_open(parts, config, state, at)
    return parts.store.touch(scope, session_id, seen_at=at, now=now)


def _left(
    parts: Parts, scope: Scope, plan: _Plan, config: MemoryConfig, turns: Sequence[NewTurn]
) -> Episode | None:
    """The episode whose subject the turns leave."""
    episode = plan.goes_on
    if episode is None or not config.session.topic_shift:
        return None
    return episode if parts.topics.has_shifted(scope, episode, turns) else None


def _append_apart(parts: Parts, left: Episode, write: Append) -> list[Turn]:
    """Write to a new episode of the session; the one that is left for it ends."""
    apart = replace(write, episode_id=new_id(), target=Target.NEW)
    if write.idempotency is not None:
        # A key that was used before gives what it wrote then, and nothing ends for that.
        try:
            return parts.store.append(apart)
        except EpisodeChanged:
            pass
    if left.is_open:
        consolidate.close(
            parts,
            left.scope,
            left.id,
            reason=EndReason.TOPIC_SHIFT,
            at=left.last_message_at,
            wait=False,
            seen=left,
        )
    return parts.store.append(apart)


def _plan(
    parts: Parts,
    scope: Scope,
    where: Episode | UUID | str,
    config: MemoryConfig,
    turns: Sequence[NewTurn],
    *,
    retried: bool,
) -> _Plan:
    named = find_episode(parts, scope, where)
    if named is not None:
        session_id = named.session_id
        named = None if _went_on(named, config) else named
    elif isinstance(where, str):
        session_id = check_name("session_id", where)
    else:
        raise EpisodeNotFound(where.id if isinstance(where, Episode) else where)
    state = parts.store.session(scope, session_id)
    if named is not None and (
        state is None or state.episode is None or state.episode.id != named.id
    ):
        # Its session went on in a later episode, so this one has ended.
        return _closed(named, config, retried)
    # A tool that took long belongs to the call that waits for it, however long that was.
    answers = turns[0].message.role is Role.TOOL and turns[0].message.tool_call is None
    episode = state.episode if state else None
    if episode is not None and not episode.is_open:
        if named is not None or _may_resume(episode, config):
            plan = _closed(episode, config, retried)
            _check_turns(parts, scope, episode, turns)
            return replace(plan, goes_on=episode) if plan.target is Target.RESUME else plan
        episode = None
    elif not answers:
        episode = _still_open(parts, config, state, turns[0].at)
    _check_turns(parts, scope, episode, turns)
    if episode is None:
        return _Plan(session_id=session_id, episode_id=new_id(), target=Target.NEW)
    return _Plan(session_id=session_id, episode_id=episode.id, target=Target.OPEN, goes_on=episode)


def _closed(episode: Episode, config: MemoryConfig, retried: bool) -> _Plan:
    if _may_resume(episode, config):
        target = Target.RESUME
    elif retried:
        # The key may have been used before it closed: only the store can tell.
        target = Target.OPEN
    else:
        raise EpisodeClosed(episode.id)
    return _Plan(session_id=episode.session_id, episode_id=episode.id, target=target)


def _may_resume(episode: Episode, config: MemoryConfig) -> bool:
    return config.session.allow_resume and not episode.is_archived and not _went_on(episode, config)


def _went_on(episode: Episode, config: MemoryConfig) -> bool:
    """Whether it was left for another subject: what comes for it belongs to its session now."""
    return config.session.topic_shift and episode.end_reason is EndReason.TOPIC_SHIFT


def _is_closed_for_good(
    parts: Parts, scope: Scope, where: Episode | UUID | str, config: MemoryConfig
) -> bool:
    episode = find_episode(parts, scope, where)
    if episode is None or episode.is_open or _went_on(episode, config):
        return False
    return not _may_resume(episode, config)


def find_episode(parts: Parts, scope: Scope, where: Episode | UUID | str) -> Episode | None:
    """The episode that a caller means; None where the text can only be a session's name."""
    if isinstance(where, Episode):
        where = where.id
    elif isinstance(where, str):
        try:
            where = UUID(where)
        except ValueError:
            return None
    elif not isinstance(where, UUID):
        raise InvalidInput("episode_id", f"must be a UUID or text, not {type(where).__name__}")
    return parts.store.episodes(scope, [where]).get(where)


def _still_open(
    parts: Parts, config: MemoryConfig, state: SessionState | None, at: datetime
) -> Episode | None:
    """The session's open episode, unless its time is over: then it is closed here."""
    if state is None or state.episode is None or not state.episode.is_open:
        return None
    episode = state.episode
    expired = boundary.has_expired(
        started_at=episode.started_at,
        last_seen_at=state.session.last_seen_at,
        at=at,
        config=config.session,
    )
    if not expired or config.session.allow_resume:
        return episode
    consolidate.close_expired(parts, episode, wait=False)
    return None


def _end_open_episode(
    parts: Parts, scope: Scope, session_id: str, config: MemoryConfig, at: datetime
) -> None:
    state = parts.store.session(scope, session_id)
    if _still_open(parts, config, state, at) is not None:
        raise InvalidInput(
            "session_id", f"{session_id!r} has an open episode: close it, or use another session"
        )


def _check_turns(
    parts: Parts, scope: Scope, episode: Episode | None, turns: Sequence[NewTurn]
) -> None:
    def waits(call_id: str) -> bool:
        return episode is not None and _waits_for(parts, scope, episode, call_id)

    calls.check_results([turn.message for turn in turns], waits)


def _waits_for(parts: Parts, scope: Scope, episode: Episode, call_id: str) -> bool:
    stop = episode.message_count
    while stop > 0:
        start = max(0, stop - 64)
        turns = parts.store.turns(scope, episode.id, start=start, stop=stop)
        waits = calls.is_waiting([turn.message for turn in turns], call_id)
        if waits is not None:
            return waits
        stop = start
    return False
