"""Cleaning of turns that an earlier release stored: answers of memory's own recall tool.

They were indexed as words of the conversation, so that recall found its own answers. Each episode
is rewritten in one transaction; a process that is killed begins again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import UUID

from ...domain.episode import Scope, Turn
from ...domain.errors import EpisodeChanged, EpisodeNotFound, LegalHold, StoreCorrupt
from ...domain.message import message_tokens
from ...domain.own_words import emptied, own_results
from ...ports.values import Lexical, NewSummary, RewrittenTurn, StoredEpisode
from ..core.runtime import Runtime
from ..write import close, index_turns

log = logging.getLogger(__name__)

_PAGE = 100
_ATTEMPTS = 5
"""Attempts per episode, because another caller may change it meanwhile."""


def remove_own_words(runtime: Runtime, *, go_on: Callable[[], bool] = lambda: True) -> int:
    """Empty the answers of memory's tools in every episode; returns the number of turns.

    A database that has none is not read. `go_on` is called after each episode.
    """
    if runtime.store.read_only or not runtime.store.state().owes_own_words:
        return 0
    done, is_whole = 0, True
    for scope, episode_id in _episodes(runtime):
        try:
            done += _clean(runtime, scope, episode_id)
        except (LegalHold, EpisodeNotFound):
            # A hold keeps the text as it is; what is gone needs no cleaning.
            continue
        except (EpisodeChanged, StoreCorrupt) as error:
            log.warning("an episode is cleaned later: %s", error.for_log())
            is_whole = False
        if not go_on():
            return done
    if done:
        runtime.clear_caches()
        log.info("answers of memory's own tools are removed from %d turns", done)
    if is_whole:
        runtime.store.own_words_removed()
    return done


def _episodes(runtime: Runtime) -> Iterator[tuple[Scope, UUID]]:
    number = 0
    while page := runtime.store.scopes(after=number, limit=_PAGE):
        number = page[-1][0]
        for _, scope in page:
            after: str | None = None
            while some := runtime.store.sessions(scope, deleted=True, after=after, limit=_PAGE):
                after = some[-1].id
                for session in some:
                    for each in runtime.store.episode_ids(scope, session.id, deleted=True):
                        yield scope, each


def _clean(runtime: Runtime, scope: Scope, episode_id: UUID) -> int:
    for attempt in range(_ATTEMPTS):
        was = runtime.store.stored_episode(scope, episode_id)
        if was is None or not (found := _own(was)):
            return 0
        index_turns.catch_up(runtime, scope, episode_id)
        was = runtime.store.stored_episode(scope, episode_id)
        if was is None or not (found := _own(was)):
            return 0
        try:
            runtime.store.rewrite(
                was,
                turns=[_rewritten(runtime, turn) for turn in found],
                summary=_summary(runtime, was, found),
                now=runtime.clock.now(),
            )
        except EpisodeChanged:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        return len(found)
    return 0


def _own(was: StoredEpisode) -> list[Turn]:
    places = own_results([turn.message for turn in was.turns])
    return [was.turns[place] for place in places if was.turns[place].indexed]


def _rewritten(runtime: Runtime, turn: Turn) -> RewrittenTurn:
    message = emptied(turn.message)
    return RewrittenTurn(
        ordinal=turn.ordinal,
        message=message,
        tokens=message_tokens(message, runtime.counter.count),
        lexical=Lexical(),
        embed=False,
        has_pii=turn.has_pii,
        indexed=False,
    )


def _summary(runtime: Runtime, was: StoredEpisode, gone: list[Turn]) -> NewSummary | None:
    """Make the summary and facts again from what was said; a caller's summary stays."""
    episode = was.episode
    if episode.summary is None or episode.summarized_by == close.BY_CALLER:
        return None
    ordinals = {turn.ordinal for turn in gone}
    said = [turn for turn in was.turns if turn.indexed and turn.ordinal not in ordinals]
    new = close.summary_of(runtime, episode.scope, said)
    if new is None:
        return None
    # The worker does not improve archived episodes.
    return replace(new, improve=new.improve and not episode.is_archived and not was.is_deleted)
