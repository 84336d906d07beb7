"""What a question finds for the context block: turns to quote, and episodes to sum up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.block.passages import Candidate
from ...domain.episode import Episode, EpisodeSnippet, Scope, Turn
from ...domain.search.features import ASSISTANT
from ...domain.search.question_kind import Question
from ...domain.search.ranking import Ranked, rank
from ...domain.search.temporal import Order
from ...ports.index import ScopeView
from ...ports.values import EpisodeQuery
from ..core.runtime import Runtime
from ..write import close
from . import recall


class Recalled(NamedTuple):
    """The results of one search for a context block."""

    question: Question | None = None
    """The question as the search read it; None if nothing was ever stored."""
    candidates: tuple[Candidate, ...] = ()
    episodes: tuple[EpisodeSnippet, ...] = ()
    relevance: float = 0.0
    """The relevance of the best row."""
    is_listed: bool = False
    """True if the episodes are those that a question without a subject asks for."""
    at_that_time: bool = True
    """False if the question names a time of which nothing is stored."""
    left_out: tuple[UUID, ...] = ()
    """The episodes of the session that `ask` leaves out."""


def recall_for_context(
    runtime: Runtime,
    scope: Scope,
    ask: recall.Ask,
    *,
    quotable: int,
    lines: int,
    reached: Callable[[str], object] = str,
) -> Recalled:
    """Find the best `quotable` turns to quote, and episodes, by one search.

    A short turn comes with the turn before it. A short answer to one of them is a candidate beside
    them. Summaries are candidates if the episode is archived, or if a caller or a model wrote them.

    The episodes are the most relevant ones that `ask` wants. For a question without a subject, they
    are up to `lines` episodes of the time or the conversation that it names, or the newest.
    `reached` is called with "searched" when every row has its score.
    """
    view = recall.view_of(runtime, scope, ask) if ask.query.strip() else None
    if view is None or not len(view.ordinals):
        return Recalled()
    plan = recall.planned(runtime, scope, ask, view).narrowed(view.rows)
    left_out = recall.left_out_of(runtime, scope, ask)
    keep = recall.kept_rows(runtime, scope, view, ask)
    listed = _listed(runtime, scope, ask, plan.question, view, lines)
    if listed is not None:
        keep = listed.rows if keep is None else keep & listed.rows
    elif plan.question.of_user:
        spoken = view.rows.role != ASSISTANT
        keep = spoken if keep is None else keep & spoken
    if keep is not None and not keep.any():
        best = Recalled(question=plan.question, at_that_time=bool(listed and listed.episodes))
    else:
        signals = recall.signals_of(runtime, view, plan, ask.mode)
        reached("searched")
        ranking = rank(signals, plan, runtime.calibration, keep=keep)
        best = _best_for_context(runtime, scope, ask, recall.Found(view, ranking, plan), quotable)
    if listed is not None:
        episodes = tuple(recall.recent_snippet(runtime, each) for each in listed.episodes)
        best = best._replace(episodes=episodes, is_listed=True)
    return best._replace(left_out=tuple(left_out))


_QUOTED_OF_ALL = 5
"""Newest episodes of which a question about everything quotes turns."""


class _Listed(NamedTuple):
    """What a question without a subject asks for."""

    episodes: Sequence[Episode]
    """Newest first."""
    rows: NDArray[np.bool_]
    """Mask of the rows that may be quoted."""


def _listed(
    runtime: Runtime, scope: Scope, ask: recall.Ask, question: Question, view: ScopeView, lines: int
) -> _Listed | None:
    """Return what a question without a subject asks for; None if it has one."""
    if question.conversation is Order.LATEST:
        episodes = _last_conversation(runtime, scope, ask)
    elif question.conversation is Order.EARLIEST:
        first = runtime.store.episodes(scope, view.episode_ids[:1])
        episodes = [each for episode in first.values() for each in _same(runtime, scope, episode)]
    elif question.has_subject:
        return None
    elif question.window is not None:
        rows = question.window.covers(view.rows.time, view.rows.told)
        left_out = recall.left_out_of(runtime, scope, ask)
        numbers = np.unique(view.rows.episode[rows])[::-1].tolist()
        ids = [each for number in numbers if (each := view.episode_ids[number]) not in left_out]
        found = runtime.store.episodes(scope, ids[:lines])
        return _Listed([found[each] for each in ids[:lines] if each in found], rows)
    else:
        episodes = _newest(runtime, scope, ask, lines)
        return _Listed(episodes, _rows_of(view, episodes[:_QUOTED_OF_ALL]))
    return _Listed(episodes, _rows_of(view, episodes))


def _newest(runtime: Runtime, scope: Scope, ask: recall.Ask, limit: int) -> list[Episode]:
    query = EpisodeQuery(
        of=scope,
        limit=limit,
        include_archived=ask.include_archived,
        leave_out_sessions=[ask.leave_out_session] if ask.leave_out_session else [],
        count=False,
    )
    return [each for each in runtime.store.list_episodes(query)[0] if each.message_count]


def _last_conversation(runtime: Runtime, scope: Scope, ask: recall.Ask) -> list[Episode]:
    """Return the episodes of the last conversation before this one.

    Without a session to leave out, a conversation that is still going on is taken for this one.
    """
    newest = _newest(runtime, scope, ask, _QUOTED_OF_ALL)
    idle = runtime.config(scope.tenant, scope.agent).session.idle_timeout_minutes
    since = runtime.clock.now() - timedelta(minutes=idle)
    for episode in newest:
        goes_on = episode.is_open and episode.last_message_at > since
        if ask.leave_out_session is not None or not goes_on:
            return _same(runtime, scope, episode)
    return newest[:1]


def _same(runtime: Runtime, scope: Scope, episode: Episode) -> list[Episode]:
    """Return the episodes of the same session, newest first."""
    ids = list(runtime.store.episode_ids(scope, episode.session_id))
    found = runtime.store.episodes(scope, ids)
    return [found[each] for each in reversed(ids) if each in found] or [episode]


def _rows_of(view: ScopeView, episodes: Sequence[Episode]) -> NDArray[np.bool_]:
    wanted = {episode.id.int for episode in episodes}
    named = np.array([each.int in wanted for each in view.episode_ids], np.bool_)
    return named.take(view.rows.episode)


def _best_for_context(
    runtime: Runtime, scope: Scope, ask: recall.Ask, found: recall.Found, quotable: int
) -> Recalled:
    least = recall.least_score(runtime, scope, ask)
    ranked = found.ranking.quotable(quotable, found.view.ordinals)
    top = found.ranking.episodes(max(ask.limit, 1))
    best = {number: score for number, score in top[: ask.limit] if score >= least}
    rows = [row for row, _ in ranked if found.is_turn(row)]
    summaries = {row: score for row, score in ranked if not found.is_turn(row)}
    wanted = {
        **{int(found.view.rows.episode[row]): score for row, score in summaries.items()},
        **best,
    }
    before = [
        (found.episode_id(row), int(found.view.ordinals[row]) - 1)
        for row in rows
        if found.is_short(row)
    ]
    places = found.places(rows)
    ids = [found.view.episode_ids[number] for number in wanted]
    read_at = list(dict.fromkeys([*places, *before]))
    episodes, read = runtime.store.episodes_and_turns(scope, ids, read_at)
    turns = {(turn.episode_id, turn.ordinal): turn for turn in read}
    snippets = {
        number: recall.snippet_of(
            episodes[found.view.episode_ids[number]],
            relevance=score,
            why=found.ranking.why(found.ranking.matches(number, k=1)[0], score),
        )
        for number, score in wanted.items()
        # It may have been erased since the search.
        if found.view.episode_ids[number] in episodes
    }
    return Recalled(
        question=found.plan.question,
        candidates=tuple(_candidates(found, ranked, turns, snippets, episodes)),
        episodes=tuple(snippets[number] for number in best if number in snippets),
        relevance=top[0][1] if top else 0.0,
    )


def _candidates(
    found: recall.Found,
    ranked: Sequence[Ranked],
    turns: Mapping[tuple[UUID, int], Turn],
    snippets: Mapping[int, EpisodeSnippet],
    episodes: Mapping[UUID, Episode],
) -> Iterator[Candidate]:
    # A message that only calls a tool says nothing itself. It must not take a rank, because it
    # follows many questions like a short answer.
    silent = {place for place, turn in turns.items() if not turn.text.strip()}
    telling = [each for each in ranked if found.place(each[0]) not in silent]
    for place, (row, score) in enumerate(telling):
        episode_id, ordinal = found.place(row)
        if found.is_turn(row):
            turn, before = turns.get((episode_id, ordinal)), turns.get((episode_id, ordinal - 1))
            if turn is not None:
                hit = recall.plain_hit(turn, score=score, why=partial(found.explain, row, score))
                said = before is not None and before.indexed and found.is_short(row)
                asked = recall.plain_hit(before) if before is not None and said else None
                yield Candidate(rank=place, score=score, source=hit, before=asked)
            continue
        snippet = snippets.get(int(found.view.rows.episode[row]))
        # An extractive summary repeats turns that can be quoted themselves.
        if snippet is not None and (
            snippet.is_archived or not close.is_extractive(episodes[episode_id].summarized_by)
        ):
            yield Candidate(rank=place, score=score, source=snippet)
