"""Systems that give a model a text for a question: the product, and what it is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import numpy as np

from ..adapters.tokens.approximate import ApproximateCounter
from ..domain.errors import InvalidInput
from .baselines import Dense, Recency, Scorer
from .conversation import BenchTurn
from .embedding import SharedEmbedder
from .octopus import OctopusSystem
from .systems import ranked_turns

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


def make_context_systems(names: Sequence[str], embedder: SharedEmbedder) -> list[ContextSystem]:
    """Make systems by name. Those that use the product share one memory, loaded once.

    :raises InvalidInput: for a name that is none of `CONTEXT_SYSTEMS`
    """
    memory = _LoadedMemory(embedder)
    return [_system(name, embedder, memory) for name in names]


def pack(turns: Iterable[BenchTurn], budget: int) -> str:
    """Return whole turns as "speaker: text" lines, in order, those that still fit."""
    text = ""
    for turn in turns:
        longer = f"{text}\n{line(turn)}" if text else line(turn)
        if count_tokens(longer) <= budget:
            text = longer
    return text


def line(turn: BenchTurn) -> str:
    """Return a turn as a line of a transcript."""
    return f"{turn.name or turn.role}: {turn.text}"


class _LoadedMemory:
    """Memory that several systems share, so that each conversation is stored once."""

    def __init__(self, embedder: SharedEmbedder) -> None:
        self.octopus = OctopusSystem(embedder)
        self.turns: Mapping[str, BenchTurn] = {}
        self._loaded: Sequence[BenchTurn] | None = None

    def load(self, turns: Sequence[BenchTurn]) -> None:
        if turns is self._loaded:
            return
        self.close()
        self.octopus.add(turns)
        self.turns = {turn.id: turn for turn in turns}
        self._loaded = turns

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

    def blocks(self, query: str, asked_at: datetime, budgets: Sequence[int]) -> list[str]:
        return [self._memory.octopus.context(query, asked_at, budget) for budget in budgets]

    def close(self) -> None:
        self._memory.close()


class PackedTurns:
    """The turns that the product's `recall_turns` ranks first, packed in that order."""

    name = "packed"

    def __init__(self, memory: _LoadedMemory) -> None:
        self._memory = memory

    def load(self, turns: Sequence[BenchTurn]) -> None:
        self._memory.load(turns)

    def blocks(self, query: str, asked_at: datetime, budgets: Sequence[int]) -> list[str]:
        hits = self._memory.octopus.search_turns(query, asked_at, _DEPTH)
        best = [self._memory.turns[name] for name in ranked_turns(hits)]
        return [pack(best, budget) for budget in budgets]

    def close(self) -> None:
        self._memory.close()


class ScoredTurns:
    """The turns that one scorer ranks first, packed in that order."""

    def __init__(self, name: str, scorer: Scorer, depth: int | None = None) -> None:
        self.name = name
        self._scorer = scorer
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
        return [pack(best, budget) for budget in budgets]

    def close(self) -> None:
        self._turns = ()


class WholeHistory:
    """Everything that was said, whatever the budget: the most that a block can hold."""

    name = "whole"

    def __init__(self) -> None:
        self._text = ""

    def load(self, turns: Sequence[BenchTurn]) -> None:
        self._text = "\n".join(map(line, turns))

    def blocks(
        self,
        query: str,  # noqa: ARG002
        asked_at: datetime,  # noqa: ARG002
        budgets: Sequence[int],
    ) -> list[str]:
        return [self._text for _ in budgets]

    def close(self) -> None:
        self._text = ""


def _system(name: str, embedder: SharedEmbedder, memory: _LoadedMemory) -> ContextSystem:
    match name:
        case "octopus":
            return OctopusBlocks(memory)
        case "packed":
            return PackedTurns(memory)
        case "dense":
            return ScoredTurns(name, Dense(embedder), _DEPTH)
        case "recent":
            return ScoredTurns(name, Recency())
        case "whole":
            return WholeHistory()
        case _:
            raise InvalidInput("systems", f"{name!r} is none of {', '.join(CONTEXT_SYSTEMS)}")
