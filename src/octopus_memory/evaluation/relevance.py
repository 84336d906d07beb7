"""Measures whether scores tell when there is no answer, by asking questions elsewhere.

Each question is asked once in its own conversation, where its answer was said, and once in the next
conversation of the dataset, where it was not. The best score of what comes back should tell the two
apart.

A question that names people gives itself away: the next conversation has none of that name. So
where turns have names, it is asked there a second time, about the people who speak there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..domain.errors import InvalidInput
from .conversation import Conversation
from .datasets import Dataset
from .embedding import SharedEmbedder
from .metrics import auc, share_at_least
from .run import LIMIT, Progress, asking, check_questions, versions
from .systems import RecallSystem


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
        systems=tuple(_run(asked, system, embedder, progress) for system in systems),
        versions=versions(embedder),
    )


def _run(
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
