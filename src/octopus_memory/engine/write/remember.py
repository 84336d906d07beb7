"""Writing a conversation: open an episode, add to it, store a whole one, keep it open."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from uuid import UUID

from ...domain.checks import (
    Times,
    check_metadata,
    check_tokens,
    listed,
    parse_parts,
    session_id_of,
)
from ...domain.episode import EndReason, Episode, Scope, Session, Turn, check_name, check_time
from ...domain.errors import (
    EpisodeArchived,
    EpisodeChanged,
    EpisodeNotFound,
    InvalidInput,
    SessionNotFound,
    ToolResultWithoutCall,
)
from ...domain.ids import new_id
from ...domain.message import Json, Message, MessageLike, check_tool_results
from ...domain.policy import MemoryConfig, end_time
from ...domain.retention import Stage, is_overdue, overdue_warning
from ...ports.values import Append, KeyTaken, NewTurn, Target
from ..core.pii_guard import Guard
from ..core.runtime import Runtime
from . import close, prepare
from .message_keys import Given, session_named, unknown
from .settings_retry import retry_on_settings_change
from .target import (
    Destination,
    cache_target,
    closed_for_good,
    find_episode,
    may_resume,
    open_episode_of,
    refusal,
    target_episode,
)

log = logging.getLogger(__name__)

_RETRIES = 20
"""Retries of a write that lost a race with another caller in the same session."""
_CONTEXT = 8
"""Turns before a message that tell whether it belongs to an exchange about forgetting."""


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
def add(
    runtime: Runtime,
    scope: Scope,
    where: Episode | UUID | str,
    messages: MessageLike | Sequence[MessageLike],
    *,
    idempotency_key: str | None,
    at: Times,
    tokens: Sequence[int] | None = None,
    keys: Sequence[str | None] | None = None,
    index: bool | Sequence[bool] = True,
) -> list[Turn]:
    """Add messages to an episode, or to a session, which gets a new episode if none is open.

    A message whose key the session knows is skipped, even if it was removed since.
    """
    now = runtime.clock.now()
    config = runtime.config(scope.tenant, scope.agent)
    turns = parse_parts(messages, max_bytes=config.session.max_message_bytes)
    lists = listed(turns, at=at, tokens=tokens, keys=keys, index=index, now=now)
    parsed = turns.messages
    given = Given(parsed, lists.times, lists.tokens, lists.indexed, (), parsed)
    if lists.keys is None:
        return _add(runtime, scope, where, given, idempotency_key, now, config)
    for _ in range(_RETRIES):
        new = unknown(runtime, scope, where, given, lists.keys)
        if not new.messages:
            repeated = _repeated(runtime, scope, where, idempotency_key, parsed)
            return [] if repeated is None else repeated
        try:
            return _add(runtime, scope, where, new, idempotency_key, now, config)
        except KeyTaken as error:
            taken = error
    raise taken


def _add(
    runtime: Runtime,
    scope: Scope,
    where: Episode | UUID | str,
    given: Given,
    idempotency_key: str | None,
    now: datetime,
    config: MemoryConfig,
) -> list[Turn]:
    parsed, times, tokens = given.messages, given.times, given.tokens
    first_guard = runtime.guard(scope, session_id=session_named(where))
    said_before = partial(_said_before, runtime, scope, where)
    first_turns = prepare.new_turns(
        runtime,
        scope,
        parsed,
        times,
        config,
        tokens,
        first_guard,
        findable=False,
        index=given.indexed,
        before=said_before,
    )
    for attempt in range(_RETRIES):
        guard, turns = first_guard, first_turns
        try:
            destination = target_episode(
                runtime,
                scope,
                where,
                config,
                turns,
                retried=idempotency_key is not None,
                may_guess=attempt == 0,
            )
        except ToolResultWithoutCall:
            # In a repeated call the tool's result is stored already, so no tool call waits for it.
            repeated = _repeated(runtime, scope, where, idempotency_key, given.whole)
            if repeated is None:
                raise
            return repeated
        session_id = destination.session_id
        idempotency = prepare.idempotency(runtime, idempotency_key, session_id, given.whole)
        # Who names an episode does not say in which session its names were heard.
        unheard = destination.session_id != session_named(where) and runtime.heard.of(
            scope, destination.session_id
        )
        if unheard or (guard.used() and destination.target is not Target.NEW):
            # The episode has numbered placeholders, which these turns must continue.
            known = runtime.store.placeholders(scope, destination.episode_id)
            guard = runtime.guard(scope, session_id=destination.session_id, known=known)
            turns = prepare.new_turns(
                runtime,
                scope,
                parsed,
                times,
                config,
                tokens,
                guard,
                findable=False,
                index=given.indexed,
                before=said_before,
            )
        write = Append(
            scope=scope,
            session_id=destination.session_id,
            episode_id=destination.episode_id,
            target=destination.target,
            at=turns[0].at,
            now=now,
            turns=turns,
            idempotency=idempotency,
            placeholders=guard.used() if destination.target is Target.NEW else guard.new(),
            keys=given.digests,
            settings=guard.settings,
        )
        left = _left(runtime, scope, destination, config, turns)
        try:
            stored = _append(runtime, left, write, guard)
        except KeyTaken:
            raise
        except EpisodeChanged:
            runtime.open_episodes.drop(scope, where)
            ended = closed_for_good(runtime, scope, where, config)
            if ended is not None:
                raise refusal(ended) from None
            continue
        except EpisodeNotFound:
            runtime.open_episodes.drop(scope, where)
            # It was erased since: a session starts again, a named episode does not.
            if session_named(where) != destination.session_id:
                raise
            continue
        if guard.names:
            runtime.heard.add(scope, destination.session_id, guard.names)
        if stored[0].id == turns[0].id and not left:
            cache_target(runtime, scope, where, destination, turns)
        return stored
    raise EpisodeChanged(destination.session_id)


def _said_before(
    runtime: Runtime, scope: Scope, where: Episode | UUID | str
) -> list[tuple[Message, bool]]:
    """Return the last messages of the session that is written to, and whether each is recalled."""
    episode = find_episode(runtime, scope, where)
    session_id = session_named(where) if episode is None else episode.session_id
    replay = runtime.store.replay(scope, session_id, last=_CONTEXT) if session_id else None
    return [] if replay is None else [(turn.message, turn.indexed) for turn in replay.turns]


def _repeated(
    runtime: Runtime,
    scope: Scope,
    where: Episode | UUID | str,
    key: str | None,
    messages: Sequence[Message],
) -> list[Turn] | None:
    """Return the turns that an earlier call with this key stored."""
    episode = find_episode(runtime, scope, where)
    session_id = session_named(where) if episode is None else episode.session_id
    idempotency = prepare.idempotency(runtime, key, session_id or "", messages)
    return None if idempotency is None else runtime.store.repeated(scope, idempotency)


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
    said = parse_parts(messages, max_bytes=config.session.max_message_bytes)
    parsed = said.messages
    if ended_at is not None:
        ended_at = check_time("ended_at", ended_at)
    # Messages of an episode that has ended cannot be from now.
    lists = listed(said, at=at, tokens=None, keys=None, index=True, now=min(now, ended_at or now))
    times = lists.times
    if ended_at is not None and ended_at < min(times):
        raise InvalidInput("ended_at", "must not be earlier than the first message")
    given_session, session_id = session_id, session_id_of(session_id)
    guard = runtime.guard(scope, session_id=session_id)
    turns = prepare.new_turns(
        runtime, scope, parsed, times, config, None, guard, index=lists.indexed
    )
    check_tool_results(parsed, lambda _: set())
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
        idempotency=prepare.idempotency(runtime, idempotency_key, given_session or "", parsed),
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


def _left(
    runtime: Runtime,
    scope: Scope,
    destination: Destination,
    config: MemoryConfig,
    turns: Sequence[NewTurn],
) -> Episode | None:
    """Return the episode whose topic the turns leave; None if they do not."""
    episode = destination.continues
    if episode is None or not config.session.topic_shift:
        return None
    return episode if runtime.topics.has_shifted(scope, episode, turns) else None


def _append(runtime: Runtime, left: Episode | None, write: Append, guard: Guard) -> list[Turn]:
    if left is None:
        return runtime.store.append(write)
    return _append_apart(runtime, left, replace(write, placeholders=guard.used()))


def _append_apart(runtime: Runtime, left: Episode, write: Append) -> list[Turn]:
    """Write to a new episode of the session, and close the one whose topic was left."""
    apart = replace(write, episode_id=new_id(), target=Target.NEW)
    if write.idempotency is not None:
        # A used key returns the turns of the first call, and must not close an episode.
        try:
            return runtime.store.append(apart)
        except EpisodeChanged:
            pass
    if left.is_open:
        close.close(
            runtime,
            left.scope,
            left.id,
            reason=EndReason.TOPIC_SHIFT,
            at=left.last_message_at,
            wait=False,
            seen=left,
        )
    return runtime.store.append(apart)


def _end_open_episode(
    runtime: Runtime, scope: Scope, session_id: str, config: MemoryConfig, at: datetime
) -> None:
    state = runtime.store.session(scope, session_id)
    if open_episode_of(runtime, config, state, at) is not None:
        raise InvalidInput(
            "session_id", f"{session_id!r} has an open episode: close it, or use another session"
        )
