"""Recall: gather signals, rank, explain."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ...domain.checks import NO_FILTERS, RecallFilters, check_limit
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
from ...domain.message import Role
from ...domain.search import row_format
from ...domain.search.bm25 import LexicalScores, QueryTerms
from ...domain.search.features import SUMMARY
from ...domain.search.languages import Reading
from ...domain.search.query import QueryPlan, plan_query, respell
from ...domain.search.ranking import Ranking, Signals, rank
from ...ports.index import AskProbe, Probe, ScopeView
from ...ports.models import Embedder
from ...ports.values import SUMMARY_ORDINAL, EpisodeQuery
from ..core.runtime import Runtime
from ..write import index_turns
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


class Found(NamedTuple):
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
    least = least_score(runtime, scope, ask)
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
    least = least_score(runtime, scope, ask)
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


def _search(runtime: Runtime, scope: Scope, ask: Ask) -> Found | None:
    if not ask.query.strip():
        return None
    view = view_of(runtime, scope, ask)
    if view is None or not len(view.ordinals):
        return None
    plan = planned(runtime, scope, ask, view)
    keep = kept_rows(runtime, scope, view, ask)
    if keep is not None and not keep.any():
        return None
    signals = signals_of(runtime, view, plan, ask.mode)
    return Found(view, rank(signals, plan, runtime.calibration, keep=keep), plan)


def planned(runtime: Runtime, scope: Scope, ask: Ask, view: ScopeView) -> QueryPlan:
    """Analyze a question, with the speakers of the scope."""
    if not view.speakers:
        return _plan(runtime, scope, ask)
    speakers = [row_format.numbers(name).tolist() for name in view.speakers]
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


def view_of(runtime: Runtime, scope: Scope, ask: Ask) -> ScopeView | None:
    """Return the scope's rows to search; None if nothing was ever stored."""
    state = runtime.store.recall_state(scope)
    if state is None:
        return None
    if state.has_unindexed:
        index_turns.catch_up_if_possible(runtime, scope)
        state = None
    return runtime.index.view(scope, runtime.embedder.model, _probe(runtime, scope, ask), state)


def signals_of(runtime: Runtime, view: ScopeView, plan: QueryPlan, mode: RecallMode) -> Signals:
    sample = None if view.sample is None else signals_of(runtime, view.sample, plan, mode)
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
        left_out = len(left_out_of(runtime, scope, ask))
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


def kept_rows(
    runtime: Runtime, scope: Scope, view: ScopeView, ask: Ask
) -> NDArray[np.bool_] | None:
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
    left_out = left_out_of(runtime, scope, ask)
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


def left_out_of(runtime: Runtime, scope: Scope, ask: Ask) -> dict[UUID, int]:
    """Return the excluded episodes, each from an ordinal on."""
    if ask.leave_out_session is None:
        return {}
    shown = runtime.store.episode_ids(scope, ask.leave_out_session)
    return {each: first for each, first in shown.items() if first is not None}


def _snippets(
    runtime: Runtime, scope: Scope, found: Found, best: Mapping[int, float]
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


def least_score(runtime: Runtime, scope: Scope, ask: Ask) -> float:
    if ask.min_score is not None:
        return ask.min_score
    if ask.mode is RecallMode.HYBRID:
        return 0.0
    return runtime.config(scope.tenant, scope.agent).recall.min_recall_score


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def recent_snippet(runtime: Runtime, episode: Episode) -> EpisodeSnippet:
    """Make a snippet of a recent episode; without a summary it shows the user's last turns."""
    if episode.summary:
        return snippet_of(episode)
    start = max(0, episode.message_count - 2 * _MATCHES_SHOWN)
    turns = [
        turn for turn in runtime.store.turns(episode.scope, episode.id, start=start) if turn.indexed
    ]
    said = [turn for turn in turns if turn.role is Role.USER] or turns
    return snippet_of(episode, turns=tuple(map(plain_hit, said[-_MATCHES_SHOWN:])))


def latest(
    runtime: Runtime,
    scope: Scope,
    limit: int,
    include_archived: bool | None,
    session_id: str | None,
) -> list[EpisodeSnippet]:
    """Return snippets without a relevance, newest first, and without the session `session_id`."""
    if session_id is not None:
        check_name("session_id", session_id)
    episodes, _ = runtime.store.list_episodes(
        EpisodeQuery(
            of=scope,
            limit=check_limit(limit),
            include_archived=archived_wanted(runtime, scope, include_archived),
            leave_out_sessions=() if session_id is None else [session_id],
            count=False,
        )
    )
    return [recent_snippet(runtime, episode) for episode in episodes]
