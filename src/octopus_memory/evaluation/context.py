"""Measures what a model reads: whether the block made for a question holds its evidence.

Every conversation is loaded once and asked its own questions, those of the next conversation, which
have no answer in it, and those that the data mark as having none, each at every budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import chain

from ..domain.errors import InvalidInput
from .blocks import ContextSystem, count_tokens, load
from .conversation import Conversation, Question
from .datasets import Dataset
from .evidence import Rarity, is_complete, measure_block
from .metrics import Estimate, estimate
from .run import Progress, rename_people, speakers, versions
from .systems import SharedEmbedder

BUDGETS = (400, 800, 1600, 3200)

MOST_STRANGERS = 40
"""Number of questions of the next conversation that are asked in each, evenly spaced."""

FIGURES = (
    "evidence",
    "long_turns",
    "answer_words",
    "complete",
    "tokens",
    "strangers",
    "unanswerable",
)
"""`tokens` is the cost of questions that have an answer, `strangers` of another conversation's,
`unanswerable` of those that the data mark as having none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Block that a system made for a question and a budget."""

    budget: int
    category: str
    language: str | None
    tokens: int
    values: Mapping[str, tuple[float, ...]]
    """By figure; `long_turns` has a value for each long turn, the others one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemContext:
    """Everything that was measured of one system."""

    name: str
    measured: tuple[Measured, ...]

    def estimate(
        self, figure: str, budget: int, *, category: str | None = None, language: str | None = None
    ) -> Estimate | None:
        """Return the mean of a figure with its interval; None where nothing has the figure.

        Every question counts the same; for `long_turns` every long evidence turn does.
        """
        return _estimate(
            tuple(
                chain.from_iterable(
                    one.values.get(figure, ())
                    for one in self.measured
                    if one.budget == budget
                    and category in {None, one.category}
                    and language in {None, one.language}
                )
            )
        )

    @property
    def over_budget(self) -> int:
        """The number of blocks that cost more than their budget."""
        return sum(one.tokens > one.budget for one in self.measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRun:
    dataset: Dataset
    budgets: tuple[int, ...]
    systems: tuple[SystemContext, ...]
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question as it is asked in a conversation, and the figure that its cost counts for."""

    text: str
    at: datetime
    question: Question
    costs: str


def run_context(
    dataset: Dataset,
    systems: Sequence[ContextSystem],
    *,
    budgets: Sequence[int] = BUDGETS,
    embedder: SharedEmbedder | None = None,
    progress: Progress | None = None,
) -> ContextRun:
    """Ask every question of every system at every budget.

    :raises InvalidInput: for a dataset without a question, or a budget below 1
    """
    if not dataset.questions and not dataset.unanswerable:
        raise InvalidInput("data", "has no question that could be measured")
    budgets = _checked(budgets)
    try:
        found = _ask_all(dataset, systems, budgets, progress)
    finally:
        for system in systems:
            system.close()
    return ContextRun(
        dataset=dataset,
        budgets=budgets,
        systems=tuple(
            SystemContext(name=system.name, measured=tuple(measured))
            for system, measured in zip(systems, found, strict=True)
        ),
        versions=versions(embedder),
    )


def count_asked(dataset: Dataset) -> int:
    """Return how many questions a run asks each system, those of other conversations included."""
    return sum(len(asked) for _, asked in _all_asked(dataset))


def _ask_all(
    dataset: Dataset,
    systems: Sequence[ContextSystem],
    budgets: tuple[int, ...],
    progress: Progress | None,
) -> list[list[Measured]]:
    """Return what was measured of each system, in the order of `systems`."""
    found: list[list[Measured]] = [[] for _ in systems]
    total = count_asked(dataset) * len(systems)
    done = 0
    for conversation, asked in _all_asked(dataset):
        measure = _Measure(conversation, budgets)
        for system, measured in zip(systems, found, strict=True):
            load(system, conversation)
            for one in asked:
                measured.extend(measure(system, one))
                done += 1
                if progress is not None:
                    progress(system.name, done, total)
    return found


class _Measure:
    """Measures the blocks of one conversation."""

    def __init__(self, conversation: Conversation, budgets: Sequence[int]) -> None:
        self._turns = {turn.id: turn for turn in conversation.turns}
        self._rarity = Rarity([turn.text for turn in conversation.turns])
        self._budgets = budgets

    def __call__(self, system: ContextSystem, asked: _Asked) -> Iterator[Measured]:
        texts = system.blocks(asked.text, asked.at, self._budgets)
        for budget, text in zip(self._budgets, texts, strict=True):
            tokens = count_tokens(text)
            values: dict[str, tuple[float, ...]] = {asked.costs: (tokens,)}
            if asked.costs == "tokens":
                values |= measure_block(text, asked.question, self._turns, self._rarity)
            complete = is_complete(text, asked.question) if asked.costs != "strangers" else None
            if complete is not None:
                values["complete"] = (float(complete),)
            yield Measured(
                budget=budget,
                category=asked.question.category,
                language=asked.question.language,
                tokens=tokens,
                values=values,
            )


def _all_asked(dataset: Dataset) -> Iterator[tuple[Conversation, list[_Asked]]]:
    """Yield each conversation that is asked anything, with everything it is asked."""
    conversations = [c for c in dataset.conversations if c.questions or c.unanswerable]
    for place, here in enumerate(conversations):
        asked = [_own(here, question, "tokens") for question in here.questions]
        if len(conversations) > 1:
            asked += _strangers(here, conversations[(place + 1) % len(conversations)])
        asked += [_own(here, question, "unanswerable") for question in here.unanswerable]
        yield here, asked


def _own(here: Conversation, question: Question, costs: str) -> _Asked:
    return _Asked(text=question.text, at=here.asked_at(question), question=question, costs=costs)


def _strangers(here: Conversation, other: Conversation) -> Iterator[_Asked]:
    """Yield the other conversation's questions, about the people who speak here.

    They are asked at this conversation's time, because the other's may be before it began.
    """
    names, others = speakers(other), speakers(here)
    for question in _spaced(other.questions, MOST_STRANGERS):
        text = rename_people(question.text, names, others) if names and others else question.text
        at = here.asked_at(replace(question, asked_at=None))
        yield _Asked(text=text, at=at, question=question, costs="strangers")


def _spaced(questions: Sequence[Question], most: int) -> list[Question]:
    """Return at most `most` questions, evenly spaced from the first on."""
    count = min(most, len(questions))
    return [questions[place * len(questions) // count] for place in range(count)]


def _checked(budgets: Sequence[int]) -> tuple[int, ...]:
    if not budgets or min(budgets) < 1:
        raise InvalidInput("budgets", "must be whole numbers above zero, such as 400,800")
    return tuple(sorted(set(budgets)))


@lru_cache(maxsize=10_000)
def _estimate(values: tuple[float, ...]) -> Estimate | None:
    """Cache estimates, because the tables, the JSON and the plot need the same ones."""
    return estimate(values)
