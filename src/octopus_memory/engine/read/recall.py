"""Recall: gather signals, rank, explain."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.block.passages import Candidate
from ...domain.checks import check_limit
from ...domain.episode import (
    Episode,
    EpisodeSnippet,
    Explain,
    Scope,
    SignalShare,
    Turn,
    TurnHit,
    check_name,
    check_time,
)
from ...domain.errors import EmbedderFailed, InvalidInput, InvalidSetting
from ...domain.search import term_hashing
from ...domain.search.bm25 import LexicalScores, QueryTerms
from ...domain.search.features import ASSISTANT, SUMMARY
from ...domain.search.filters import NO_FILTERS, RecallFilters
from ...domain.search.languages import Reading
from ...domain.search.query import QueryPlan, plan_query
from ...domain.search.question_kind import Question
from ...domain.search.ranking import Ranked, Ranking, Signals, rank
from ...domain.search.spelled_names import respell
from ...domain.search.temporal import Order
from ...ports.index import AskProbe, Probe, ScopeView
from ...ports.models import Embedder
from ...ports.values import SUMMARY_ORDINAL, EpisodeQuery
from ..core.runtime import Runtime
from ..write import close, index_turns
from . import filter_rows

log = logging.getLogger(__name__)

_MATCHES_SHOWN = 3
_WORDS_SHOWN = 300
"""Characters of turns that stand in for a missing summary."""


class RecallMode(StrEnum):
    HYBRID = "hybrid"
    SEMANTIC = "semantic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A query with its mode, filters and limits."""

    query: str
    mode: RecallMode = RecallMode.HYBRID
    limit: int = 5
    min_score: float | None = None
    since: datetime | None = None
    until: datetime | None = None
    include_archived: bool = True
    leave_out_session: str | None = None
    filters: RecallFilters = NO_FILTERS

    def __post_init__(self) -> None:
        if not isinstance(self.query, str):
            raise InvalidInput("query", f"must be text, not {type(self.query).__name__}")
        check_limit(self.limit)
        least = 0 if self.min_score is None else self.min_score
        if not isinstance(least, int | float) or not 0 <= least <= 1:
            raise InvalidInput("min_score", "must be a number between 0 and 1")
        if self.leave_out_session is not None:
            check_name("session_id", self.leave_out_session)
        for field in ("since", "until"):
            moment = getattr(self, field)
            if moment is not None:
                object.__setattr__(self, field, check_time(field, moment))


_MOST_FILTERED = 1_000
"""Episodes that a very large scope is searched for where filters may drop most of them."""
_MOST_SPEAKERS = 10
"""Speakers whose names are compared with a misspelt one."""
_NAME_INSIDE = re.compile(r"\w\W+[^\W\d_a-z]")
"""A capital letter that does not begin the question."""
_NEVER_SHOWN = 2**31
"""The first ordinal in the replay of another session, which recall may return whole."""


class _Found(NamedTuple):
    view: ScopeView
    ranking: Ranking
    plan: QueryPlan

    def episode_id(self, row: int) -> UUID:
        return self.view.episode_ids[int(self.view.rows.episode[row])]

    def is_turn(self, row: int) -> bool:
        return bool(self.view.ordinals[row] != SUMMARY_ORDINAL)

    def is_short(self, row: int) -> bool:
        """Return whether the turn may be a short answer that needs its question."""
        return int(self.view.ordinals[row]) > 0 and self.view.rows.length.item(row) < 0

    def explain(self, row: int, score: float) -> tuple[SignalShare, ...]:
        """Return the signals of a row's relevance."""
        return self.ranking.why(row, score)()

    def place(self, row: int) -> tuple[UUID, int]:
        """Return the episode of a row, and its ordinal in it."""
        return self.episode_id(row), int(self.view.ordinals[row])

    def places(self, rows: Sequence[int]) -> list[tuple[UUID, int]]:
        return [self.place(row) for row in rows]


