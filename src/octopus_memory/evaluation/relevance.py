"""Whether a system can say "nothing relevant": questions asked where they have no answer.

Each question is asked once in its own conversation, where its answer was said, and once in the next
conversation of the dataset, where it was not. The best score of what comes back should tell the two
apart.
"""

from __future__ import annotations

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
class SystemRelevance:
    """The best score of each question, at home and elsewhere; 0 where nothing came back."""

    name: str
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
    total = 2 * sum(len(conversation.questions) for conversation in conversations)
    for place, conversation in enumerate(conversations):
        system.reset()
        system.add(conversation.turns)
        before = conversations[place - 1]
        with asking(embedder):
            for source, scores in ((conversation, at_home), (before, elsewhere)):
                for question in source.questions:
                    asked_at = conversation.asked_at(question)
                    hits = system.search(question.text, asked_at, LIMIT)
                    scores.append(max((hit.score for hit in hits), default=0.0))
                    if progress is not None:
                        progress(system.name, len(at_home) + len(elsewhere), total)
    system.reset()
    return SystemRelevance(
        name=system.name, answerable=tuple(at_home), unanswerable=tuple(elsewhere)
    )
