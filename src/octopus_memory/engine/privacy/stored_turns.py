"""Removal of single turns with all that is derived from them, and of memory's own words.

An earlier release stored answers of memory's own recall tool. They were indexed as words of the
conversation, so that recall found its own answers. Each episode is rewritten in one transaction; a
process that is killed begins again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from ...domain.checks import check_flag, turn_choice
from ...domain.episode import Scope, Turn, check_name
from ...domain.errors import (
    EpisodeChanged,
    EpisodeNotFound,
    LegalHold,
    SessionNotFound,
    StoreCorrupt,
)
from ...domain.message import message_tokens
from ...domain.own_words import emptied, own_results
from ...ports.privacy import TurnRemoval
from ...ports.values import Lexical, NewSummary, RewrittenTurn, StoredEpisode, SummarySource
from ..core import audit
from ..core.runtime import Runtime, retry_on_settings_change
from ..write import close, index_turns
from . import erasure

_RETRIES = 20
"""Retries of a removal that lost a race with another caller in the same session."""


@retry_on_settings_change
def remove_turns(
    runtime: Runtime,
    scope: Scope,
    session_id: str,
    *,
    ids: Sequence[Turn | UUID | str] | None,
    last: int | None,
    physical: bool,
    actor: str,
) -> list[Turn]:
    """Remove the turns in one transaction and return them in order."""
    check_name("session_id", session_id)
    chosen = turn_choice(ids, last)
    check_flag("physical", physical)
    about = {"tenant": scope.tenant, "actor": actor, "user": scope.user}
    with audit.refusals(runtime, "remove_turns", **about):
        for _ in range(_RETRIES):
            removals = _planned(runtime, scope, session_id, chosen, last)
            if removals is None:
                continue
            gone = [turn for each in removals for turn in each.was.turns if turn.id in each.ids]
            if not gone:
                return []
            entry = audit.draft(runtime, "remove_turns", **about, turns=len(gone))
            try:
                runtime.store.remove_turns(removals, now=entry.at, entry=entry)
            except (EpisodeChanged, EpisodeNotFound):
                continue
            runtime.clear_caches()
            if physical:
                erasure.compact_if_owed(runtime, actor=actor)
            return gone
        raise EpisodeChanged(session_id)


def _planned(
    runtime: Runtime, scope: Scope, session_id: str, ids: frozenset[UUID], last: int | None
) -> list[TurnRemoval] | None:
    """Return the removals; None if another caller changed the end of the session."""
    if last is None:
        found = [*runtime.store.episode_ids(scope, session_id)]
        if not found:
            raise SessionNotFound(session_id)
    else:
        replay = runtime.store.replay(scope, session_id, last=last)
        if replay is None:
            raise SessionNotFound(session_id)
        ids = frozenset(turn.id for turn in replay.turns)
        found = [each.episode.id for each in replay.episodes]
    removals = [_removal(runtime, scope, episode_id, ids) for episode_id in found]
    planned = [each for each in removals if each is not None]
    if last is not None and not _is_end(planned, ids):
        return None
    return sorted(planned, key=lambda each: (each.was.episode.started_at, each.was.episode.id))


def _is_end(planned: Sequence[TurnRemoval], ids: frozenset[UUID]) -> bool:
    """Return whether the last turns of a replay are still the last ones of their episodes."""
    if sum(len(each.ids) for each in planned) != len(ids):
        return False
    return all(each.was.turns[-1].id in ids for each in planned)


def _removal(
    runtime: Runtime, scope: Scope, episode_id: UUID, ids: frozenset[UUID]
) -> TurnRemoval | None:
    """Make the removal from one episode; None if it has none of the turns."""
    was, newest = _read(runtime, scope, episode_id)
    if was is None:
        return None
    own = ids.intersection(turn.id for turn in was.turns)
    if not own:
        return None
    summary = None if was.episode.is_open else _remade(runtime, was, own, newest)
    return TurnRemoval(was=was, ids=own, summary=summary)


def _read(runtime: Runtime, scope: Scope, episode_id: UUID) -> tuple[StoredEpisode | None, int]:
    # A turn that is indexed after the state is read would look like a rewrite.
    index_turns.catch_up(runtime, scope, episode_id)
    state = runtime.store.recall_state(scope)
    return runtime.store.stored_episode(scope, episode_id), 0 if state is None else state.newest


def _remade(
    runtime: Runtime, was: StoredEpisode, gone: frozenset[UUID], newest: int
) -> NewSummary | None:
    """Summarize the turns that are left, also if a caller or model wrote the old summary."""
    left = [turn for turn in was.turns if turn.id not in gone]
    turns = [replace(turn, ordinal=ordinal) for ordinal, turn in enumerate(left)]
    said = [turn for turn in turns if turn.indexed]
    new = close.summary_of(runtime, was.episode.scope, said)
    if new is None:
        return None
    # The worker does not improve archived episodes.
    improve = new.improve and not was.episode.is_archived
    made_of = SummarySource(turns=len(was.turns), newest=newest)
    return replace(new, improve=improve, made_of=None if was.episode.is_archived else made_of)


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
