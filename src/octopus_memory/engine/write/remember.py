"""Writing a conversation: open an episode, store a whole one, keep it open."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from ...domain.checks import (
    Times,
    check_metadata,
    check_tokens,
    parse_turns,
    session_id_of,
)
from ...domain.episode import EndReason, Episode, Scope, Session, check_name, check_time
from ...domain.errors import (
    EpisodeArchived,
    EpisodeChanged,
    EpisodeNotFound,
    InvalidInput,
    SessionNotFound,
)
from ...domain.ids import new_id
from ...domain.message import Json, MessageLike, check_tool_results
from ...domain.policy import MemoryConfig, end_time
from ...domain.retention import Stage, is_overdue, overdue_warning
from ...ports.values import Append, Target
from ..core.runtime import Runtime, retry_on_settings_change
from . import close, prepare
from .target import (
    find_episode,
    may_resume,
    open_episode_of,
)

log = logging.getLogger(__name__)

_RETRIES = 20
"""Retries of a write that lost a race with another caller in the same session."""


@retry_on_settings_change
def open_episode(
    runtime: Runtime,
    scope: Scope,
    session_id: str | None,
    *,
    at: datetime | None,
    metadata: Mapping[str, Json] | None,
) -> Episode:
    """Return the session's open episode, a new one, or with `allow_resume` the last one."""
    now = runtime.clock.now()
    at = now if at is None else check_time("at", at)
    session_id = session_id_of(session_id)
    check_metadata(metadata)
    guard = runtime.guard(scope, session_id=session_id)
    safe = guard.json(metadata)
    config = runtime.config(scope.tenant, scope.agent)
    for _ in range(_RETRIES):
        state = runtime.store.session(scope, session_id)
        known = state.episode if state else None
        if known is not None and (
            open_episode_of(runtime, config, state, at) or may_resume(known, config)
        ):
            try:
                if metadata is not None:
                    session = _set_metadata(runtime, known, metadata, seen_at=at, now=now)
                    known = replace(known, metadata=session.metadata)
            except (EpisodeChanged, SessionNotFound):
                # Another caller changed or erased the session.
                continue
            return known
        write = Append(
            scope=scope,
            session_id=session_id,
            episode_id=new_id(),
            target=Target.NEW,
            at=at,
            now=now,
            metadata=safe,
            placeholders=guard.used(),
            settings=guard.settings,
        )
        try:
            runtime.store.append(write)
        except EpisodeChanged:
            continue
        return _just_written(runtime, scope, write.episode_id)
    raise EpisodeChanged(session_id)


def _set_metadata(
    runtime: Runtime,
    episode: Episode,
    metadata: Mapping[str, Json],
    *,
    seen_at: datetime,
    now: datetime,
) -> Session:
    """Set the metadata of an existing session, whose text may have numbered placeholders."""
    known = runtime.store.placeholders(episode.scope, episode.id)
    guard = runtime.guard(episode.scope, session_id=episode.session_id, known=known)
    return runtime.store.touch(
        episode.scope,
        episode.session_id,
        seen_at=seen_at,
        now=now,
        metadata=guard.json(metadata),
        placeholders=guard.new(),
        settings=guard.settings,
    )


def _just_written(runtime: Runtime, scope: Scope, episode_id: UUID) -> Episode:
    """:raises EpisodeNotFound: if it was erased right after it was written"""
    episode = find_episode(runtime, scope, episode_id)
    if episode is None:
        raise EpisodeNotFound(episode_id)
    return episode


@retry_on_settings_change
def store(
    runtime: Runtime,
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
    """Store a whole episode in one transaction."""
    now = runtime.clock.now()
    config = runtime.config(scope.tenant, scope.agent)
    if ended_at is not None:
        ended_at = check_time("ended_at", ended_at)
    # Messages of an episode that has ended cannot be from now.
    latest = min(now, ended_at or now)
    said = parse_turns(messages, now=latest, max_bytes=config.session.max_message_bytes, at=at)
    times = said.times
    if ended_at is not None and ended_at < min(times):
        raise InvalidInput("ended_at", "must not be earlier than the first message")
    given_session, session_id = session_id, session_id_of(session_id)
    guard = runtime.guard(scope, session_id=session_id)
    turns = prepare.new_turns(runtime, scope, said, config, guard)
    check_tool_results(said.messages, lambda _: set())
    check_metadata(metadata)
    for field, count in (("input_tokens", input_tokens), ("output_tokens", output_tokens)):
        if count is not None:
            check_tokens(field, count)
    episode_id = new_id()
    if ended_at is None:
        ended_at = end_time(last_message_at=max(times), now=now, config=config.session)
    closing = close.closing_for(
        runtime,
        scope,
        [
            prepare.as_turn(turn, ordinal, episode_id, session_id)
            for ordinal, turn in enumerate(turns)
            if turn.indexed
        ],
        reason=reason,
        ended_at=ended_at,
        summary=summary,
        key_facts=key_facts,
        wait=True,
        guard=guard,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )
    write = Append(
        scope=scope,
        session_id=session_id,
        episode_id=episode_id,
        target=Target.NEW,
        at=min(times),
        now=now,
        turns=turns,
        metadata=guard.json(metadata),
        idempotency=prepare.idempotency(
            runtime, idempotency_key, given_session or "", said.messages
        ),
        closing=closing,
        placeholders=guard.used(),
        settings=guard.settings,
    )
    for _ in range(_RETRIES):
        try:
            stored = runtime.store.append(write)
        except EpisodeArchived as error:
            # In a repeated call the episode exists, archived without its turns.
            return _just_written(runtime, scope, error.episode_id)
        except EpisodeChanged:
            # Checked only now, because a retried call may find its own session open again.
            _end_open_episode(runtime, scope, session_id, config, min(times))
            continue
        if guard.names:
            runtime.heard.add(scope, session_id, guard.names)
        _warn_of_policy(runtime, scope, ended_at, now)
        return _just_written(runtime, scope, stored[0].episode_id)
    raise EpisodeChanged(session_id)


def _warn_of_policy(runtime: Runtime, scope: Scope, ended_at: datetime, now: datetime) -> None:
    """Warn once per agent that episodes stored now are due at the next retention run."""
    whose = scope.tenant, scope.agent
    policy = runtime.config(*whose).retention
    if whose in runtime.warned or not is_overdue(Stage.ACTIVE, policy, since=ended_at, now=now):
        return
    runtime.warned.add(whose)
    log.warning(overdue_warning("stored episodes are"))


def heartbeat(runtime: Runtime, scope: Scope, session_id: str, *, at: datetime | None) -> Session:
    """Keep an idle session open. One that has ended stays ended, as its status says."""
    now = runtime.clock.now()
    at = now if at is None else check_time("at", at)
    config = runtime.config(scope.tenant, scope.agent)
    state = runtime.store.session(scope, check_name("session_id", session_id))
    if state is None:
        raise SessionNotFound(session_id)
    open_episode_of(runtime, config, state, at)
    return runtime.store.touch(scope, session_id, seen_at=at, now=now)


def _end_open_episode(
    runtime: Runtime, scope: Scope, session_id: str, config: MemoryConfig, at: datetime
) -> None:
    state = runtime.store.session(scope, session_id)
    if open_episode_of(runtime, config, state, at) is not None:
        raise InvalidInput(
            "session_id", f"{session_id!r} has an open episode: close it, or use another session"
        )
