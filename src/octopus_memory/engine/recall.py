"""Recall: gather the signals, rank, explain."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from ..domain.bm25 import LexicalScores
from ..domain.episode import (
    Episode,
    EpisodeSnippet,
    Scope,
    SignalShare,
    Turn,
    TurnHit,
    check_name,
    check_time,
)
from ..domain.errors import EmbedderFailed, InvalidInput
from ..domain.hashing import unpack_words
from ..domain.query import QueryPlan, plan_query
from ..domain.ranking import RankConfig, Ranking, Signals, rank
from ..domain.rows import SUMMARY
from ..ports.index import AskProbe, Probe, ScopeView
from ..ports.store import SUMMARY_ORDINAL
from .parts import Parts

log = logging.getLogger(__name__)

_MATCHES_SHOWN = 3
_WORDS_SHOWN = 300
_MOST = 1_000_000
"""The most a page may hold, and the last page there can be."""


class RecallMode(StrEnum):
    HYBRID = "hybrid"
    SEMANTIC = "semantic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is looked for, how, and what may be returned."""

    query: str
    mode: RecallMode = RecallMode.HYBRID
    limit: int = 5
    min_score: float | None = None
    since: datetime | None = None
    until: datetime | None = None
    include_archived: bool = True
    leave_out_session: str | None = None
    leave_out_open: bool = False

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    view: ScopeView
    ranking: Ranking

    def episode_id(self, row: int) -> UUID:
        return self.view.episode_ids[int(self.view.rows.episode[row])]

    def place(self, row: int) -> tuple[UUID, int]:
        return self.episode_id(row), int(self.view.ordinals[row])


def recall(parts: Parts, scope: Scope, ask: Ask) -> list[EpisodeSnippet]:
    """Episodes, most relevant first."""
    found = _search(parts, scope, ask)
    if found is None:
        return []
    least = _least(parts, scope, ask)
    best = [
        number
        for number in found.ranking.episodes[: ask.limit].tolist()
        if found.ranking.episode_relevance[number] >= least
    ]
    return _snippets(parts, scope, found, best)


def recall_turns(parts: Parts, scope: Scope, ask: Ask) -> list[TurnHit]:
    """Turns, best first; their scores are calibrated like an episode's."""
    found = _search(parts, scope, ask)
    if found is None:
        return []
    least = _least(parts, scope, ask)
    rows: list[int] = []
    for row in found.ranking.turns.tolist():
        if len(rows) == ask.limit:
            break
        if found.view.rows.role[row] == SUMMARY:
            continue
        if found.ranking.turn_relevance[row] >= least:
            rows.append(row)
    turns = _turns(parts, scope, found, rows)
    return [
        replace(_hit(turns[row], found, row), signals=found.ranking.explain_row(row))
        for row in rows
        if row in turns
    ]


def _search(parts: Parts, scope: Scope, ask: Ask) -> _Found | None:
    if not ask.query.strip():
        return None
    view = parts.index.view(scope, parts.embedder.model, _probe(parts, scope, ask))
    if not len(view.ordinals):
        return None
    plan = _plan(parts, scope, ask, [unpack_words(words) for words in view.speakers])
    signals = Signals(
        rows=view.rows,
        dense=_cosines(parts, view, plan, ask.mode),
        lexical=_lexical(view, plan, ask.mode),
    )
    config = RankConfig(calibration=parts.calibration)
    keep = _keep(parts, scope, view, ask)
    if keep is not None and not keep.any():
        return None
    return _Found(view=view, ranking=rank(signals, plan, config, keep=keep))


def _plan(
    parts: Parts, scope: Scope, ask: Ask, speakers: Sequence[Sequence[int]] = ()
) -> QueryPlan:
    return plan_query(
        ask.query,
        asked_at=parts.clock.now(),
        analyzer=parts.analyzer,
        hasher=parts.hasher(scope),
        speakers=speakers,
        related=parts.analyzer.related,
    )


def _probe(parts: Parts, scope: Scope, ask: Ask) -> AskProbe | None:
    """What an index may ask where a scope is very large; None where all of it is needed.

    Filters by time and stage go over the view's rows, so a part of them could leave too few.
    """
    if ask.since is not None or ask.until is not None or not ask.include_archived:
        return None

    def probe() -> Probe:
        plan = _plan(parts, scope, ask)
        words = ask.mode is RecallMode.HYBRID
        left_out = sum(len(ids) for ids in _left_out(parts, scope, ask))
        return Probe(
            vector=_vector(parts, plan, ask.mode),
            terms=np.concatenate([plan.terms, plan.related.terms]) if words else plan.terms[:0],
            episodes=ask.limit + left_out,
        )

    return probe


def _lexical(view: ScopeView, plan: QueryPlan, mode: RecallMode) -> LexicalScores:
    if mode is RecallMode.SEMANTIC:
        return view.postings.score(plan.terms[:0])
    return view.postings.score(plan.terms, plan.related)


def _cosines(
    parts: Parts, view: ScopeView, plan: QueryPlan, mode: RecallMode
) -> NDArray[np.float32]:
    vector = _vector(parts, plan, mode)
    if vector is None:
        return np.full(len(view.ordinals), np.nan, np.float32)
    return view.cosine(vector)


def _vector(parts: Parts, plan: QueryPlan, mode: RecallMode) -> NDArray[np.float32] | None:
    """None where recall must do without, by words."""
    try:
        return parts.query_vector(plan.embed_text)
    except EmbedderFailed as error:
        if mode is RecallMode.SEMANTIC:
            raise
        log.warning("recall goes by words alone: %s", error)
        return None


