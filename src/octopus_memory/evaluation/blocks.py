"""Systems that give a model a text for a question: the product, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

import numpy as np

from ..adapters.tokens import ApproximateCounter
from ..domain.errors import InvalidInput
from .conversation import BenchTurn, Conversation
from .octopus import OctopusSystem
from .suite import Dense, Recency, Scorer
from .systems import SharedEmbedder, ranked_turns

Line = Callable[[BenchTurn], str]
"""Writes a turn as a line of a transcript."""

CONTEXT_SYSTEMS = ("octopus", "packed", "dense", "recent", "whole")

_DEPTH = 100
"""Number of best-ranked turns that are packed."""

count_tokens = ApproximateCounter().count
"""The one counter that every system's budget and cost is counted with."""


class ContextSystem(Protocol):
    """Three methods: `load` a conversation, ask for `blocks` again and again, `close` at the end.

    One object may be loaded with many conversations, one after the other.
    """

    @property
    def name(self) -> str:
        """As it stands in the report."""

    def load(self, turns: Sequence[BenchTurn]) -> None:
        """Forget everything and take in one conversation."""

    def blocks(self, query: str, asked_at: datetime, budgets: Sequence[int]) -> list[str]:
        """Return the text for the model, one for each budget in tokens."""

    def close(self) -> None:
        """Forget everything. Called once, after the last question."""


def make_context_systems(
    names: Sequence[str],
    embedder: SharedEmbedder,
    *,
    dated: bool = False,
    memories: Path | None = None,
) -> list[ContextSystem]:
    """Make systems by name. Those that use the product share one memory, loaded once.

    With `dated` the lines of packed turns begin with their date, as the product's block has dates.
    With `memories`, a folder for the memories that it searches, "octopus+recall" is a system, too.

    :raises InvalidInput: for a name that is none of `CONTEXT_SYSTEMS`
    """
    memory = _LoadedMemory(embedder)
    show = dated_line if dated else line
    return [
        OctopusRecall(embedder, memories)
        if memories is not None and name == OctopusRecall.name
        else _system(name, embedder, memory, show)
        for name in names
    ]


def load(system: ContextSystem, conversation: Conversation) -> None:
    """Load a conversation into a system, and let it forget what the user had forgotten.

    A system without a method `forget` keeps everything.
    """
    system.load(conversation.turns)
    forget: Callable[[str, datetime], None] | None = getattr(system, "forget", None)
    if forget is not None:
        for wish in conversation.forgotten:
            forget(wish.about, wish.at)


def pack(turns: Iterable[BenchTurn], budget: int, show: Line | None = None) -> str:
    """Return whole turns as lines, in order, those that still fit; "speaker: text" by default."""
    show = show or line
    text = ""
    for turn in turns:
        longer = f"{text}\n{show(turn)}" if text else show(turn)
        if count_tokens(longer) <= budget:
            text = longer
    return text


def line(turn: BenchTurn) -> str:
    """Return a turn as a line of a transcript."""
    return f"{turn.name or turn.role}: {turn.text}"


def dated_line(turn: BenchTurn) -> str:
    """Return a turn as a line of a transcript that begins with its date."""
    return f"[{turn.at:%Y-%m-%d}] {line(turn)}"


class _LoadedMemory:
    """Memory that several systems share, so that each conversation is stored once."""

    def __init__(self, embedder: SharedEmbedder) -> None:
        self.octopus = OctopusSystem(embedder)
        self.turns: Mapping[str, BenchTurn] = {}
        self._loaded: Sequence[BenchTurn] | None = None
        self._forgotten: set[str] = set()

    def load(self, turns: Sequence[BenchTurn]) -> None:
        if turns is self._loaded:
            return
        self.close()
        self.octopus.add(turns)
        self.turns = {turn.id: turn for turn in turns}
        self._loaded = turns
        self._forgotten.clear()

    def forget(self, about: str, at: datetime) -> None:
        """Forget once, although several systems that share the memory ask for it."""
        if about not in self._forgotten:
            self._forgotten.add(about)
            self.octopus.forget(about, at)

    def close(self) -> None:
        self.octopus.reset()
        self._loaded = None


