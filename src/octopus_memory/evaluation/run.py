"""Runs systems over a dataset: the same turns, the same questions, everything timed.

Relevance is measured by asking questions elsewhere: once in their own conversation, where the
answer was said, and once in the next one. The best score of what comes back should tell the two
apart. A question that names people gives itself away, because the next conversation has none of
that name: where turns have names, it is asked there again, about the people who speak there.
"""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np

from .. import __version__
from ..domain.errors import InvalidInput
from .conversation import Conversation, Question
from .datasets import Dataset
from .metrics import Estimate, auc, estimates, measure, percentiles, share_at_least
from .systems import Hit, RecallSystem, SharedEmbedder, ranked_sessions, ranked_turns

LIMIT = 20
"""Number of turns, and of sessions, to ask for."""

Progress = Callable[[str, int, int], None]
"""Callback: the name of the system, the questions answered, and their total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    conversation: str
    question: Question
    hits: list[Hit]
    seconds: float
    encoding_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer of one system to one question."""

    conversation: str
    category: str
    values: Mapping[str, float]
    seconds: float
    encoding_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRun:
    name: str
    answered: tuple[Answered, ...]
    add_seconds: float

    def estimates(self, category: str | None = None) -> dict[str, Estimate]:
        """Return the estimates by metric, over all questions or those of one category."""
        wanted = (one for one in self.answered if category in {None, one.category})
        return estimates([one.values for one in wanted])

    @property
    def milliseconds(self) -> tuple[float, float]:
        """Return the 50th and 95th percentile of a search with the encoding of its question."""
        return percentiles([one.seconds * 1000 for one in self.answered])

    @property
    def encoding_milliseconds(self) -> tuple[float, float]:
        """Return the same percentiles of the encoding alone."""
        return percentiles([one.encoding_seconds * 1000 for one in self.answered])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRun:
    dataset: Dataset
    systems: tuple[SystemRun, ...]
    versions: Mapping[str, str]


def run_recall(
    dataset: Dataset,
    systems: Sequence[RecallSystem],
    *,
    embedder: SharedEmbedder | None = None,
    progress: Progress | None = None,
) -> RecallRun:
    """Ask every question of every system.

    `embedder` is the one the systems share: its cache then rests while questions are asked.

    :raises InvalidInput: for a dataset without a question
    """
    check_questions(dataset)
    return RecallRun(
        dataset=dataset,
        systems=tuple(_run(dataset, system, embedder, progress) for system in systems),
        versions=versions(embedder),
    )


def check_questions(dataset: Dataset) -> None:
    if not dataset.questions:
        raise InvalidInput("data", "must have a question with evidence")


def versions(embedder: SharedEmbedder | None) -> dict[str, str]:
    """Return the versions that the figures may depend on."""
    found = {
        "octopus-memory": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }
    return found | ({"embedder": embedder.model} if embedder else {})


def asking(embedder: SharedEmbedder | None) -> AbstractContextManager[None]:
    return embedder.asking() if embedder else nullcontext()


def _run(
    dataset: Dataset,
    system: RecallSystem,
    embedder: SharedEmbedder | None,
    progress: Progress | None,
) -> SystemRun:
    searches: list[_Search] = []
    adding = 0.0
    for conversation in dataset.conversations:
        if not conversation.questions:
            continue
        system.reset()
        started = time.perf_counter()
        system.add(conversation.turns)
        adding += time.perf_counter() - started
        with asking(embedder):
            for question in conversation.questions:
                searches.append(_search(conversation, question, system, embedder))
                if progress is not None:
                    progress(system.name, len(searches), dataset.questions)
    system.reset()
    knows_turns = any(hit.turn_id is not None for search in searches for hit in search.hits)
    return SystemRun(
        name=system.name,
        answered=tuple(_answered(search, knows_turns=knows_turns) for search in searches),
        add_seconds=adding,
    )


def _search(
    conversation: Conversation,
    question: Question,
    system: RecallSystem,
    embedder: SharedEmbedder | None,
) -> _Search:
    asked_at = conversation.asked_at(question)
    encoded = embedder.seconds if embedder else 0.0
    started = time.perf_counter()
    hits = system.search(question.text, asked_at, LIMIT)
    seconds = time.perf_counter() - started
    return _Search(
        conversation=conversation.id,
        question=question,
        hits=hits,
        seconds=seconds,
        encoding_seconds=embedder.seconds - encoded if embedder else 0.0,
    )