def _keep(parts: Parts, scope: Scope, view: ScopeView, ask: Ask) -> NDArray[np.bool_] | None:
    """Which rows a filter leaves in; None for all."""
    masks: list[NDArray[np.bool_]] = []
    if ask.since is not None:
        masks.append(view.rows.time >= _micros(ask.since))
    if ask.until is not None:
        masks.append(view.rows.time <= _micros(ask.until))
    if not ask.include_archived:
        # Archiving takes an episode's turns and leaves its summary.
        turns = np.zeros(len(view.episode_ids), dtype=np.bool_)
        turns[view.rows.episode[view.rows.role != SUMMARY]] = True
        masks.append(turns[view.rows.episode])
    for ids in _left_out(parts, scope, ask):
        numbers = [place for place, known in enumerate(view.episode_ids) if known in ids]
        masks.append(~np.isin(view.rows.episode, numbers))
    if not masks:
        return None
    keep: NDArray[np.bool_] = np.logical_and.reduce(masks)
    return keep


def _left_out(parts: Parts, scope: Scope, ask: Ask) -> list[set[UUID]]:
    left_out = []
    if ask.leave_out_session is not None:
        episodes = parts.store.session_episodes(scope, ask.leave_out_session)
        left_out.append({episode.id for episode in episodes})
    if ask.leave_out_open:
        # Open ones are listed first, so a page of them ends with the first that is closed.
        page, _ = parts.store.list_episodes(scope, offset=0, limit=1_000)
        left_out.append({episode.id for episode in page if episode.is_open})
    return left_out


def _snippets(
    parts: Parts, scope: Scope, found: _Found, numbers: Sequence[int]
) -> list[EpisodeSnippet]:
    ids = [found.view.episode_ids[number] for number in numbers]
    episodes = parts.store.episodes(scope, ids)
    matches = {
        number: [
            row
            for row in found.ranking.matches(number, k=_MATCHES_SHOWN).tolist()
            if found.view.ordinals[row] != SUMMARY_ORDINAL
        ]
        for number in numbers
    }
    turns = _turns(parts, scope, found, [row for rows in matches.values() for row in rows])
    snippets = []
    for number, episode_id in zip(numbers, ids, strict=True):
        # An erasure may have been faster than this read.
        episode = episodes.get(episode_id)
        if episode is not None:
            hits = tuple(_hit(turns[row], found, row) for row in matches[number] if row in turns)
            snippets.append(_snippet(episode, found.ranking, number, hits))
    return snippets


def _snippet(
    episode: Episode, ranking: Ranking, number: int, hits: tuple[TurnHit, ...]
) -> EpisodeSnippet:
    return snippet_of(
        episode,
        relevance=float(ranking.episode_relevance[number]),
        turns=hits,
        signals=ranking.explain(number),
    )


def snippet_of(
    episode: Episode,
    *,
    relevance: float,
    turns: tuple[TurnHit, ...] = (),
    signals: tuple[SignalShare, ...] = (),
) -> EpisodeSnippet:
    """An episode as recall returns it; one that has no summary yet shows what was said."""
    return EpisodeSnippet(
        episode_id=episode.id,
        session_id=episode.session_id,
        date=episode.started_at,
        summary=episode.summary or " … ".join(turn.text for turn in turns)[:_WORDS_SHOWN],
        key_facts=episode.key_facts,
        relevance=relevance,
        is_archived=episode.is_archived,
        turns=turns,
        signals=signals,
    )


def _turns(parts: Parts, scope: Scope, found: _Found, rows: Sequence[int]) -> dict[int, Turn]:
    places = {row: found.place(row) for row in rows}
    read = parts.store.turns_at(scope, list(places.values()))
    by_place = {(turn.episode_id, turn.ordinal): turn for turn in read}
    return {row: by_place[place] for row, place in places.items() if place in by_place}


def _hit(turn: Turn, found: _Found, row: int) -> TurnHit:
    return plain_hit(turn, score=float(found.ranking.turn_relevance[row]))


def plain_hit(turn: Turn, *, score: float = 0.0) -> TurnHit:
    return TurnHit(
        id=turn.id,
        episode_id=turn.episode_id,
        session_id=turn.session_id,
        ordinal=turn.ordinal,
        role=turn.role,
        text=turn.text,
        at=turn.at,
        score=score,
        name=turn.message.name,
    )


def recall_mode(given: str) -> RecallMode:
    try:
        return RecallMode(given)
    except ValueError as error:
        raise InvalidInput("mode", f"must be one of {', '.join(RecallMode)}") from error


def _least(parts: Parts, scope: Scope, ask: Ask) -> float:
    if ask.min_score is not None:
        return ask.min_score
    if ask.mode is RecallMode.HYBRID:
        return 0.0
    return parts.config(scope.tenant, scope.agent).recall.min_recall_score


def check_limit(limit: int, field: str = "limit") -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MOST:
        raise InvalidInput(field, f"must be a whole number from 1 to {_MOST:,}")
    return limit


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def recent_snippet(parts: Parts, episode: Episode) -> EpisodeSnippet:
    """An episode of the recent list; one still open shows its last words for a summary."""
    if episode.summary:
        return snippet_of(episode, relevance=0.0)
    start = max(0, episode.message_count - _MATCHES_SHOWN)
    turns = parts.store.turns(episode.scope, episode.id, start=start)
    return snippet_of(episode, relevance=0.0, turns=tuple(plain_hit(turn) for turn in turns))