def recall(runtime: Runtime, scope: Scope, ask: Ask) -> list[EpisodeSnippet]:
    """Return episodes, most relevant first."""
    found = _search(runtime, scope, ask)
    if found is None:
        return []
    least = _least(runtime, scope, ask)
    best = {
        number: relevance
        for number, relevance in found.ranking.episodes(ask.limit)
        if relevance >= least
    }
    return _snippets(runtime, scope, found, best)


def recall_turns(runtime: Runtime, scope: Scope, ask: Ask) -> list[TurnHit]:
    """Return turns, best first; their scores are calibrated like an episode's."""
    found = _search(runtime, scope, ask)
    if found is None:
        return []
    least = _least(runtime, scope, ask)
    best = [
        (row, relevance) for row, relevance in found.ranking.turns(ask.limit) if relevance >= least
    ]
    rows = [row for row, _ in best]
    places = found.places(rows)
    turns = _by_row(rows, places, runtime.store.turns_at(scope, places))
    return [
        plain_hit(turns[row], score=relevance, why=found.ranking.why(row, relevance))
        for row, relevance in best
        # A message that only calls a tool says nothing itself.
        if row in turns and turns[row].text.strip()
    ]


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
    runtime: Runtime, scope: Scope, ask: Ask, *, quotable: int, lines: int
) -> Recalled:
    """Find the best `quotable` turns to quote, and episodes, by one search.

    A short turn comes with the turn before it. A short answer to one of them is a candidate beside
    them. Summaries are candidates if the episode is archived, or if a caller or a model wrote them.

    The episodes are the most relevant ones that `ask` wants. For a question without a subject, they
    are up to `lines` episodes of the time or the conversation that it names, or the newest.
    """
    view = _view(runtime, scope, ask) if ask.query.strip() else None
    if view is None or not len(view.ordinals):
        return Recalled()
    plan = _planned(runtime, scope, ask, view).narrowed(view.rows)
    left_out = _left_out(runtime, scope, ask)
    keep = _keep(runtime, scope, view, ask)
    listed = _listed(runtime, scope, ask, plan.question, view, lines)
    if listed is not None:
        keep = listed.rows if keep is None else keep & listed.rows
    elif plan.question.of_user:
        spoken = view.rows.role != ASSISTANT
        keep = spoken if keep is None else keep & spoken
    if keep is not None and not keep.any():
        best = Recalled(question=plan.question, at_that_time=bool(listed and listed.episodes))
    else:
        signals = _signals(runtime, view, plan, ask.mode)
        ranking = rank(signals, plan, runtime.calibration, keep=keep)
        best = _best_for_context(runtime, scope, ask, _Found(view, ranking, plan), quotable)
    if listed is not None:
        episodes = tuple(recent_snippet(runtime, each) for each in listed.episodes)
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
    runtime: Runtime, scope: Scope, ask: Ask, question: Question, view: ScopeView, lines: int
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
        left_out = _left_out(runtime, scope, ask)
        numbers = np.unique(view.rows.episode[rows])[::-1].tolist()
        ids = [each for number in numbers if (each := view.episode_ids[number]) not in left_out]
        found = runtime.store.episodes(scope, ids[:lines])
        return _Listed([found[each] for each in ids[:lines] if each in found], rows)
    else:
        episodes = _newest(runtime, scope, ask, lines)
        return _Listed(episodes, _rows_of(view, episodes[:_QUOTED_OF_ALL]))
    return _Listed(episodes, _rows_of(view, episodes))


def _newest(runtime: Runtime, scope: Scope, ask: Ask, limit: int) -> list[Episode]:
    query = EpisodeQuery(
        of=scope,
        limit=limit,
        include_archived=ask.include_archived,
        leave_out_sessions=[ask.leave_out_session] if ask.leave_out_session else [],
        count=False,
    )
    return [each for each in runtime.store.list_episodes(query)[0] if each.message_count]


