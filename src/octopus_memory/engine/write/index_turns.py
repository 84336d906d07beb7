"""Turns are stored first and made findable after that: by the worker, or by whoever looks for them.

A message is acknowledged when it is durable. Its words are looked at, and its vector is made, when
nobody waits for it; a recall that comes before that does the first of these itself, for its scope.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from ...domain.episode import Scope, Turn
from ...domain.errors import InvalidSetting, StoreCorrupt, StoreError
from ...domain.message import Message
from ...domain.policy import MemoryConfig
from ...ports.recall_rows import UnindexedTurns
from ...ports.values import IndexEntry, Lexical
from ..core.runtime import Runtime
from .prepare import wants_vector

log = logging.getLogger(__name__)

_EPISODES = 64
_TURNS = 256
"""That are held whole at a time, until their words are told."""
_BATCHES = 16
_MOST = 100_000
_PATIENCE = 1.0
"""Seconds that a recall waits for others who write, before it goes without its newest turns."""
_STALLED = 20
"""How often nothing may come of it: others were faster, or removed something meanwhile."""


def make_some(runtime: Runtime) -> int:
    """Some of what waits in any scope; returns of how many episodes."""
    made = 0
    # More than a batch, where there are: it is embedded in the order in which it was made findable.
    for _ in range(_BATCHES):
        found = runtime.store.unindexed_turns(limit=_EPISODES)
        if found:
            made += runtime.store.index_turns(_made(runtime, found))
        if len(found) < _EPISODES and all(each.stop == each.count for each in found):
            break
    return made


def catch_up(
    runtime: Runtime,
    scope: Scope,
    episode_id: UUID | None = None,
    *,
    patience: float | None = None,
) -> None:
    """All that is stored in a scope by now, or in one of its episodes; not what comes meanwhile."""
    found = runtime.store.unindexed_turns(scope, episode_id=episode_id, limit=_MOST)
    goals, stalled = {each.episode_id: each.count for each in found}, 0
    while found and stalled < _STALLED:
        done = _made(runtime, found[:_EPISODES])
        made = runtime.store.index_turns(done, patience=patience)
        if made == len(found) and all(each.stop == each.count for each in found):
            return
        # What somebody else was faster with has got on, too.
        stalled = 0 if made else stalled + 1
        found = [
            each
            for each in runtime.store.unindexed_turns(scope, episode_id=episode_id, limit=_MOST)
            if each.first < goals.get(each.episode_id, 0)
        ]


def catch_up_if_possible(runtime: Runtime, scope: Scope) -> None:
    """For recall, which goes without the newest turns where nothing can be written."""
    if runtime.store.read_only:
        return
    try:
        catch_up(runtime, scope, patience=_PATIENCE)
    except StoreError as error:
        log.warning("recall goes without the newest turns: %s", error.for_log())


def _made(
    runtime: Runtime, found: Sequence[UnindexedTurns]
) -> list[tuple[UnindexedTurns, Sequence[IndexEntry]]]:
    made: list[tuple[UnindexedTurns, Sequence[IndexEntry]]] = []
    for some in _few_at_a_time(found):
        turns = {(turn.episode_id, turn.ordinal): turn for turn in _turns(runtime, some)}
        made += [(each, list(_findable(runtime, each, turns))) for each in some]
    return made


def _few_at_a_time(found: Sequence[UnindexedTurns]) -> Iterator[Sequence[UnindexedTurns]]:
    some: list[UnindexedTurns] = []
    turns = 0
    for each in found:
        turns += each.stop - each.first
        if some and turns > _TURNS:
            yield some
            some, turns = [], each.stop - each.first
        some.append(each)
    yield some


def _findable(
    runtime: Runtime, found: UnindexedTurns, turns: Mapping[tuple[UUID, int], Turn]
) -> Iterator[IndexEntry]:
    config = _config(runtime, found.scope)
    for ordinal in range(found.first, found.stop):
        # One that is damaged has no words; it stays in the queue for a vector.
        made = IndexEntry(ordinal=ordinal, lexical=Lexical())
        turn = turns.get((found.episode_id, ordinal))
        if turn is not None and not turn.indexed:
            continue
        if turn is not None:
            try:
                made = of_turn(runtime, found.scope, ordinal, turn.message, config)
            except Exception as error:  # noqa: BLE001 - one text must not stop everybody's
                log.warning("the words of a turn cannot be told: %s", type(error).__name__)
        yield made


def _config(runtime: Runtime, scope: Scope) -> MemoryConfig:
    try:
        return runtime.config(scope.tenant, scope.agent)
    except InvalidSetting as error:
        log.warning("the settings of an agent cannot be read: %s", error)
        return runtime.defaults


def of_turn(
    runtime: Runtime, scope: Scope, ordinal: int, message: Message, config: MemoryConfig
) -> IndexEntry:
    return IndexEntry(
        ordinal=ordinal,
        lexical=runtime.lexicon.turn(scope, message.text, message.name),
        embed=wants_vector(message, config),
    )


def _turns(runtime: Runtime, found: Sequence[UnindexedTurns]) -> list[Turn]:
    """Those that can be read."""
    try:
        return runtime.store.read_unindexed(found)
    except StoreCorrupt:
        return [turn for each in found for turn in _read(runtime, each, each.first, each.stop)]


def _read(runtime: Runtime, found: UnindexedTurns, start: int, stop: int) -> list[Turn]:
    try:
        return runtime.store.turns(found.scope, found.episode_id, start=start, stop=stop)
    except StoreCorrupt:
        if stop - start == 1:
            return []
    middle = (start + stop) // 2
    return [*_read(runtime, found, start, middle), *_read(runtime, found, middle, stop)]
