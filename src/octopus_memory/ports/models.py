"""Ports with one method: models, tokenizers, redactors, the clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ..domain.episode import Summary, Turn
from ..domain.facts import FoundFact

if TYPE_CHECKING:
    from ..domain.text.pii import PiiSpan


class Embedder(Protocol):
    """Texts to unit vectors. Thread-safe and deterministic.

    It may have an attribute `calibration`, a relevance scale fitted for it, and a method `reads`,
    which tells how well it reads a language: "fluent", "glossed" (word for word) or "none". The
    language is Snowball's name, or "chinese" or "other". For one that it cannot read, recall relies
    more on words. Without the method it reads all.
    """

    @property
    def model(self) -> str:
        """The name of the vector space. Vectors of two models are never compared."""

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows, one for each text, in order. Accepts any text, also an empty one.

        :raises EmbedderFailed: when the model cannot be reached; a retry is safe
        """


class Summarizer(Protocol):
    """An episode's turns to a summary and key facts. Thread-safe."""

    @property
    def name(self) -> str:
        """The name recorded with the summary, so that a better summarizer can replace it later."""

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:
        """A summary of at most 2,000 characters, within about `timeout` seconds.

        :raises SummarizerFailed: when the model is slow, down, refuses, or answers malformed; its
            message is logged, so it holds no text of the conversation
        """


class FactSummarizer(Summarizer, Protocol):
    """A summarizer that also finds the standing facts of single turns, without a model."""

    def key_facts(self, turns: Sequence[Turn]) -> Sequence[str]:
        """The key facts of an episode whose summary is somebody else's."""

    def facts(self, turns: Sequence[Turn], before: Turn | None = None) -> Sequence[FoundFact]:
        """The facts that the user states in `turns`, in their order; `before` is the turn before
        them.
        """


class TokenCounter(Protocol):
    def count(self, text: str) -> int:
        """The number of tokens that a model sees in `text`."""


class Analyzer(Protocol):
    """Text to the terms that lexical search compares. Thread-safe."""

    def language_of(self, text: str) -> str:
        """The language that a text is indexed in; cheap, because every turn needs it."""

    def terms(self, text: str, cap: int | None = None, language: str | None = None) -> list[str]:
        """Stemmed words in order, without stopwords. Deterministic.

        In `language`, spaces separate words: the terms of a text are those of its pieces between
        spaces. Without `language`, the language is the text's own. Only the first `cap` characters
        are read; without `cap`, as many as suit a turn.
        """

    def forms(self, text: str, cap: int | None = None) -> list[tuple[str, ...]]:
        """Distinct words of a question, each as the terms it may be indexed under, likeliest first.

        Leaves out stopwords of the question's own language.
        """

    def related(self, term: str) -> Sequence[tuple[str, float]]:
        """Terms that may replace one, with a similarity from 0 to 1; may be empty."""


class Redactor(Protocol):
    """Finds personal data in a text. Thread-safe and deterministic."""

    def find(self, text: str, *, names: Sequence[str] = ()) -> list[PiiSpan]:
        """Spans of personal data in `text`, in order, without overlap. Accepts any text.

        `names` are people known from the conversation, who are found wherever they occur. A
        placeholder such as `[EMAIL]` or `[EMAIL_1]` is never part of a span, nor is U+001E, which
        separates joined texts.
        """


class Clock(Protocol):
    def now(self) -> datetime:
        """The present time, aware, in UTC."""
