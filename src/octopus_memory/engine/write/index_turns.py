"""Indexing of stored turns, by the worker or by the first recall that needs them.

A write returns when its turns are durable. They are tokenized and embedded afterwards, so that no
caller waits for it, and standing facts are found in them. A recall that comes first indexes the
turns of its own scope.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from ...domain.episode import Scope, Turn
from ...domain.errors import InvalidSetting, StoreCorrupt, StoreError
from ...domain.facts import Fact, FactOrigin
from ...domain.message import Role
from ...domain.policy import MemoryConfig
from ...ports.recall_rows import UnindexedTurns
from ...ports.values import IndexEntry, Lexical
from ..core import pii_guard
from ..core.runtime import Runtime
from .prepare import wants_vector

log = logging.getLogger(__name__)

_EPISODES = 64
_TURNS = 256
"""Turns that are held in memory at a time."""
_BATCHES = 16
_MOST = 100_000
_PATIENCE = 1.0
"""Seconds that a recall waits for the write lock, before it continues without the newest turns."""
_ANSWER_CHARS = 80
"""Maximum length of a turn that may answer the question before it."""
_STALLED = 20
"""Failed attempts after which indexing gives up: each lost a race for the same turns."""


def make_some(runtime: Runtime) -> int:
    """Index some of the waiting turns of any scope; returns the number of episodes."""
    made = 0
    # Several batches, because turns are embedded in the order in which they were indexed.
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
    """Index the turns stored so far in a scope or an episode, but none that are added meanwhile."""
    found = runtime.store.unindexed_turns(scope, episode_id=episode_id, limit=_MOST)
    goals, stalled = {each.episode_id: each.count for each in found}, 0
    while found and stalled < _STALLED:
        done = _made(runtime, found[:_EPISODES])
        made = runtime.store.index_turns(done, patience=patience)
        if made == len(found) and all(each.stop == each.count for each in found):
            return
        # Turns that another process indexed are progress, too.
        stalled = 0 if made else stalled + 1
        found = [
            each
            for each in runtime.store.unindexed_turns(scope, episode_id=episode_id, limit=_MOST)
            if each.first < goals.get(each.episode_id, 0)
        ]


def catch_up_if_possible(runtime: Runtime, scope: Scope) -> None:
    """Index a scope's turns for recall, which continues without them if this fails."""
    if runtime.store.read_only:
        return
    try:
        catch_up(runtime, scope, patience=_PATIENCE)
    except StoreError as error:
        log.warning("recall continues without the newest turns: %s", error.for_log())


def _made(
    runtime: Runtime, found: Sequence[UnindexedTurns]
) -> list[tuple[UnindexedTurns, Sequence[IndexEntry]]]:
    made: list[tuple[UnindexedTurns, Sequence[IndexEntry]]] = []
    for some in _few_at_a_time(found):
        turns = {(turn.episode_id, turn.ordinal): turn for turn in _turns(runtime, some)}
        for each in some:
            entries = list(_index_entries(runtime, each, turns))
            made.append((each, _with_facts(runtime, each, turns, entries)))
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


def _index_entries(
    runtime: Runtime, found: UnindexedTurns, turns: Mapping[tuple[UUID, int], Turn]
) -> Iterator[IndexEntry]:
    config = _config(runtime, found.scope)
    for ordinal in range(found.first, found.stop):
        # A damaged turn has no terms; it stays queued for a vector.
        made = IndexEntry(ordinal=ordinal, lexical=Lexical())
        turn = turns.get((found.episode_id, ordinal))
        if turn is not None and not turn.indexed:
            continue
        if turn is not None:
            try:
                made = of_turn(runtime, found.scope, turn, config)
            except Exception as error:  # noqa: BLE001 - one text must not stop the others
                log.warning(
                    "could not tokenize a turn, indexing it without terms: %s", type(error).__name__
                )
        yield made


def _with_facts(
    runtime: Runtime,
    found: UnindexedTurns,
    turns: Mapping[tuple[UUID, int], Turn],
    entries: list[IndexEntry],
) -> list[IndexEntry]:
    """Add to each turn's entry the standing facts that the rules find in it."""
    said = [
        turn
        for entry in entries
        if (turn := turns.get((found.episode_id, entry.ordinal))) is not None
    ]
    try:
        facts = _facts(runtime, found, said)
    except Exception as error:  # noqa: BLE001 - facts must not stop the index
        log.warning("could not search turns for facts: %s", type(error).__name__)
        return entries
    if not facts:
        return entries
    by_turn: dict[int | None, list[Fact]] = {}
    for fact in facts:
        by_turn.setdefault(fact.ordinal, []).append(fact)
    return [entry._replace(facts=tuple(by_turn.get(entry.ordinal, ()))) for entry in entries]


def _facts(runtime: Runtime, found: UnindexedTurns, said: Sequence[Turn]) -> tuple[Fact, ...]:
    if not any(turn.role is Role.USER for turn in said):
        return ()
    before = _question_before(runtime, found, said[0])
    stated = runtime.extractive.facts(said, before)
    if not stated:
        return ()
    # Numbers of placeholders count within an episode, and are given when its text is stored.
    guard = runtime.guard(found.scope, numbered=False)
    guard.hear([turn.message for turn in said])
    return pii_guard.guarded(pii_guard.found(said, stated, FactOrigin.RULES), guard)


def _question_before(runtime: Runtime, found: UnindexedTurns, first: Turn) -> Turn | None:
    """Return the turn before a short one, which may be the answer to its question."""
    if first.role is not Role.USER or not first.ordinal or len(first.text) > _ANSWER_CHARS:
        return None
    before = _read(runtime, found, first.ordinal - 1, first.ordinal)
    return before[0] if before else None


def _config(runtime: Runtime, scope: Scope) -> MemoryConfig:
    try:
        return runtime.config(scope.tenant, scope.agent)
    except InvalidSetting as error:
        log.warning("an agent's settings are invalid, using the defaults: %s", error)
        return runtime.defaults


def of_turn(runtime: Runtime, scope: Scope, turn: Turn, config: MemoryConfig) -> IndexEntry:
    message = turn.message
    return IndexEntry(
        ordinal=turn.ordinal,
        lexical=runtime.lexicon.turn(scope, message.text, message.name, turn.at),
        embed=wants_vector(message, config),
    )


def _turns(runtime: Runtime, found: Sequence[UnindexedTurns]) -> list[Turn]:
    """Read the turns that are not damaged."""
    try:
        return runtime.store.turns_of(found)
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
