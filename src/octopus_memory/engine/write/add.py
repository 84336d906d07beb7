"""Adding messages to a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from ...domain.checks import ParsedTurns, Times, parse_turns
from ...domain.episode import EndReason, Episode, Scope, Turn
from ...domain.errors import EpisodeChanged, EpisodeNotFound, ToolResultWithoutCall
from ...domain.ids import new_id
from ...domain.message import Message, MessageLike
from ...ports.values import Append, KeyTaken, MessageKeys, NewTurn, Target
from ..core.pii_guard import Guard
from ..core.runtime import Runtime, retry_on_settings_change
from . import close, prepare
from .target import (
    Destination,
    cache_target,
    closed_for_good,
    find_episode,
    refusal,
    target_episode,
)

_RETRIES = 20
"""Retries of a write that lost a race with another caller in the same session."""
_CONTEXT = 8
"""Turns before a message that tell whether it belongs to an exchange about forgetting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What a caller asks to add, as it was given. The lists have one value for each message."""

    where: Episode | UUID | str
    """The episode, or the session, which gets a new episode if none is open."""
    messages: MessageLike | Sequence[MessageLike]
    idempotency_key: str | None = None
    at: Times = None
    tokens: Sequence[int] | None = None
    keys: Sequence[str | None] | None = None
    """The caller's own ids. A message whose key the session knows is skipped."""
    index: bool | Sequence[bool] = True


@retry_on_settings_change
def add(runtime: Runtime, scope: Scope, asked: Addition) -> list[Turn]:
    """Add messages to an episode or a session; returns the turns that are stored."""
    return _Adding(runtime, scope, asked).run()


