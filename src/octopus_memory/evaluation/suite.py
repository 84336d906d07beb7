"""The built-in systems by name, and the baselines: textbook methods, and the naive design
over summaries.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..domain.errors import InvalidInput
from ..domain.policy import EpisodicRetentionPolicy, MemoryConfig
from ..ports.models import Analyzer, Embedder
from ..settings import load
from ..wiring import EpisodicMemory, make_analyzer, make_embedder
from .conversation import BenchTurn
from .octopus import OctopusSystem
from .systems import Hit, RecallSystem, SharedEmbedder, by_session

SYSTEMS = ("octopus", "recency", "bm25", "dense", "rrf", "naive")


def shared_embedder(folder: Path | None = None) -> SharedEmbedder:
    """Return the embedder of the settings with a cache. `folder` keeps the cache for later runs."""
    return SharedEmbedder(make_embedder(load()), folder)


def make_systems(
    names: Sequence[str], embedder: SharedEmbedder, *, archived: bool = False
) -> list[RecallSystem]:
    """Return the systems of these names.

    :raises InvalidInput: a name is not among `SYSTEMS`
    """
    analyzer = make_analyzer()
    return [_system(name, embedder, analyzer, archived=archived) for name in names]


def _system(
    name: str, embedder: SharedEmbedder, analyzer: Analyzer, *, archived: bool
) -> RecallSystem:
    match name:
        case "octopus":
            return OctopusSystem(embedder, archived=archived)
        case "recency":
            return TurnBaseline(name, Recency())
        case "bm25":
            return TurnBaseline(name, BM25(analyzer))
        case "dense":
            return TurnBaseline(name, Dense(embedder))
        case "rrf":
            return TurnBaseline(name, ReciprocalRanks(BM25(analyzer), Dense(embedder)))
        case "naive":
            return NaiveDesign(embedder)
        case _:
            raise InvalidInput("systems", f"must be among {', '.join(SYSTEMS)}, not {name!r}")


Floats = NDArray[np.float64]

_K1, _B = 1.2, 0.75
_RRF_K = 60
_NO_CAP = 1_000_000
_NAIVE_THRESHOLD = 0.65
_NAIVE_TOP = 3
_YEARS = 365 * 1_000.0
_KEEPS_ALL = MemoryConfig(
    retention=EpisodicRetentionPolicy(active_retention_days=_YEARS, archive_retention_days=_YEARS)
)
"""Retention is off, because the conversations of a dataset are old."""


class Scorer(Protocol):
    """A method of scoring turns, fitted to one conversation."""

    def fit(self, turns: Sequence[BenchTurn]) -> None: ...

    def score(self, query: str) -> Floats:
        """Return one value for each turn. Higher is better."""


class TurnBaseline:
    """Adapts a scorer to `RecallSystem`. A session is as good as its best turn."""

    def __init__(self, name: str, scorer: Scorer) -> None:
        self.name = name
        self._scorer = scorer
        self._turns: Sequence[BenchTurn] = ()

    def reset(self) -> None:
        self._turns = ()

    def add(self, turns: Sequence[BenchTurn]) -> None:
        self._turns = turns
        self._scorer.fit(turns)

    def search(self, query: str, asked_at: datetime, limit: int) -> list[Hit]:  # noqa: ARG002
        scores = self._scorer.score(query)
        order = np.argsort(-scores, kind="stable").tolist()
        turns = [
            Hit(
                session_id=self._turns[place].session_id,
                turn_id=self._turns[place].id,
                score=float(scores[place]),
            )
            for place in order
        ]
        best = {hit.session_id: hit.score for hit in reversed(turns)}
        sessions = dict.fromkeys(hit.session_id for hit in turns)
        whole = [Hit(session_id=name, score=best[name]) for name in list(sessions)[:limit]]
        return turns[:limit] + whole


def _line(turn: BenchTurn) -> str:
    """Return the text of a turn with the name of its speaker, as in a transcript."""
    return f"{turn.name}: {turn.text}" if turn.name else turn.text


class Recency:
    """Scores the last turn highest, whatever the question."""

    def __init__(self) -> None:
        self._scores: Floats = np.empty(0)

    def fit(self, turns: Sequence[BenchTurn]) -> None:
        order = sorted(range(len(turns)), key=lambda place: (turns[place].at, place))
        self._scores = np.empty(len(turns))
        self._scores[order] = np.arange(1, len(turns) + 1) / len(turns)

    def score(self, query: str) -> Floats:  # noqa: ARG002
        return self._scores


class BM25:
    """Okapi BM25 over stemmed words without stopwords."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._postings: dict[str, list[tuple[int, int]]] = {}
        self._norms: Floats = np.empty(0)

    def fit(self, turns: Sequence[BenchTurn]) -> None:
        self._postings = {}
        lengths = np.zeros(len(turns))
        for place, turn in enumerate(turns):
            counts = Counter(self._analyzer.terms(_line(turn), _NO_CAP))
            lengths[place] = counts.total()
            for term, count in counts.items():
                self._postings.setdefault(term, []).append((place, count))
        usual = max(lengths.mean(), 1.0)
        self._norms = _K1 * (1 - _B + _B * lengths / usual)

    def score(self, query: str) -> Floats:
        scores = np.zeros(len(self._norms))
        for forms in self._analyzer.forms(query, _NO_CAP):
            postings = [found for form in forms for found in self._postings.get(form, [])]
            having = len(postings)
            rarity = math.log(1 + (len(scores) - having + 0.5) / (having + 0.5))
            for place, count in postings:
                scores[place] += rarity * count * (_K1 + 1) / (count + self._norms[place])
        return scores


