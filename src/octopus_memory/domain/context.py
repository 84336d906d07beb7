"""The context that a model is given for one message."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .block.passages import LeftOut, Passage
from .episode import EpisodeSnippet
from .facts import Fact


class QuestionKind(StrEnum):
    """The kind of a message, which decides how the context block is filled."""

    POINT = "point"
    LIST = "list"
    TIME = "time"
    OVERVIEW = "overview"
    SMALL_TALK = "small_talk"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryContext:
    """The messages to send to the model, and the memories they contain.

    `text` is the memory block alone, `messages` the whole list with the block in its place, and
    `tokens` the cost of that list. `facts`, `passages` and `snippets` are shown in the block;
    `left_out` lists candidates that were found and are not shown, each with the reason.
    """

    text: str
    messages: list[Any]
    """Dictionaries in the providers' common format; `Any`, because each provider's types differ."""
    snippets: tuple[EpisodeSnippet, ...]
    """The relevant episodes and last sessions that the block quotes or summarizes."""
    tokens: int
    block_tokens: int
    dropped: int
    """The number of history messages that did not fit."""
    passages: tuple[Passage, ...] = ()
    """Quoted passages, oldest first."""
    facts: tuple[Fact, ...] = ()
    """Standing facts in the block."""
    left_out: tuple[LeftOut, ...] = ()
    kind: QuestionKind = QuestionKind.POINT
    """The kind of question that the message is, which decides how the block is filled."""
    overflow_tokens: int = 0
    """Tokens by which `messages` exceed the limit, because the system prompt, the block and the
    current message alone are too long; 0 if everything fits."""

    def explain(self) -> str:
        """Say in one line what kind of question the message is, what is shown and what is not."""
        shown = [
            _counted(len(self.facts), "fact"),
            _counted(len(self.passages), "passage"),
            _counted(len(self.snippets), "episode"),
        ]
        reasons = Counter(each.reason.value for each in self.left_out)
        cut = ", ".join(f"{count} by {reason}" for reason, count in reasons.most_common())
        text = (
            f"{self.kind.value.replace('_', ' ')}: {', '.join(shown)}, {self.block_tokens} tokens"
        )
        return f"{text}; left out: {cut}" if cut else text


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
