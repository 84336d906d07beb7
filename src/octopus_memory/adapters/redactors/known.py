"""Detector of names that are known already, such as a participant's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ...domain.text.pii import is_placeholder
from .folding import Span
from .names import TOKEN, plain
from .words import PARTICLES, TITLES, also_words, never_names

_PART = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
# Scripts without capital letters and without spaces.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n\x1e\"(][ \t]{0,3})$")
_AS_A_NAME = re.compile(
    r"'s\b|,|[ ](?:and|said|says|told|asked|wants|wanted|needs|needed|called|wrote|has|had)\b"
)
_SHORTEST = 2
_SHORTEST_SMALL = 3


class KnownNames:
    """Finds the words of given names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._words: set[str] = set()
        self._unspaced: set[str] = set()
        self._told: set[str] = set()
        for name in names:
            self.learn(name)

    def learn(self, name: str) -> None:
        if name in self._told or is_placeholder(name):
            return
        self._told.add(name)
        self._unspaced.update(_UNSPACED.findall(name))
        for word in _PART.findall(name.replace("_", " ").replace("\u2019", "'")):
            key = plain(word.removesuffix("'s"))
            if _is_telling(key) and not _UNSPACED.search(word):
                self._words.add(key)

    def find(self, text: str) -> Iterator[Span]:
        """Spans of all whole-word occurrences: `Ana López`, `Ana`, `ana`, the `Ana` of `Ana's`."""
        yield from self._find_unspaced(text)
        if self._words:
            yield from _joined(text, self._find_words(text))

    def _find_words(self, text: str) -> Iterator[Span]:
        for token in TOKEN.finditer(text):
            word = token.group().removesuffix("'s")
            end = token.start() + len(word)
            if plain(word) in self._words and self._is_meant(text, token.start(), end):
                yield token.start(), end

    def _is_meant(self, text: str, start: int, end: int) -> bool:
        if text[start - 1 : start].isalnum() or text[end : end + 1].isdigit():
            return False
        word = text[start:end]
        if plain(word) not in also_words():
            return word[0].isupper() or len(word) >= _SHORTEST_SMALL
        if not word[0].isupper() or word.isupper():
            return False
        # At the start of a sentence a capital tells nothing: "Will you?".
        starts = _SENTENCE_START.search(text[max(0, start - 4) : start])
        return not starts or bool(_AS_A_NAME.match(text, end))

    def _find_unspaced(self, text: str) -> Iterator[Span]:
        for name in self._unspaced:
            yield from (found.span() for found in re.finditer(re.escape(name), text))


def _is_telling(key: str) -> bool:
    ordinary = key in never_names() or key in TITLES or key in PARTICLES
    return len(key) >= _SHORTEST and not ordinary


def _joined(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Adjacent first and last names merged into one span."""
    start = end = -1
    for span in spans:
        gap = text[end : span[0]]
        if end >= 0 and len(gap) <= 9 and _is_gap(gap):
            end = span[1]
            continue
        if end >= 0:
            yield start, end
        start, end = span
    if end >= 0:
        yield start, end


def _is_gap(gap: str) -> bool:
    words = gap.split()
    return gap[:1] == gap[-1:] == " " and all(word in PARTICLES for word in words)
