"""Topic-shift detection: does a message start another subject than the turns before it?

New words and the opening ("Hi there", "Another question") count for a shift; semantic similarity to
the last turns counts against it. The decision needs no language model and no later message.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..words import pattern, sections

LOOK_BACK = 12
"""Maximum number of user and assistant turns that a message is compared with."""

_WINDOW = 4
_LEAST_TURNS = 2
_GROWN_UP = 6
_FEWEST_TERMS = 2
_SUBJECT_TERMS = 4
_MOST_NEW_TERMS = 8
_LEAST_SPAN = 0.05
_HEAD = 120


def reference() -> tuple[list[str], list[str]]:
    """Turns and their answers, to measure an embedder's cosines of related and unrelated texts."""
    texts = sections("openings")["reference"]
    return texts[::2], texts[1::2]


class Opening(Enum):
    """Class of a message's beginning."""

    PLAIN = auto()
    GREETING = auto()
    ANNOUNCED = auto()
    """Announces another subject."""
    REPLY = auto()
    """Refers to the previous message: "And the hotel?", "Yes, but…"."""


def opening(text: str) -> Opening:
    """Classify a message's beginning, in English and a few other languages."""
    head = text[:_HEAD]
    if re.match(rf"(?is){pattern('openings', 'greeting')}", head):
        return Opening.GREETING
    if re.search(rf"(?i){pattern('openings', 'announced')}", head):
        return Opening.ANNOUNCED
    return (
        Opening.REPLY if re.match(rf"(?i){pattern('openings', 'reply')}", head) else Opening.PLAIN
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTurn:
    """Features of a user or assistant turn."""

    terms: frozenset[str]
    opening: Opening
    may_start: bool
    """True if the speaker can start a subject: a user can, an assistant answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftWeights:
    """Weights of the signals, measured by `benchmarks/topic_shift.py`."""

    needed: float = 1.2
    nearness: float = 4.0
    greeting: float = 2.5
    announced: float = 1.0
    reply: float = 1.0
    young: float = 0.5
    """Counts against a shift at the start of an episode; falls to zero after a few turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CosineScale:
    """Typical cosines of one embedder for unrelated and related texts."""

    unrelated: float
    related: float

    @classmethod
    def of(cls, first: NDArray[np.float32], second: NDArray[np.float32]) -> Self:
        """Measure the scale from the vectors of `reference`: its turns and its answers."""
        cosines = first @ second.T
        pairs = len(cosines)
        together = float(np.trace(cosines))
        apart = (float(cosines.sum()) - together) / (pairs * (pairs - 1))
        return cls(unrelated=apart, related=together / pairs)

    def nearness(self, cosine: float) -> float:
        """Map a cosine to 0 for unrelated and 1 for related, whatever the embedder's range."""
        span = self.related - self.unrelated
        if span < _LEAST_SPAN:
            # An embedder that cannot tell them apart must never split an episode.
            return 1.0
        return max(0.0, (cosine - self.unrelated) / span)


def by_words(
    before: Sequence[TopicTurn], new: TopicTurn, weights: ShiftWeights | None = None
) -> float:
    """Score of a shift by words and opening. Unless it is above 0, there is no shift.

    `before` holds the last `LOOK_BACK` user and assistant turns of the episode, in order.
    """
    weights, turns = weights or ShiftWeights(), len(before)
    if not new.may_start or turns < _LEAST_TURNS or not window(before) or not _has_subject(before):
        return -math.inf
    known = frozenset[str]().union(*(before[i].terms for i in window(before)))
    score = math.log1p(min(len(new.terms - known), _MOST_NEW_TERMS)) - weights.needed
    score -= weights.young * max(0.0, (_GROWN_UP - turns) / (_GROWN_UP - _LEAST_TURNS))
    match new.opening:
        case Opening.GREETING if not _answers_greeting(before):
            score += weights.greeting
        case Opening.ANNOUNCED:
            score += weights.announced
        case Opening.REPLY:
            score -= weights.reply
    return score


def window(before: Sequence[TopicTurn]) -> list[int]:
    """Indexes of the turns that a message is compared with: the last few with enough terms."""
    positions = [i for i, turn in enumerate(before) if len(turn.terms) >= _FEWEST_TERMS]
    return positions[-_WINDOW:]


def cohesion(window: NDArray[np.float32], new: NDArray[np.float32]) -> float:
    """Mean cosine of new turns to the window: half to its nearest turn, half to its last.

    `new` holds the message's vector, and its answer's if that is known already.
    """
    cosines = new @ window.T
    return float((cosines.max(axis=1) + cosines[:, -1]).mean()) / 2


def is_shift(words: float, nearness: float, weights: ShiftWeights | None = None) -> bool:
    """True if a message with this `by_words` score and this nearness starts another subject."""
    return words > (weights or ShiftWeights()).nearness * nearness


def _answers_greeting(before: Sequence[TopicTurn]) -> bool:
    """True if a user greeted in the last two turns; an assistant's greeting does not count."""
    return any(turn.opening is Opening.GREETING for turn in before[-2:] if turn.may_start)


def _has_subject(before: Sequence[TopicTurn]) -> bool:
    """False if the turns before are mere greetings, without a subject that could be left."""
    terms = frozenset[str]().union(*(turn.terms for turn in before if turn.may_start))
    return len(terms) >= _SUBJECT_TERMS