def _last_conversation(runtime: Runtime, scope: Scope, ask: Ask) -> list[Episode]:
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
    runtime: Runtime, scope: Scope, ask: Ask, found: _Found, quotable: int
) -> Recalled:
    least = _least(runtime, scope, ask)
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
        number: snippet_of(
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
    found: _Found,
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
                hit = plain_hit(turn, score=score, why=partial(found.explain, row, score))
                said = before is not None and before.indexed and found.is_short(row)
                asked = plain_hit(before) if before is not None and said else None
                yield Candidate(rank=place, score=score, source=hit, before=asked)
            continue
        snippet = snippets.get(int(found.view.rows.episode[row]))
        # An extractive summary repeats turns that can be quoted themselves.
        if snippet is not None and (
            snippet.is_archived or not close.is_extractive(episodes[episode_id].summarized_by)
        ):
            yield Candidate(rank=place, score=score, source=snippet)


def _search(runtime: Runtime, scope: Scope, ask: Ask) -> _Found | None:
    if not ask.query.strip():
        return None
    view = _view(runtime, scope, ask)
    if view is None or not len(view.ordinals):
        return None
    plan = _planned(runtime, scope, ask, view)
    keep = _keep(runtime, scope, view, ask)
    if keep is not None and not keep.any():
        return None
    signals = _signals(runtime, view, plan, ask.mode)
    return _Found(view, rank(signals, plan, runtime.calibration, keep=keep), plan)


def _planned(runtime: Runtime, scope: Scope, ask: Ask, view: ScopeView) -> QueryPlan:
    """Analyze a question, with the speakers of the scope."""
    if not view.speakers:
        return _plan(runtime, scope, ask)
    speakers = [term_hashing.numbers(name).tolist() for name in view.speakers]
    if _NAME_INSIDE.search(ask.query) is not None:
        query = respell(ask.query, _speaker_names(runtime, scope, view))
        ask = replace(ask, query=query)
    return _plan(runtime, scope, ask, speakers)


def _speaker_names(runtime: Runtime, scope: Scope, view: ScopeView) -> set[str]:
    """Read the names of the speakers, of which the rows have only hashes, from a turn of each."""
    numbers, first = np.unique(view.rows.speaker, return_index=True)
    rows = first[numbers >= 0][:_MOST_SPEAKERS].tolist()
    places = [
        (view.episode_ids[int(view.rows.episode[row])], int(view.ordinals[row])) for row in rows
    ]
    return {
        turn.message.name for turn in runtime.store.turns_at(scope, places) if turn.message.name
    }


def _view(runtime: Runtime, scope: Scope, ask: Ask) -> ScopeView | None:
    """Return the scope's rows to search; None if nothing was ever stored."""
    state = runtime.store.recall_state(scope)
    if state is None:
        return None
    if state.has_unindexed:
        index_turns.catch_up_if_possible(runtime, scope)
        state = None
    return runtime.index.view(scope, runtime.embedder.model, _probe(runtime, scope, ask), state)


def _signals(runtime: Runtime, view: ScopeView, plan: QueryPlan, mode: RecallMode) -> Signals:
    sample = None if view.sample is None else _signals(runtime, view.sample, plan, mode)
    cosines, words = _cosines(runtime, view, plan, mode), _lexical(view, plan, mode)
    return Signals(view.rows, cosines, words, sample)


def _plan(
    runtime: Runtime, scope: Scope, ask: Ask, speakers: Sequence[Sequence[int]] = ()
) -> QueryPlan:
    return plan_query(
        ask.query,
        asked_at=runtime.clock.now(),
        analyzer=runtime.analyzer,
        hasher=runtime.hasher(scope),
        speakers=speakers,
        related=runtime.analyzer.related if ask.mode is RecallMode.HYBRID else None,
        reads=partial(_reading, runtime.embedder),
    )


def _reading(embedder: Embedder, language: str) -> Reading:
    reads = getattr(embedder, "reads", None)
    if reads is None:
        return Reading.FLUENT
    told = reads(language)
    if told not in tuple(Reading):
        known = ", ".join(Reading)
        raise InvalidSetting("embedder", f"must read {language} as one of {known}, not {told!r}")
    return Reading(told)


def _probe(runtime: Runtime, scope: Scope, ask: Ask) -> AskProbe:
    """Return a function that an index calls to search a very large scope.

    The probe carries the filters, because a partial view without them could have too few rows.
    """

    def probe() -> Probe:
        plan = _plan(runtime, scope, ask)
        words = ask.mode is RecallMode.HYBRID
        left_out = len(_left_out(runtime, scope, ask))
        return Probe(
            vector=_vector(runtime, plan, ask.mode),
            terms=plan.terms.terms if words else plan.terms.terms[:0],
            episodes=(ask.limit if ask.filters == NO_FILTERS else _MOST_FILTERED) + left_out,
            since=None if ask.since is None else _micros(ask.since),
            until=None if ask.until is None else _micros(ask.until),
            include_archived=ask.include_archived,
        )

    return probe


def _lexical(view: ScopeView, plan: QueryPlan, mode: RecallMode) -> LexicalScores:
    by_words = mode is not RecallMode.SEMANTIC
    return view.postings.score(plan.terms if by_words else QueryTerms.only(plan.terms.terms[:0]))


def _cosines(
    runtime: Runtime, view: ScopeView, plan: QueryPlan, mode: RecallMode
) -> NDArray[np.float32]:
    vector = _vector(runtime, plan, mode)
    if vector is None:
        return np.full(len(view.ordinals), np.nan, np.float32)
    return view.cosine(vector)


def _vector(runtime: Runtime, plan: QueryPlan, mode: RecallMode) -> NDArray[np.float32] | None:
    """Embed the query; None if the embedder fails and recall continues with words alone."""
    try:
        return runtime.query_vector(plan.embed_text)
    except EmbedderFailed as error:
        if mode is RecallMode.SEMANTIC:
            raise
        log.warning("embedder failed, recall uses words alone: %s", error)
        return None


def _keep(runtime: Runtime, scope: Scope, view: ScopeView, ask: Ask) -> NDArray[np.bool_] | None:
    """Return the mask of rows that pass the filters; None for all rows."""
    masks: list[NDArray[np.bool_]] = []
    if ask.since is not None:
        masks.append(view.rows.time >= _micros(ask.since))
    if ask.until is not None:
        masks.append(view.rows.time <= _micros(ask.until))
    if not ask.include_archived:
        # Archival removes an episode's turns and leaves its summary.
        turns = np.zeros(len(view.episode_ids), dtype=np.bool_)
        turns[view.rows.episode[view.rows.role != SUMMARY]] = True
        masks.append(turns[view.rows.episode])
    masks += filter_rows.masks(runtime, scope, view, ask.filters)
    left_out = _left_out(runtime, scope, ask)
    if left_out:
        # As integers, because a UUID's hash is computed in Python.
        first = {episode_id.int: shown for episode_id, shown in left_out.items()}
        shown = [first.get(episode_id.int, _NEVER_SHOWN) for episode_id in view.episode_ids]
        shown_from = np.array(shown).take(view.rows.episode)
        stays = shown_from == _NEVER_SHOWN
        if any(first.values()):
            # Turns before a reset are not in the history, so recall may return them.
            stays |= (view.ordinals >= 0) & (view.ordinals < shown_from)
        masks.append(stays)
    if not masks:
        return None
    keep: NDArray[np.bool_] = np.logical_and.reduce(masks)
    return keep


def _left_out(runtime: Runtime, scope: Scope, ask: Ask) -> dict[UUID, int]:
    """Return the excluded episodes, each from an ordinal on."""
    if ask.leave_out_session is None:
        return {}
    shown = runtime.store.episode_ids(scope, ask.leave_out_session)
    return {each: first for each, first in shown.items() if first is not None}


def _snippets(
    runtime: Runtime, scope: Scope, found: _Found, best: Mapping[int, float]
) -> list[EpisodeSnippet]:
    """Make snippets of the episodes in `best`, which maps their numbers to their relevance."""
    ids = {number: found.view.episode_ids[number] for number in best}
    matches = {number: found.ranking.matches(number, k=_MATCHES_SHOWN) for number in best}
    shown = [row for rows in matches.values() for row in rows if found.is_turn(row)]
    places = found.places(shown)
    episodes, read = runtime.store.episodes_and_turns(scope, list(ids.values()), places)
    turns, scores = _by_row(shown, places, read), found.ranking.relevance(shown)
    return [
        snippet_of(
            episodes[ids[number]],
            relevance=relevance,
            turns=tuple(
                plain_hit(turns[row], score=scores[row], why=found.ranking.why(row, scores[row]))
                for row in matches[number]
                if row in turns and turns[row].text.strip()
            ),
            why=found.ranking.why(matches[number][0], relevance),
        )
        for number, relevance in best.items()
        # It may have been erased since the search.
        if ids[number] in episodes
    ]


def snippet_of(
    episode: Episode,
    *,
    relevance: float | None = None,
    turns: tuple[TurnHit, ...] = (),
    why: Explain | None = None,
) -> EpisodeSnippet:
    """Make a snippet of an episode; without a summary it shows its turns.

    `relevance` is None for an episode that was not searched.
    """
    snippet = EpisodeSnippet(
        episode_id=episode.id,
        session_id=episode.session_id,
        date=episode.started_at,
        summary=episode.summary or " … ".join(turn.text for turn in turns)[:_WORDS_SHOWN],
        key_facts=episode.key_facts,
        relevance=relevance,
        is_archived=episode.is_archived,
        turns=turns,
    )
    return snippet if why is None else snippet.explained_by(why)


def _by_row(
    rows: Sequence[int], places: Sequence[tuple[UUID, int]], read: Sequence[Turn]
) -> dict[int, Turn]:
    """Map rows to the turns that were read for them."""
    row_of = {
        (episode_id.int, ordinal): row
        for (episode_id, ordinal), row in zip(places, rows, strict=True)
    }
    return {row_of[turn.episode_id.int, turn.ordinal]: turn for turn in read}


def plain_hit(turn: Turn, *, score: float | None = None, why: Explain | None = None) -> TurnHit:
    message = turn.message
    hit = TurnHit(
        id=turn.id,
        episode_id=turn.episode_id,
        session_id=turn.session_id,
        ordinal=turn.ordinal,
        role=message.role,
        text=message.text,
        at=turn.at,
        score=score,
        name=message.name,
        message=message,
    )
    return hit if why is None else hit.explained_by(why)


def recall_mode(given: str) -> RecallMode:
    try:
        return RecallMode(given)
    except ValueError as error:
        raise InvalidInput("mode", f"must be one of {', '.join(RecallMode)}") from error


def archived_wanted(runtime: Runtime, scope: Scope, given: bool | None) -> bool:
    """Return whether archived episodes are recalled: the caller's value, or the agent's setting."""
    if given is not None:
        return given
    return runtime.config(scope.tenant, scope.agent).recall.include_archived


def _least(runtime: Runtime, scope: Scope, ask: Ask) -> float:
    if ask.min_score is not None:
        return ask.min_score
    if ask.mode is RecallMode.HYBRID:
        return 0.0
    return runtime.config(scope.tenant, scope.agent).recall.min_recall_score


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def recent_snippet(runtime: Runtime, episode: Episode) -> EpisodeSnippet:
    """Make a snippet of a recent episode; without a summary it shows its last turns."""
    if episode.summary:
        return snippet_of(episode)
    start = max(0, episode.message_count - _MATCHES_SHOWN)
    turns = runtime.store.turns(episode.scope, episode.id, start=start)
    shown = tuple(plain_hit(turn) for turn in turns if turn.indexed)
    return snippet_of(episode, turns=shown)