def _answered(search: _Search, *, knows_turns: bool) -> Answered:
    question = search.question
    return Answered(
        conversation=search.conversation,
        category=question.category,
        values=measure(
            ranked_turns(search.hits) if knows_turns else None,
            ranked_sessions(search.hits),
            evidence_turns=question.evidence_turns,
            evidence_sessions=question.evidence_sessions,
        ),
        seconds=search.seconds,
        encoding_seconds=search.encoding_seconds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """The best score of each question, at home and elsewhere; 0 if nothing was found."""

    answerable: tuple[float, ...]
    unanswerable: tuple[float, ...]

    @property
    def auc(self) -> float:
        return auc(self.answerable, self.unanswerable)

    def kept(self, threshold: float) -> float:
        """Return the share of answerable questions whose best score reaches the threshold."""
        return share_at_least(self.answerable, threshold)

    def dropped(self, threshold: float) -> float:
        """Return the share of unanswerable questions whose best score stays below it."""
        return 1 - share_at_least(self.unanswerable, threshold)

    def balanced_accuracy(self, threshold: float) -> float:
        return (self.kept(threshold) + self.dropped(threshold)) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRelevance:
    name: str
    as_asked: Separation
    renamed: Separation | None
    """The scores elsewhere with the names of the speakers there; None if speakers have no names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelevanceRun:
    dataset: Dataset
    threshold: float
    systems: tuple[SystemRelevance, ...]
    versions: Mapping[str, str]


def run_relevance(
    dataset: Dataset,
    systems: Sequence[RecallSystem],
    *,
    threshold: float = 0.65,
    embedder: SharedEmbedder | None = None,
    progress: Progress | None = None,
) -> RelevanceRun:
    """Ask every question at home and in another conversation.

    :raises InvalidInput: the dataset has fewer than two conversations with questions
    """
    check_questions(dataset)
    asked = [conversation for conversation in dataset.conversations if conversation.questions]
    if len(asked) < 2:
        raise InvalidInput(
            "data", "must have two conversations with questions, to ask those of one in the other"
        )
    return RelevanceRun(
        dataset=dataset,
        threshold=threshold,
        systems=tuple(_relevance(asked, system, embedder, progress) for system in systems),
        versions=versions(embedder),
    )


def _relevance(
    conversations: Sequence[Conversation],
    system: RecallSystem,
    embedder: SharedEmbedder | None,
    progress: Progress | None,
) -> SystemRelevance:
    at_home: list[float] = []
    elsewhere: list[float] = []
    renamed: list[float] = []
    total = sum(len(conversation.questions) for conversation in conversations)
    for place, here in enumerate(conversations):
        system.reset()
        system.add(here.turns)
        before = conversations[place - 1]
        with asking(embedder):
            at_home += _best(system, here, here)
            elsewhere += _best(system, here, before)
            if speakers(here) and speakers(before):
                renamed += _best(system, here, before, rename=True)
        if progress is not None:
            progress(system.name, len(at_home), total)
    system.reset()
    home = tuple(at_home)
    return SystemRelevance(
        name=system.name,
        as_asked=Separation(answerable=home, unanswerable=tuple(elsewhere)),
        renamed=Separation(answerable=home, unanswerable=tuple(renamed)) if renamed else None,
    )


def _best(
    system: RecallSystem, here: Conversation, source: Conversation, *, rename: bool = False
) -> list[float]:
    """Return the best score for each question of `source`, asked here."""
    scores = []
    for question in source.questions:
        text = (
            rename_people(question.text, speakers(source), speakers(here))
            if rename
            else question.text
        )
        hits = system.search(text, here.asked_at(question), LIMIT)
        scores.append(max((hit.score for hit in hits), default=0.0))
    return scores


def rename_people(text: str, names: Sequence[str], others: Sequence[str]) -> str:
    """Replace each of `names` by one of `others`, in order and cyclically."""
    new = {name: others[place % len(others)] for place, name in enumerate(names)}
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"\b(?:{known})\b", lambda found: new[found[0]], text)


def speakers(conversation: Conversation) -> list[str]:
    """Return the names of the speakers in the order of their first turns."""
    return list(dict.fromkeys(turn.name for turn in conversation.turns if turn.name))
