"""Records of `octopus bench answers`: a question, and the one context that a reader sees for it."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ..domain.errors import InvalidInput
from ..domain.policy import MemoryConfig
from .blocks import ContextSystem, WholeHistory, count_tokens, load
from .conversation import UNANSWERABLE, Conversation, Question
from .datasets import Dataset
from .layout import dataset_json
from .run import Progress, asking, versions
from .systems import SharedEmbedder

DEFAULT_BUDGET = "default"
"""Word for the budget that `scope.context()` has when the caller names none."""

_ID_BITS = 40

_Context = tuple[str, Path | None]
"""The text, and the memory that the reader may search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A system that gave a context, and what that cost."""

    system: str
    budget: int | None
    """In tokens; None for the whole history."""
    tokens: int
    seconds: float
    lookups: int = 0
    """How often the reader searched the memory."""

    @property
    def name(self) -> str:
        """Return the system with its budget, as in the report."""
        return self.system if self.budget is None else f"{self.system} {self.budget}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A question with one context. Systems that gave the same context share the record."""

    id: str
    """Says nothing about the system or the conversation."""
    question: str
    """With the day on which it is asked."""
    context: str
    asked_at: datetime
    conversation: str
    category: str
    language: str | None
    gold: str | None
    rubric: tuple[str, ...]
    given: tuple[Given, ...]
    memory: str | None = None
    """File that the reader may search, under `key/memories`; None for a record without the tool."""


def parse_budgets(given: Iterable[str]) -> tuple[int, ...]:
    """Return budgets in tokens; `default` is the product's own.

    :raises InvalidInput: for anything but `default` and whole numbers above zero
    """
    found = set()
    for word in given:
        if word != DEFAULT_BUDGET and not (word.isdecimal() and int(word)):
            raise InvalidInput(
                "budgets", f"must be whole numbers above zero or {DEFAULT_BUDGET}, not {word!r}"
            )
        known = MemoryConfig().context.budget_tokens
        found.add(known if word == DEFAULT_BUDGET else int(word))
    if not found:
        raise InvalidInput("budgets", f"must name one, such as {DEFAULT_BUDGET} or 800,1600")
    return tuple(sorted(found))


def sample(dataset: Dataset, questions: int | None, seed: int) -> Dataset:
    """Return the dataset with the questions that have a gold answer, or as many of them as asked.

    Each category keeps its share, and at least one question. The same seed draws the same.

    :raises InvalidInput: when no question has a gold answer, or fewer are asked for than categories
    """
    asked = [
        (conversation.id, question)
        for conversation in dataset.conversations
        for question in (*conversation.questions, *conversation.unanswerable)
        if question.has_gold
    ]
    if not asked:
        raise InvalidInput("data", "must have questions with an 'answer' or a 'rubric'")
    kept = asked if questions is None else _stratified(asked, questions, seed)
    wanted = {(name, id(question)) for name, question in kept}
    left_out = {what: n for what, n in dataset.left_out.items() if what != UNANSWERABLE}
    if len(asked) < count_records(dataset):
        left_out["questions without a gold answer"] = count_records(dataset) - len(asked)
    return replace(
        dataset,
        conversations=tuple(_only(found, wanted) for found in dataset.conversations),
        left_out=left_out,
    )


def make_records(
    dataset: Dataset,
    systems: Sequence[ContextSystem],
    *,
    budgets: Sequence[int],
    seed: int = 0,
    embedder: SharedEmbedder | None = None,
    progress: Progress | None = None,
) -> list[Record]:
    """Ask every system for its context to each question, and mix the records.

    `embedder` is the one that the systems share: its cache rests while questions are asked, so that
    the time of a question has the encoding in it.
    """
    drafts: list[Record] = []
    total = count_records(dataset) * len(systems)
    done = 0
    try:
        for conversation in dataset.conversations:
            asked = [*conversation.questions, *conversation.unanswerable]
            given: dict[int, dict[_Context, list[Given]]] = defaultdict(lambda: defaultdict(list))
            for system in systems if asked else ():
                load(system, conversation)
                for place, question in enumerate(asked):
                    at = conversation.asked_at(question)
                    for text, one in _contexts(system, question.text, at, budgets, embedder):
                        memory: Path | None = getattr(system, "memory", None)
                        given[place][text, memory].append(one)
                    done += 1
                    if progress is not None:
                        progress(system.name, done, total)
            drafts += [
                _record(conversation, question, context, by)
                for place, question in enumerate(asked)
                for context, by in given[place].items()
            ]
    finally:
        for system in systems:
            system.close()
    return _mixed(drafts, seed)


