"""Query analysis: terms, text to embed, speaker, time window and order of a question.

A question may spell a name otherwise than the conversation: "Mohammed" for "Muhamad". Two names are
taken for one if they have the same consonants in the same order, because people who hear a name
mostly guess its vowels and doubled letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .bm25 import QueryTerms
from .features import RowFeatures
from .languages import CHINESE, OTHER, Reading, language_of
from .question_kind import Question, asks_assistant, asks_time, read_question
from .temporal import MONTHS, WEEKDAYS, DateWindow, Order, order_cue
from .terms import bare, fold

QUERY_CAP = 2_000
"""Maximum characters of a question that are used."""

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"['’]s?$")
_MOST_TERMS_WITH_RELATED = 12


class _Analyzer(Protocol):
    def language_of(self, text: str) -> str: ...

    def terms(
        self, text: str, cap: int | None = None, language: str | None = None
    ) -> list[str]: ...

    def forms(self, text: str, cap: int | None = None) -> list[tuple[str, ...]]: ...


class _Hasher(Protocol):
    def number(self, term: str) -> int: ...

    def numbers(self, terms: Iterable[str]) -> NDArray[np.uint32]: ...


class QueryPlan(NamedTuple):
    question: Question
    embed_text: str
    """The question with "you" for participants' names, which tell nothing about the subject."""
    terms: QueryTerms
    speaker: int | None = None
    """Number of the participant that the question names first; None if it names none."""
    only_speaker: bool = True
    """False if it names several participants."""
    window: DateWindow | None = None
    order: Order = Order.NONE
    asks_time: bool = False
    reading: Reading = Reading.FLUENT
    """Skill of the embedder in the question's language."""
    asks_assistant: bool = False
    """True if it asks for something the assistant said."""

    def narrowed(self, rows: RowFeatures) -> QueryPlan:
        """The plan with the latest of several times that the question may name, such as the March
        of each year, of which anything is stored.
        """
        window = self.window
        if window is None or len(window.spans) == 1:
            return self
        spans = [each for each in window.spans if _has_rows(replace(window, spans=(each,)), rows)]
        window = replace(window, spans=tuple(spans or window.spans)[-1:])
        return self._replace(window=window, question=self.question._replace(window=window))


def _has_rows(window: DateWindow, rows: RowFeatures) -> bool:
    return bool(window.covers(rows.time, rows.told).any())


def plan_query(
    text: str,
    *,
    asked_at: datetime,
    analyzer: _Analyzer,
    hasher: _Hasher,
    speakers: Sequence[Sequence[int]] = (),
    related: Callable[[str], Sequence[tuple[str, float]]] | None = None,
    reads: Callable[[str], Reading] = lambda _: Reading.FLUENT,
) -> QueryPlan:
    """Analyze a question.

    :param speakers: hashed words of the participants' names, by their numbers in the rows
    :param related: gives related terms of a term, with their similarity
    :param reads: tells how well the embedder reads a language
    """
    text = text[:QUERY_CAP]
    language = language_of(text, analyzer.language_of)
    stemmed = None if language in (CHINESE, OTHER) else language
    question = read_question(
        text, language, asked_at, lambda rest: analyzer.terms(rest, QUERY_CAP, stemmed)
    )
    spoken = _names_out(question.about, analyzer, hasher, speakers)
    words = analyzer.forms(spoken.without, cap=QUERY_CAP)
    return QueryPlan(
        question=question,
        embed_text=spoken.as_you,
        terms=_query_terms(words, hasher, related),
        speaker=spoken.named[0] if spoken.named else None,
        only_speaker=len(spoken.named) < 2,
        window=question.window,
        order=order_cue(question.times) if question.times else Order.NONE,
        asks_time=asks_time(text, language),
        reading=reads(language),
        asks_assistant=asks_assistant(text, language),
    )