class Dense:
    """The cosine between question and turn."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: NDArray[np.float32] = np.empty((0, 0), np.float32)

    def fit(self, turns: Sequence[BenchTurn]) -> None:
        self._vectors = self._embedder.embed([_line(turn) for turn in turns])

    def score(self, query: str) -> Floats:
        cosines: Floats = (self._vectors @ self._embedder.embed([query])[0]).astype(np.float64)
        return cosines


class ReciprocalRanks:
    """Reciprocal rank fusion of several scorers (Cormack et al., SIGIR 2009), k = 60."""

    def __init__(self, *scorers: Scorer) -> None:
        self._scorers = scorers

    def fit(self, turns: Sequence[BenchTurn]) -> None:
        for scorer in self._scorers:
            scorer.fit(turns)

    def score(self, query: str) -> Floats:
        return sum((_reciprocal(scorer.score(query)) for scorer in self._scorers), np.zeros(()))


def _reciprocal(scores: Floats) -> Floats:
    """Return 1/(60 + rank), or zero for a turn that was not found."""
    values = np.zeros(len(scores))
    order = np.argsort(-scores, kind="stable")
    values[order] = 1 / (_RRF_K + np.arange(1, len(scores) + 1))
    return np.where(scores > 0, values, 0.0)


class NaiveDesign:
    """The three best cosines of at least 0.65 between question and session summary.

    The summaries are those that Octopus makes.
    """

    name = "naive"

    def __init__(self, embedder: SharedEmbedder) -> None:
        self._embedder = embedder
        self._sessions: list[str] = []
        self._vectors: NDArray[np.float32] = np.empty((0, 0), np.float32)

    def reset(self) -> None:
        self._sessions = []

    def add(self, turns: Sequence[BenchTurn]) -> None:
        sessions = by_session(turns)
        with EpisodicMemory.open(
            "sqlite:///:memory:", embedder=self._embedder, background=False, config=_KEEPS_ALL
        ) as memory:
            scope = memory.scope(user="bench")
            stored = [
                scope.store(
                    [replace(turn, name=None).message for turn in said],
                    at=[turn.at for turn in said],
                )
                for said in sessions.values()
            ]
        self._sessions = list(sessions)
        self._vectors = self._embedder.embed([episode.summary or "" for episode in stored])

    def search(self, query: str, asked_at: datetime, limit: int) -> list[Hit]:  # noqa: ARG002
        cosines = self._vectors @ self._embedder.embed([query])[0]
        best = np.argsort(-cosines, kind="stable")[: min(limit, _NAIVE_TOP)].tolist()
        return [
            Hit(session_id=self._sessions[place], score=float(cosines[place]))
            for place in best
            if cosines[place] >= _NAIVE_THRESHOLD
        ]
