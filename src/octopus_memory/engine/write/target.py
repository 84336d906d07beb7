"""Choosing the episode that new turns are written to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from ...domain.episode import EndReason, Episode, Scope, check_name
from ...domain.errors import EpisodeArchived, EpisodeClosed, EpisodeNotFound
from ...domain.ids import as_id, new_id
from ...domain.message import Role, check_tool_results, open_calls
from ...domain.policy import MemoryConfig, has_expired
from ...ports.values import NewTurn, SessionState, Target
from ..core.runtime import CachedEpisode, Runtime
from . import close


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The session and episode that new turns are written to."""

    session_id: str
    episode_id: UUID
    target: Target
    continues: Episode | None = None
    """The stored episode that they are added to, open or resumed; None if it was not read."""


def target_episode(
    runtime: Runtime,
    scope: Scope,
    where: Episode | UUID | str,
    config: MemoryConfig,
    turns: Sequence[NewTurn],
    *,
    retried: bool,
    may_guess: bool,
) -> Destination:
    """Choose the episode that `turns` are appended to.

    With `may_guess` a session that is not cached may be taken for a new one, without a read: the
    store refuses the write if it is not. `retried` says that the call has an idempotency key.

    :raises EpisodeNotFound: for an episode that is not in this scope
    :raises EpisodeClosed: for an episode that has ended and cannot be resumed
    :raises ToolResultWithoutCall: for a tool's result that no call waits for
    """
    if Role.TOOL not in [turn.message.body["role"] for turn in turns]:
        chosen = _guess_target(runtime, scope, where, config, turns[0].at, may_guess=may_guess)
        if chosen is not None:
            return chosen
    named = find_episode(runtime, scope, where)
    if named is not None:
        session_id = named.session_id
        named = None if _went_on(named, config) else named
    elif isinstance(where, str):
        session_id = check_name("session_id", where)
    else:
        raise EpisodeNotFound(where.id if isinstance(where, Episode) else where)
    state = runtime.store.session(scope, session_id)
    runtime.open_episodes.next_is_new = state is None
    if named is not None and (
        state is None or state.episode is None or state.episode.id != named.id
    ):
        # The session has a later episode, so this one has ended.
        return _closed(named, config, retried)
    # A tool's result belongs to the call that waits for it, however long the tool took.
    answers = turns[0].message.role is Role.TOOL and turns[0].message.tool_call is None
    episode = state.episode if state else None
    if episode is not None and not episode.is_open:
        if answers and _timed_out_waiting(runtime, scope, episode, turns[0]):
            _check_turns(runtime, scope, episode, turns)
            return Destination(
                session_id=session_id,
                episode_id=episode.id,
                target=Target.RESUME,
                continues=episode,
            )
        if named is not None or may_resume(episode, config):
            chosen = _closed(episode, config, retried)
            _check_turns(runtime, scope, episode, turns)
            return replace(chosen, continues=episode) if chosen.target is Target.RESUME else chosen
        episode = None
    elif not answers:
        episode = open_episode_of(runtime, config, state, turns[0].at)
    _check_turns(runtime, scope, episode, turns)
    if episode is None:
        return Destination(session_id=session_id, episode_id=new_id(), target=Target.NEW)
    return Destination(
        session_id=session_id, episode_id=episode.id, target=Target.OPEN, continues=episode
    )


def _guess_target(
    runtime: Runtime,
    scope: Scope,
    where: Episode | UUID | str,
    config: MemoryConfig,
    at: datetime,
    *,
    may_guess: bool,
) -> Destination | None:
    """Choose an episode without a read; None if one is needed. The store refuses a wrong guess."""
    known = runtime.open_episodes.open_at(scope, where, at, config.session)
    if known is not None:
        if config.session.topic_shift:
            return None
        return Destination(
            session_id=known.session_id, episode_id=known.episode_id, target=Target.OPEN
        )
    if not (may_guess and runtime.open_episodes.next_is_new) or config.session.allow_resume:
        return None
    if not isinstance(where, str) or as_id("episode_id", where) is not None:
        return None
    session_id = check_name("session_id", where)
    return Destination(session_id=session_id, episode_id=new_id(), target=Target.NEW)