class _Adding:
    """One addition, by the agent's settings that are in force."""

    def __init__(self, runtime: Runtime, scope: Scope, asked: Addition) -> None:
        self._runtime, self._scope, self._asked = runtime, scope, asked
        self._now = runtime.clock.now()
        self._config = runtime.config(scope.tenant, scope.agent)
        self._given = parse_turns(
            asked.messages,
            now=self._now,
            max_bytes=self._config.session.max_message_bytes,
            at=asked.at,
            tokens=asked.tokens,
            keys=asked.keys,
            index=asked.index,
        )
        self._session_named = _session_named(asked.where)
        self._digests: Sequence[bytes] = ()
        """Digests of the keys that are new in the session."""

    def run(self) -> list[Turn]:
        if self._given.keys is None:
            return self._add(self._given)
        for _ in range(_RETRIES):
            new = self._unknown(self._given.keys)
            if not new.messages:
                return self._repeated() or []
            try:
                return self._add(new)
            except KeyTaken as error:
                taken = error
        raise taken

    def _add(self, given: ParsedTurns) -> list[Turn]:
        runtime, scope, where = self._runtime, self._scope, self._asked.where
        guard = runtime.guard(scope, session_id=self._session_named)
        turns = self._turns(given, guard)
        for attempt in range(_RETRIES):
            try:
                destination = target_episode(
                    runtime,
                    scope,
                    where,
                    self._config,
                    turns,
                    retried=self._asked.idempotency_key is not None,
                    may_guess=attempt == 0,
                )
            except ToolResultWithoutCall:
                # In a repeated call the result is stored already, so no tool call waits for it.
                repeated = self._repeated()
                if repeated is None:
                    raise
                return repeated
            try:
                return self._append(given, turns, destination, guard)
            except KeyTaken:
                raise
            except EpisodeChanged:
                runtime.open_episodes.drop(scope, where)
                ended = closed_for_good(runtime, scope, where, self._config)
                if ended is not None:
                    raise refusal(ended) from None
            except EpisodeNotFound:
                runtime.open_episodes.drop(scope, where)
                # It was erased since: a session starts again, a named episode does not.
                if self._session_named != destination.session_id:
                    raise
        raise EpisodeChanged(destination.session_id)

    def _turns(self, given: ParsedTurns, guard: Guard) -> list[NewTurn]:
        return prepare.new_turns(
            self._runtime,
            self._scope,
            given,
            self._config,
            guard,
            index_now=False,
            before=self._said_before,
        )

    def _append(
        self, given: ParsedTurns, turns: list[NewTurn], destination: Destination, guard: Guard
    ) -> list[Turn]:
        runtime, scope, is_new = self._runtime, self._scope, destination.target is Target.NEW
        # Who names an episode does not say in which session its names were heard.
        unheard = destination.session_id != self._session_named and runtime.heard.of(
            scope, destination.session_id
        )
        if unheard or (guard.used() and not is_new):
            # The episode has numbered placeholders, which these turns must continue.
            known = runtime.store.placeholders(scope, destination.episode_id)
            guard = runtime.guard(scope, session_id=destination.session_id, known=known)
            turns = self._turns(given, guard)
        write = Append(
            scope=scope,
            session_id=destination.session_id,
            episode_id=destination.episode_id,
            target=destination.target,
            at=turns[0].at,
            now=self._now,
            turns=turns,
            idempotency=prepare.idempotency(
                runtime,
                self._asked.idempotency_key,
                destination.session_id,
                self._given.messages,
            ),
            placeholders=guard.used() if is_new else guard.new(),
            keys=self._digests,
            settings=guard.settings,
        )
        left = self._left(destination, turns)
        if left is None:
            stored = runtime.store.append(write)
        else:
            stored = self._append_apart(left, replace(write, placeholders=guard.used()))
        if guard.names:
            runtime.heard.add(scope, destination.session_id, guard.names)
        if stored[0].id == turns[0].id and left is None:
            cache_target(runtime, scope, self._asked.where, destination, turns)
        return stored

    def _left(self, destination: Destination, turns: Sequence[NewTurn]) -> Episode | None:
        """Return the episode whose topic the turns leave; None if they do not."""
        episode = destination.continues
        if episode is None or not self._config.session.topic_shift:
            return None
        return episode if self._runtime.topics.has_shifted(self._scope, episode, turns) else None

    def _append_apart(self, left: Episode, write: Append) -> list[Turn]:
        """Write to a new episode of the session, and close the one whose topic was left."""
        apart = replace(write, episode_id=new_id(), target=Target.NEW)
        if write.idempotency is not None:
            # A used key returns the turns of the first call, and must not close an episode.
            try:
                return self._runtime.store.append(apart)
            except EpisodeChanged:
                pass
        if left.is_open:
            close.close(
                self._runtime,
                left.scope,
                left.id,
                reason=EndReason.TOPIC_SHIFT,
                at=left.last_message_at,
                wait=False,
                seen=left,
            )
        return self._runtime.store.append(apart)

    def _session_id(self) -> str | None:
        """Return the session that is written to; None for an episode that is unknown."""
        episode = find_episode(self._runtime, self._scope, self._asked.where)
        return self._session_named if episode is None else episode.session_id

    def _said_before(self) -> list[tuple[Message, bool]]:
        """Return the last messages of the session, and whether each is recalled."""
        session_id = self._session_id()
        if not session_id:
            return []
        replay = self._runtime.store.replay(self._scope, session_id, last=_CONTEXT)
        return [] if replay is None else [(turn.message, turn.indexed) for turn in replay.turns]

    def _repeated(self) -> list[Turn] | None:
        """Return the turns that an earlier call with this idempotency key stored."""
        key, session_id = self._asked.idempotency_key, self._session_id() or ""
        idempotency = prepare.idempotency(self._runtime, key, session_id, self._given.messages)
        return (
            None if idempotency is None else self._runtime.store.repeated(self._scope, idempotency)
        )

    def _unknown(self, keys: Sequence[str | None]) -> ParsedTurns:
        """Return the turns without a key, or with one that is new to the session and the call."""
        runtime, scope, session_id = self._runtime, self._scope, self._session_id() or ""
        texts = [key for key in keys if key is not None]
        own = prepare.key_digests(prepare.key_salt(runtime, scope, session_id), texts)
        digest = dict(zip(texts, own, strict=True))
        found = runtime.store.message_keys(scope, session_id, own)
        seen = _keys_with(found, texts, own)
        for salt in found.salts:
            theirs = prepare.key_digests(salt, texts)
            seen |= _keys_with(runtime.store.message_keys(scope, session_id, theirs), texts, theirs)
        kept: list[int] = []
        new: list[bytes] = []
        for i, key in enumerate(keys):
            if key is None:
                kept.append(i)
            elif key not in seen:
                seen.add(key)
                kept.append(i)
                new.append(digest[key])
        self._digests = new
        return self._given.only(kept)


def _keys_with(found: MessageKeys, keys: Sequence[str], digests: Sequence[bytes]) -> set[str]:
    known = set(found.digests)
    return {key for key, digest in zip(keys, digests, strict=True) if digest in known}


def _session_named(where: Episode | UUID | str) -> str | None:
    """Return the session's id if it is known without a read."""
    if isinstance(where, Episode):
        return where.session_id
    return where if isinstance(where, str) else None