def describe(
    dataset: Dataset, systems: Sequence[ContextSystem], embedder: SharedEmbedder | None
) -> dict[str, Any]:
    """Return the head of the report, which is kept beside the records."""
    return {
        "dataset": dataset_json(dataset) | {"questions": count_records(dataset)},
        "labels": dict(dataset.labels),
        "versions": versions(embedder),
        "systems": [system.name for system in systems],
    }


def count_records(dataset: Dataset) -> int:
    """Return how many questions are asked of each system."""
    return dataset.questions + dataset.unanswerable


def opaque_ids(count: int, seed: str, taken: Iterable[str] = ()) -> list[str]:
    """Return different ids that are made by chance alone."""
    chance = random.Random(seed)  # noqa: S311
    known = set(taken)
    found: list[str] = []
    while len(found) < count:
        name = f"{chance.getrandbits(_ID_BITS):010x}"
        if name not in known:
            known.add(name)
            found.append(name)
    return found


def _contexts(
    system: ContextSystem,
    query: str,
    at: datetime,
    budgets: Sequence[int],
    embedder: SharedEmbedder | None,
) -> Iterator[tuple[str, Given]]:
    whole = isinstance(system, WholeHistory)
    for budget in budgets[:1] if whole else budgets:
        started = time.perf_counter()
        with asking(embedder):
            text = system.blocks(query, at, [budget])[0]
        yield (
            text,
            Given(
                system=system.name,
                budget=None if whole else budget,
                tokens=count_tokens(text),
                seconds=time.perf_counter() - started,
            ),
        )


def _record(
    conversation: Conversation, question: Question, context: _Context, given: Sequence[Given]
) -> Record:
    at = conversation.asked_at(question)
    text, memory = context
    return Record(
        id="",
        question=f"(asked on {at:%A}, {at.day} {at:%B %Y}) {' '.join(question.text.split())}",
        context=text,
        asked_at=at,
        conversation=conversation.id,
        category=question.category,
        language=question.language,
        gold=question.answer,
        rubric=question.rubric,
        given=tuple(given),
        memory=None if memory is None else memory.name,
    )


def _mixed(drafts: Sequence[Record], seed: int) -> list[Record]:
    names = opaque_ids(len(drafts), f"records {seed}")
    named = [replace(draft, id=name) for draft, name in zip(drafts, names, strict=True)]
    return sorted(named, key=lambda record: record.id)


def _only(conversation: Conversation, wanted: set[tuple[str, int]]) -> Conversation:
    def is_wanted(question: Question) -> bool:
        return (conversation.id, id(question)) in wanted

    return replace(
        conversation,
        questions=tuple(filter(is_wanted, conversation.questions)),
        unanswerable=tuple(filter(is_wanted, conversation.unanswerable)),
    )


def _stratified(
    asked: Sequence[tuple[str, Question]], wanted: int, seed: int
) -> list[tuple[str, Question]]:
    """Draw from each category in proportion to its size, by largest remainders."""
    groups: dict[str, list[tuple[str, Question]]] = defaultdict(list)
    for one in asked:
        groups[one[1].category].append(one)
    if wanted < len(groups):
        raise InvalidInput("questions", f"must be at least {len(groups)}, one for each category")
    wanted = min(wanted, len(asked))
    exact = {name: wanted * len(found) / len(asked) for name, found in groups.items()}
    counts = {name: max(1, int(share)) for name, share in exact.items()}
    while sum(counts.values()) != wanted:
        step = 1 if sum(counts.values()) < wanted else -1
        free = [n for n in sorted(groups) if 1 <= counts[n] + step <= len(groups[n])]
        best = max(free, key=lambda name: step * (exact[name] - counts[name]))
        counts[best] += step
    chance = random.Random(f"questions {seed}")  # noqa: S311
    return [one for name in sorted(groups) for one in chance.sample(groups[name], counts[name])]
