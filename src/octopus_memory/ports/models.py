"""The one-method ports: what the engine asks of a model, a tokenizer or a clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ..domain.episode import Summary, Turn

if TYPE_CHECKING:
    from ..domain.text.pii import PiiSpan


class Embedder(Protocol):
    """Texts to unit vectors. Thread-safe; the same text always gives the same vector.

    It may have two attributes more: `calibration`, a scale of relevance that was fitted for it, and
    `language`, the only language it knows, by Snowball's name. For a question in another language
    recall then goes more by words.
    """

    @property
    def model(self) -> str:
        """Names the vector space. Vectors of two models are never compared."""

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit row a text, in order; any text is taken, the empty one too.

        :raises EmbedderFailed: when the model cannot be reached; trying again is safe
        """


class Summarizer(Protocol):
    """An episode's turns to a summary and key facts. Thread-safe."""

    @property
    def name(self) -> str:
        """Recorded with the summary, so that a better one can replace it later."""

    def summarize(self, turns: Sequence[Turn], *, timeout: float) -> Summary:
        """At most 2,000 characters of summary, in about `timeout` seconds at the most.

        :raises SummarizerFailed: for every way a model can fail: slow, down, refusing, malformed
        """


class TokenCounter(Protocol):
    def count(self, text: str) -> int:
        """How many tokens a model sees in `text`."""


class Analyzer(Protocol):
    """Text to the terms that lexical search compares. Thread-safe."""

    def language_of(self, text: str) -> str:
        """The language that a text is indexed in; cheap, because every turn is asked for it."""

    def terms(self, text: str, cap: int | None = None, language: str | None = None) -> list[str]:
        """Stemmed words in order, stopwords left out; the same text always gives the same.

        In `language` a space ends a word: a text's terms are those of the pieces between its
        spaces. Without it the language is the text's own. Only the first `cap` characters are
        read: without it, as many as suit a turn.
        """

    def forms(self, text: str, cap: int | None = None) -> list[tuple[str, ...]]:
        """Each of a question's words once, as the terms it may be indexed under, likeliest first.

        Words that say nothing in the question's own language are left out.
        """

    def related(self, term: str) -> Sequence[tuple[str, float]]:
        """Terms that may stand for one, with how near each comes, 0 to 1; none is a fine answer."""


class Redactor(Protocol):
    """Finds personal data in a text. Thread-safe; the same call always gives the same spans."""

    def find(self, text: str, *, names: Sequence[str] = ()) -> list[PiiSpan]:
        """Where personal data stands in `text`, in order and without overlap; any text is taken.

        `names` are people already known in the conversation: they are found wherever they occur.
        A placeholder such as `[EMAIL]` or `[EMAIL_1]` is never part of a span, nor is U+001E, which
        parts texts that were joined.
        """


class Clock(Protocol):
    def now(self) -> datetime:
        """The present time, aware, in UTC."""