def cache_target(
    runtime: Runtime,
    scope: Scope,
    where: Episode | UUID | str,
    chosen: Destination,
    turns: Sequence[NewTurn],
) -> None:
    """Cache where the turns were written, for the next write by the same name."""
    if chosen.continues is None and chosen.target is not Target.NEW:
        return
    name = where.id if isinstance(where, Episode) else where
    if name != chosen.session_id and str(name) != str(chosen.episode_id):
        # The caller named an ended episode. The next call must read it, to be refused.
        return
    known = CachedEpisode(
        session_id=chosen.session_id,
        episode_id=chosen.episode_id,
        started_at=turns[0].at if chosen.continues is None else chosen.continues.started_at,
        seen_at=turns[-1].at,
    )
    runtime.open_episodes.put(scope, where, known)


def _closed(episode: Episode, config: MemoryConfig, retried: bool) -> Destination:
    if may_resume(episode, config):
        target = Target.RESUME
    elif retried:
        # The key may have been used before the episode closed. Only the store knows.
        target = Target.OPEN
    else:
        raise refusal(episode)
    return Destination(session_id=episode.session_id, episode_id=episode.id, target=target)


def refusal(episode: Episode) -> EpisodeClosed:
    """Make the error for messages to an ended episode."""
    return (EpisodeArchived if episode.is_archived else EpisodeClosed)(episode.id)


def may_resume(episode: Episode, config: MemoryConfig) -> bool:
    return config.session.allow_resume and not episode.is_archived and not _went_on(episode, config)


def _went_on(episode: Episode, config: MemoryConfig) -> bool:
    """Return whether a topic shift ended it: its messages then go to the session's next episode."""
    return config.session.topic_shift and episode.end_reason is EndReason.TOPIC_SHIFT


def closed_for_good(
    runtime: Runtime, scope: Scope, where: Episode | UUID | str, config: MemoryConfig
) -> Episode | None:
    """Return the episode that the caller names, if it has ended and cannot be resumed."""
    episode = find_episode(runtime, scope, where)
    if episode is None or episode.is_open or _went_on(episode, config):
        return None
    return None if may_resume(episode, config) else episode


def find_episode(runtime: Runtime, scope: Scope, where: Episode | UUID | str) -> Episode | None:
    """Return the episode that the caller names; None for a text that names a session."""
    episode_id = as_id("episode_id", where, Episode)
    return (
        None if episode_id is None else runtime.store.episodes(scope, [episode_id]).get(episode_id)
    )


def open_episode_of(
    runtime: Runtime, config: MemoryConfig, state: SessionState | None, at: datetime
) -> Episode | None:
    """Return the session's open episode; one that has timed out is closed instead."""
    if state is None or state.episode is None or not state.episode.is_open:
        return None
    episode = state.episode
    expired = has_expired(
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
    """Return whether a tool's result answers a call in an episode that only a time-out ended.

    The episode is resumed, as if the worker had not closed it before the result arrived.
    """
    if episode.end_reason is not EndReason.TIMEOUT or episode.is_archived:
        return False
    return bool(_open_calls(runtime, scope, episode, {first.message.body["tool_call_id"]}))


def _check_turns(
    runtime: Runtime, scope: Scope, episode: Episode | None, turns: Sequence[NewTurn]
) -> None:
    def open_before(call_ids: set[str]) -> set[str]:
        return set() if episode is None else _open_calls(runtime, scope, episode, call_ids)

    check_tool_results([turn.message for turn in turns], open_before)


def _open_calls(runtime: Runtime, scope: Scope, episode: Episode, call_ids: set[str]) -> set[str]:
    """Return which of the calls are open, reading the episode backwards until all are found."""
    found: set[str] = set()
    missing, stop = set(call_ids), episode.message_count
    while missing and stop > 0:
        start = max(0, stop - 64)
        turns = runtime.store.turns(scope, episode.id, start=start, stop=stop)
        mentioned = open_calls(turn.message for turn in turns)
        found |= {call_id for call_id in missing if mentioned.get(call_id)}
        missing -= mentioned.keys()
        stop = start
    return found
