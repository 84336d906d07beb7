"""Turns are stored first and made findable after that: by the worker, or by whoever looks for them.

A message is acknowledged when it is durable. Its words are looked at, and its vector is made, when
nobody waits for it; a recall that comes before that does the first of these itself, for its scope.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from uuid import UUID

from ..domain.episode import Scope, Turn
from ..domain.errors import StoreCorrupt, StoreError
from ..domain.message import Message
from ..domain.policy import MemoryConfig
from ..ports.store import Findable, Lexical, Unfindable
from .intake import wants_vector
from .parts import Parts

log = logging.getLogger(__name__)

_EPISODES = 64
_ATTEMPTS = 3
"""How often a scope is looked at anew because somebody else was faster with a part of it."""


def make_some(parts: Parts) -> int:
    """A batch of what waits in any scope; returns of how many episodes."""
    found = parts.store.unfindable(limit=_EPISODES)
    return parts.store.make_findable(_made(parts, found)) if found else 0


def catch_up(parts: Parts, scope: Scope, episode_id: UUID | None = None) -> None:
    """All that is stored in a scope by now, or in one of its episodes."""
    attempts = 0
    while attempts < _ATTEMPTS:
        found = [
            each
            for each in parts.store.unfindable(scope, limit=_EPISODES)
            if episode_id in (None, each.episode_id)
        ]
        if not found:
            return
        made = parts.store.make_findable(_made(parts, found))
        attempts += made < len(found)


def catch_up_if_possible(parts: Parts, scope: Scope) -> None:
    """For recall, which goes without the newest turns where nothing can be written."""
    if getattr(parts.store, "read_only", False):
        return
    try:
        catch_up(parts, scope)
    except StoreError as error:
        log.warning("recall goes without the newest turns: %s: %s", type(error).__name__, error)


def _made(parts: Parts, found: Sequence[Unfindable]) -> list[tuple[Unfindable, Sequence[Findable]]]:
    return [(each, list(_findable(parts, each))) for each in found]


def _findable(parts: Parts, found: Unfindable) -> Iterator[Findable]:
    config = parts.config(found.scope.tenant, found.scope.agent)
    turns = {turn.ordinal: turn for turn in _read(parts, found, found.first, found.stop)}
    for ordinal in range(found.first, found.stop):
        turn = turns.get(ordinal)
        # One that is damaged has no words; it stays in the queue for a vector.
        yield (
            Findable(ordinal=ordinal, lexical=Lexical())
            if turn is None
            else of_turn(parts, found.scope, ordinal, turn.message, config)
        )


def of_turn(
    parts: Parts, scope: Scope, ordinal: int, message: Message, config: MemoryConfig
) -> Findable:
    return Findable(
        ordinal=ordinal,
        lexical=parts.lexicon.turn(scope, message.text, message.name),
        embed=wants_vector(message, config),
    )


def _read(parts: Parts, found: Unfindable, start: int, stop: int) -> list[Turn]:
    """Those that can be read."""
    try:
        return parts.store.turns(found.scope, found.episode_id, start=start, stop=stop)
    except StoreCorrupt:
        if stop - start == 1:
            return []
    middle = (start + stop) // 2
    return [*_read(parts, found, start, middle), *_read(parts, found, middle, stop)]
