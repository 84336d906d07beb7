"""Where new turns go: which episode of which session, and whether it takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from ...domain import boundary, tool_calls
from ...domain.episode import EndReason, Episode, Scope, check_name
from ...domain.errors import EpisodeArchived, EpisodeClosed, EpisodeNotFound
from ...domain.ids import as_id, new_id
from ...domain.message import Role
from ...domain.policy import MemoryConfig
from ...domain.quick import maker
from ...ports.store import NewTurn, SessionState, Target
from ..core.open_episodes import Place
from ..core.runtime import Runtime
from . import close


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where new turns go."""

    session_id: str
    episode_id: UUID
    target: Target
    goes_on: Episode | None = None
    """The episode they are added to, open or resumed."""


_make_plan = maker(Plan)


def plan_for(
    runtime: Runtime,
    scope: Scope,
    where: Episode | UUID | str,
    config: MemoryConfig,
    turns: Sequence[NewTurn],
    *,
    retried: bool,
    may_guess: bool,
) -> Plan:
    if Role.TOOL not in [turn.message.body["role"] for turn in turns]:
        plan = _unread(runtime, scope, where, config, turns[0].at, may_guess=may_guess)
        if plan is not None:
            return plan
    named = find_episode(runtime, scope, where)
    if named is not None:
        session_id = named.session_id
        named = None if _went_on(named, config) else named
    elif isinstance(where, str):
        session_id = check_name("session_id", where)
    else:
        raise EpisodeNotFound(where.id if isinstance(where, Episode) else where)
    state = runtime.store.session(scope, session_id)
    runtime.places.next_is_new = state is None
    if named is not None and (
        state is None or state.episode is None or state.episode.id != named.id
    ):
        # Its session went on in a later episode, so this one has ended.
        return _closed(named, config, retried)
    # A tool that took long belongs to the call that waits for it, however long that was.
    answers = turns[0].message.role is Role.TOOL and turns[0].message.tool_call is None
    episode = state.episode if state else None
    if episode is not None and not episode.is_open:
        if answers and _timed_out_waiting(runtime, scope, episode, turns[0]):
            _check_turns(runtime, scope, episode, turns)
            return Plan(
                session_id=session_id,
                episode_id=episode.id,
                target=Target.RESUME,
                goes_on=episode,
            )
        if named is not None or may_resume(episode, config):
            plan = _closed(episode, config, retried)
            _check_turns(runtime, scope, episode, turns)
            return replace(plan, goes_on=episode) if plan.target is Target.RESUME else plan
        episode = None
    elif not answers:
        episode = still_open(runtime, config, state, turns[0].at)
    _check_turns(runtime, scope, episode, turns)
    if episode is None:
        return Plan(session_id=session_id, episode_id=new_id(), target=Target.NEW)
    return Plan(session_id=session_id, episode_id=episode.id, target=Target.OPEN, goes_on=episode)


def _unread(
    runtime: Runtime,
    scope: Scope,
    where: Episode | UUID | str,
    config: MemoryConfig,
    at: datetime,
    *,
    may_guess: bool,
) -> Plan | None:
    """Where turns go that need nothing read before: the store refuses them if that was wrong."""
    place = runtime.places.open_at(scope, where, at, config.session)
    if place is not None:
        if config.session.topic_shift:
            return None
        return _make_plan(place.session_id, place.episode_id, Target.OPEN, None)
    if not (may_guess and runtime.places.next_is_new) or config.session.allow_resume:
        return None
    if not isinstance(where, str) or as_id("episode_id", where) is not None:
        return None
    session_id = check_name("session_id", where)
    return Plan(session_id=session_id, episode_id=new_id(), target=Target.NEW)


def note_place(
    runtime: Runtime,
    scope: Scope,
    where: Episode | UUID | str,
    plan: Plan,
    turns: Sequence[NewTurn],
) -> None:
    """The next turns may follow these where they were written."""
    if plan.goes_on is None and plan.target is not Target.NEW:
        return
    name = where.id if isinstance(where, Episode) else where
    if name != plan.session_id and str(name) != str(plan.episode_id):
        # Whoever named an episode that had ended is told so the next time.
        return
    place = Place(
        session_id=plan.session_id,
        episode_id=plan.episode_id,
        started_at=turns[0].at if plan.goes_on is None else plan.goes_on.started_at,
        seen_at=turns[-1].at,
    )
    runtime.places.put(scope, where, place)


def _closed(episode: Episode, config: MemoryConfig, retried: bool) -> Plan:
    if may_resume(episode, config):
        target = Target.RESUME
    elif retried:
        # The key may have been used before it closed: only the store can tell.
        target = Target.OPEN
    else:
        raise refusal(episode)
    return Plan(session_id=episode.session_id, episode_id=episode.id, target=target)


def refusal(episode: Episode) -> EpisodeClosed:
    """The error for messages to an episode that takes none any more."""
    return (EpisodeArchived if episode.is_archived else EpisodeClosed)(episode.id)


def may_resume(episode: Episode, config: MemoryConfig) -> bool:
    return config.session.allow_resume and not episode.is_archived and not _went_on(episode, config)


def _went_on(episode: Episode, config: MemoryConfig) -> bool:
    """Whether it was left for another subject: what comes for it belongs to its session now."""
    return config.session.topic_shift and episode.end_reason is EndReason.TOPIC_SHIFT


def closed_for_good(
    runtime: Runtime, scope: Scope, where: Episode | UUID | str, config: MemoryConfig
) -> Episode | None:
    """The episode that a caller means, if it has ended and takes no more messages."""
    episode = find_episode(runtime, scope, where)
    if episode is None or episode.is_open or _went_on(episode, config):
        return None
    return None if may_resume(episode, config) else episode


def find_episode(runtime: Runtime, scope: Scope, where: Episode | UUID | str) -> Episode | None:
    """The episode that a caller means; None where the text can only be a session's name."""
    episode_id = as_id("episode_id", where, Episode)
    return (
        None if episode_id is None else runtime.store.episodes(scope, [episode_id]).get(episode_id)
    )


def still_open(
    runtime: Runtime, config: MemoryConfig, state: SessionState | None, at: datetime
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
    close.close_expired(runtime, episode, wait=False)
    return None


def _timed_out_waiting(runtime: Runtime, scope: Scope, episode: Episode, first: NewTurn) -> bool:
    """Whether a tool result is for a call of an episode that only the time-out ended.

    The episode goes on with it, as it would have if the worker had not come first.
    """
    if episode.end_reason is not EndReason.TIMEOUT or episode.is_archived:
        return False
    return _waits_for(runtime, scope, episode, first.message.body["tool_call_id"])


def _check_turns(
    runtime: Runtime, scope: Scope, episode: Episode | None, turns: Sequence[NewTurn]
) -> None:
    def waits(call_id: str) -> bool:
        return episode is not None and _waits_for(runtime, scope, episode, call_id)

    tool_calls.check_results([turn.message for turn in turns], waits)


def _waits_for(runtime: Runtime, scope: Scope, episode: Episode, call_id: str) -> bool:
    stop = episode.message_count
    while stop > 0:
        start = max(0, stop - 64)
        turns = runtime.store.turns(scope, episode.id, start=start, stop=stop)
        waits = tool_calls.is_waiting([turn.message for turn in turns], call_id)
        if waits is not None:
            return waits
        stop = start
    return False
