"""Whether a system can say "nothing relevant": questions asked where they have no answer.

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
    """The best score of each question, at home and elsewhere; 0 where nothing came back."""

    answerable: tuple[float, ...]
    unanswerable: tuple[float, ...]

    @property
    def auc(self) -> float:
        return auc(self.answerable, self.unanswerable)

    def kept(self, threshold: float) -> float:
        """The share of answerable questions that something reaches the threshold for."""
        return share_at_least(self.answerable, threshold)

    def dropped(self, threshold: float) -> float:
        """The share of unanswerable ones that nothing reaches it for."""
        return 1 - share_at_least(self.unanswerable, threshold)

    def balanced_accuracy(self, threshold: float) -> float:
        return (self.kept(threshold) + self.dropped(threshold)) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRelevance:
    name: str
    as_asked: Separation
    renamed: Separation | None
    """Elsewhere with the names of those who speak there; None where nobody has a name."""


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
    """:raises InvalidInput: for a dataset of fewer than two conversations with questions"""
    check_questions(dataset)
    asked = [conversation for conversation in dataset.conversations if conversation.questions]
    if len(asked) < 2:
        raise InvalidInput(
            "data", "needs two conversations, to ask the questions of one in another"
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
    """The best score for each question of `source`, asked here."""
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
    """The first of `names` becomes the first of `others`, and so on, round and round."""
    new = {name: others[place % len(others)] for place, name in enumerate(names)}
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"\b(?:{known})\b", lambda found: new[found[0]], text)


def speakers(conversation: Conversation) -> list[str]:
    """Return the speakers' names, in the order of their first words."""
    return list(dict.fromkeys(turn.name for turn in conversation.turns if turn.name))