class _Spoken(NamedTuple):
    """A question without participants' names, and the numbers of those named, in order."""

    as_you: str
    without: str
    named: list[int]


def _names_out(
    text: str, analyzer: _Analyzer, hasher: _Hasher, speakers: Sequence[Sequence[int]]
) -> _Spoken:
    if not speakers:
        return _Spoken(text, text, [])
    whose = {word: number for number, name in enumerate(speakers) for word in name}
    named: dict[int, None] = {}
    as_you: list[str] = []
    without: list[str] = []
    end = 0
    for found in _WORD.finditer(text):
        who = whose.get(hasher.number(bare(found[0].casefold())))
        if who is None or not _may_be_name(found[0], analyzer):
            continue
        between = text[end : found.start()]
        # "Ann Lee" is one person: one "you" for both words.
        if between.strip() or who not in named or not as_you:
            as_you += [between, "your" if _POSSESSIVE.search(found[0]) else "you"]
        without.append(between)
        named[who] = None
        end = found.end()
    rest = "".join([*without, text[end:]])
    if not any(map(str.isalnum, rest)):
        return _Spoken(text, text, list(named))
    return _Spoken("".join([*as_you, text[end:]]), rest, list(named))


def _may_be_name(said: str, analyzer: _Analyzer) -> bool:
    """False for lower-case stopwords: "will" and "may" are names only with a capital letter."""
    return said[0].isupper() or bool(analyzer.terms(said))


def _query_terms(
    words: Sequence[tuple[str, ...]],
    hasher: _Hasher,
    related: Callable[[str], Sequence[tuple[str, float]]] | None,
) -> QueryTerms:
    """Hashed query terms; `words` holds the forms of each word, the likeliest first."""
    terms = [forms[0] for forms in words]
    line = list(range(len(words)))
    for i, (_, *others) in enumerate(words):
        terms += others
        line += [i] * len(others)
    forms, near = len(terms), [1.0] * len(terms)
    if related is not None and len(words) <= _MOST_TERMS_WITH_RELATED:
        for i, pairs in enumerate(related(first) for first, *_ in words):
            if pairs:
                others_near, nearness = zip(*pairs, strict=True)
                terms += others_near
                line += [i] * len(pairs)
                near += nearness
    return QueryTerms(
        hasher.numbers(terms),
        len(words),
        forms,
        np.array(line, np.intp),
        np.array(near, np.float32),
    )


_NAME = re.compile(r"[^\W\d_]{4,}")
_SAME_SOUND = str.maketrans({"c": "k", "q": "k", "z": "s", "y": "", "w": "", "h": ""})
_VOWELS = re.compile(r"[aeiou]")
_REPEATED = re.compile(r"(.)\1+")
_LEAST_CONSONANTS = 2
_NO_NAMES = frozenset((*MONTHS, *WEEKDAYS))


def respell(text: str, names: Iterable[str]) -> str:
    """The text with misspelt names of these people as they are spelled in the conversation.

    Only capitalized words are taken for names.
    """
    words = {word for name in names for word in _NAME.findall(name)}
    known = {word.casefold() for word in words}
    by_sound: dict[str, set[str]] = {}
    for word in words:
        by_sound.setdefault(_sound(word), set()).add(word)

    def spelled(found: re.Match[str]) -> str:
        said = found[0]
        if not said[0].isupper() or said.casefold() in known | _NO_NAMES:
            return said
        alike = by_sound.get(_sound(said), set())
        return next(iter(alike)) if len(alike) == 1 else said

    return _NAME.sub(spelled, text)


def _sound(name: str) -> str:
    """The first letter and the consonants; unique to the name if these are too few."""
    folded = fold(name.casefold()).replace("ph", "f")
    consonants = _REPEATED.sub(r"\1", _VOWELS.sub("", folded.translate(_SAME_SOUND)))
    return consonants if len(consonants) >= _LEAST_CONSONANTS else f"={folded}"
