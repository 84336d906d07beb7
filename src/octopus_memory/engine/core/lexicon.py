"""Terms and flags of texts for lexical search, cached by word because most words repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import chain

from ...domain.episode import Scope
from ...domain.search.languages import language_of
from ...domain.search.row_format import TermHasher, pack_told
from ...domain.search.temporal import told_spans
from ...domain.search.terms import (
    SUMMARY_CAP,
    TEXT_CAP,
    Flag,
    Memo,
    WordMemo,
    shape_flags,
    word_flags,
)
from ...domain.search.time_phrases import times_in_english
from ...ports.models import Analyzer
from ...ports.values import Lexical

_MOST = 32_768
_MOST_LANGUAGES = 64

_FLAGS = {f" {flag.name}": int(flag) for flag in (Flag.NUMBER, Flag.TIME)}
"""Flags of a word, cached among its terms; the space keeps them apart from real terms."""


class Lexicon:
    """Maps words to their terms and flags, by language. Thread-safe.

    Terms are the same in every scope. Their digests differ by scope and are not cached, because
    computing them is cheaper than a cache for thousands of users.
    """

    def __init__(self, analyzer: Analyzer, hasher: Callable[[Scope], TermHasher]) -> None:
        self._analyzer = analyzer
        self._hasher = hasher
        self._known = Memo(self._known_in, most=_MOST_LANGUAGES)

    def turn(self, scope: Scope, text: str, name: str | None, at: datetime) -> Lexical:
        text, hasher = text.strip(), self._hasher(scope)
        counts, flags = self._counts(text[:TEXT_CAP])
        speaker = hasher.pack_words(name.casefold().split()) if name else b""
        told = self.told(text, at) if flags else 0
        return Lexical(hasher.pack(counts), speaker, flags | shape_flags(text), told)

    def told(self, text: str, at: datetime) -> int:
        """Pack the times that a turn of this time tells of."""
        text = text[:TEXT_CAP]
        language = language_of(text, self._analyzer.language_of)
        times = times_in_english(text, language)
        return pack_told(told_spans(times, at)) if times else 0

    def summary(self, scope: Scope, text: str, *, own_words: bool) -> Lexical:
        """Make a summary's lexical row, of its whole text, where a turn's is capped.

        A summary with `own_words` is searched beside the turns, not only in place of them.
        """
        counts, _ = self._counts(text[:SUMMARY_CAP])
        flags = int(Flag.OWN_WORDS) if own_words else 0
        return Lexical(terms=self._hasher(scope).pack(counts), flags=flags)

    def clear_cache(self) -> None:
        self._known.clear()

    def _counts(self, text: str) -> tuple[Counter[str], int]:
        """Count the terms of a text, and collect the flags of its words."""
        known = self._known[self._analyzer.language_of(text)]
        counts = Counter(chain.from_iterable(map(known.__getitem__, text.split())))
        flags = 0
        for mark, flag in _FLAGS.items():
            if counts.pop(mark, 0):
                flags |= flag
        return counts, flags

    def _known_in(self, language: str) -> WordMemo[tuple[str, ...]]:
        return WordMemo(partial(self._learn, language), most=_MOST)

    def _learn(self, language: str, word: str) -> tuple[str, ...]:
        found = word_flags(word)
        flags = [mark for mark, flag in _FLAGS.items() if flag & found]
        return (*self._analyzer.terms(word, len(word), language), *flags)