class OctopusBlocks:
    """The product's own block, with its defaults."""

    name = "octopus"

    def __init__(self, memory: _LoadedMemory) -> None:
        self._memory = memory

    def load(self, turns: Sequence[BenchTurn]) -> None:
        self._memory.load(turns)

    def forget(self, about: str, at: datetime) -> None:
        self._memory.forget(about, at)

    def blocks(self, query: str, asked_at: datetime, budgets: Sequence[int]) -> list[str]:
        return [self._memory.octopus.context(query, asked_at, budget) for budget in budgets]

    def close(self) -> None:
        self._memory.close()


class OctopusRecall:
    """The product's own block, and its recall as a tool that the reader may call.

    Each conversation is kept in a file of `folder`, because the reader calls the tool later.
    """

    name = "octopus+recall"

    def __init__(self, embedder: SharedEmbedder, folder: Path) -> None:
        self.memory: Path | None = None
        """File of the conversation that is loaded."""
        self._embedder = embedder
        self._folder = folder
        self._octopus = OctopusSystem(embedder)
        self._loaded = 0

    def load(self, turns: Sequence[BenchTurn]) -> None:
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._loaded += 1
        self.memory = self._folder / f"{self._loaded}.db"
        self._octopus = OctopusSystem(self._embedder, file=self.memory)
        self._octopus.add(turns)

    def forget(self, about: str, at: datetime) -> None:
        self._octopus.forget(about, at)

    def blocks(self, query: str, asked_at: datetime, budgets: Sequence[int]) -> list[str]:
        return [self._octopus.context(query, asked_at, budget) for budget in budgets]

    def close(self) -> None:
        self._octopus.reset()


class PackedTurns:
    """The turns that the product's `recall_turns` ranks first, packed in that order."""

    name = "packed"

    def __init__(self, memory: _LoadedMemory, show: Line) -> None:
        self._memory = memory
        self._show = show

    def load(self, turns: Sequence[BenchTurn]) -> None:
        self._memory.load(turns)

    def forget(self, about: str, at: datetime) -> None:
        self._memory.forget(about, at)

    def blocks(self, query: str, asked_at: datetime, budgets: Sequence[int]) -> list[str]:
        hits = self._memory.octopus.search_turns(query, asked_at, _DEPTH)
        best = [self._memory.turns[name] for name in ranked_turns(hits)]
        return [pack(best, budget, self._show) for budget in budgets]

    def close(self) -> None:
        self._memory.close()


class ScoredTurns:
    """The turns that one scorer ranks first, packed in that order."""

    def __init__(self, name: str, scorer: Scorer, show: Line, depth: int | None = None) -> None:
        self.name = name
        self._scorer = scorer
        self._show = show
        self._depth = depth
        self._turns: Sequence[BenchTurn] = ()

    def load(self, turns: Sequence[BenchTurn]) -> None:
        self._turns = turns
        self._scorer.fit(turns)

    def blocks(
        self,
        query: str,
        asked_at: datetime,  # noqa: ARG002
        budgets: Sequence[int],
    ) -> list[str]:
        order = np.argsort(-self._scorer.score(query), kind="stable")[: self._depth].tolist()
        best = [self._turns[place] for place in order]
        return [pack(best, budget, self._show) for budget in budgets]

    def close(self) -> None:
        self._turns = ()


class WholeHistory:
    """Everything that was said, whatever the budget: the most that a block can hold."""

    name = "whole"

    def __init__(self, show: Line) -> None:
        self._text = ""
        self._show = show

    def load(self, turns: Sequence[BenchTurn]) -> None:
        self._text = "\n".join(map(self._show, turns))

    def blocks(
        self,
        query: str,  # noqa: ARG002
        asked_at: datetime,  # noqa: ARG002
        budgets: Sequence[int],
    ) -> list[str]:
        return [self._text for _ in budgets]

    def close(self) -> None:
        self._text = ""


def _system(
    name: str, embedder: SharedEmbedder, memory: _LoadedMemory, show: Line
) -> ContextSystem:
    match name:
        case "octopus":
            return OctopusBlocks(memory)
        case "packed":
            return PackedTurns(memory, show)
        case "dense":
            return ScoredTurns(name, Dense(embedder), show)
        case "recent":
            return ScoredTurns(name, Recency(), show)
        case "whole":
            return WholeHistory(show)
        case _:
            raise InvalidInput("systems", f"{name!r} is none of {', '.join(CONTEXT_SYSTEMS)}")
