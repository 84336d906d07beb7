"""Word-for-word English of a text in another language, for a model that knows only English.

The lists in `words/glosses` were written for Octopus. A multilingual model understands more, but is
a download of hundreds of megabytes, and these lists are part of the package.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

import Stemmer

from ...domain.search.languages import (
    CHINESE,
    OTHER,
    SHORTEST_MODIFIER,
    cuts,
    evidence,
    guess,
    is_chinese,
    is_latin,
)
from ...domain.search.terms import fold_case
from ...words import FOLDER

LANGUAGES = frozenset(("german", "french", "spanish", CHINESE))
"""Languages with a word list."""

VERSION = 1
"""Increase it when a list changes, so that stored texts are embedded again."""

_TELLING_CHARS = 240
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]+")
_ELISION = re.compile(r"(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu)'(?=[^\W\d_])")
"""Elided articles and pronouns before French words."""
_LONGEST_HAN = 6
_SHORTEST_HEAD = 4
_LONGEST_COMPOUND = 40


def in_english(text: str) -> str:
    """The text word for word in English; unchanged if it is English or in an unknown language.

    Words that are not listed stay, because most of them are names.
    """
    language = _language_of(text[:_TELLING_CHARS])
    if language == CHINESE:
        return _HAN.sub(_of_chinese, text)
    if language not in LANGUAGES:
        return text
    glosses = _glosses(language)
    # A new stemmer for each text, because a stemmer is not thread-safe.
    stem = Stemmer.Stemmer(language, 0).stemWord
    # Composed, because an accent of its own ends a word.
    composed = unicodedata.normalize("NFC", text)
    return _WORD.sub(lambda found: glosses.of(found[0], stem), composed)


def _language_of(text: str) -> str:
    if is_latin(text):
        return guess(sum(map(evidence, text.split())))
    return CHINESE if is_chinese(text) else OTHER


class _Glosses(NamedTuple):
    """Glosses of a language that is written in Latin letters."""

    language: str
    words: dict[str, str]
    stems: dict[str, str]
    """By stem, that of the most frequent word which has it."""

    def of(self, written: str, stem: Callable[[str], str]) -> str:
        """Gloss of a word, or the word itself if it is not listed."""
        word = fold_case(written, len(written)).replace("’", "'")
        before = ""
        if self.language == "french" and word not in self.words:
            elided = _ELISION.match(word)
            if elided:
                before = self.words.get(elided[0], "") + " "
                written = word = word[elided.end() :]
        gloss = self._listed(word, stem)
        if gloss is None and self.language == "german":
            gloss = self._compound(word, stem)
        return before + (written if gloss is None else gloss)

    def _listed(self, word: str, stem: Callable[[str], str]) -> str | None:
        gloss = self.words.get(word)
        return self.stems.get(stem(word)) if gloss is None else gloss

    def _compound(self, word: str, stem: Callable[[str], str]) -> str | None:
        """Glosses of the parts of a German compound; None unless all are listed."""
        if len(word) > _LONGEST_COMPOUND:
            return None
        # By length of a beginning, so that no part is split twice.
        glosses: dict[int, str | None] = {}
        for end in range(SHORTEST_MODIFIER, len(word) + 1):
            part = word[:end]
            glosses[end] = self.words.get(part) or self._joined(part, glosses, stem)
        return glosses.get(len(word))

    def _joined(
        self, word: str, beginnings: Mapping[int, str | None], stem: Callable[[str], str]
    ) -> str | None:
        """Gloss of a listed head after one of the `beginnings`, the longest head first."""
        for head, before in cuts(word, _SHORTEST_HEAD):
            modifier = next(filter(None, map(beginnings.get, map(len, before))), None)
            gloss = modifier and self._listed(head, stem)
            if gloss:
                return f"{modifier} {gloss}"
        return None


def _of_chinese(found: re.Match[str]) -> str:
    """Glosses of a run of characters, which is split by the longest listed words."""
    words, run = _listed(CHINESE), found[0]
    glosses: list[str] = []
    start = 0
    while start < len(run):
        ends = range(min(len(run), start + _LONGEST_HAN), start, -1)
        end = next((end for end in ends if run[start:end] in words), start + 1)
        glosses.append(words.get(run[start:end], run[start:end]))
        start = end
    return f" {' '.join(filter(None, glosses))} "


@cache
def _glosses(language: str) -> _Glosses:
    words = _listed(language)
    stems: dict[str, str] = {}
    for stem, gloss in zip(
        Stemmer.Stemmer(language, 0).stemWords(list(words)), words.values(), strict=True
    ):
        stems.setdefault(stem, gloss)
    return _Glosses(language, words, stems)


@cache
def _listed(language: str) -> dict[str, str]:
    """Glosses by word, most frequent words first. Pure grammar has an empty gloss."""
    text = (FOLDER / "glosses" / f"{language}.tsv").read_text("utf-8")
    lines = fold_case(text, len(text)).splitlines()
    return dict(line.split("\t") for line in lines)
