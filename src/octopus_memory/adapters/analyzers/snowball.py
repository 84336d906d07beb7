"""Stemming by the Snowball algorithms, with PyStemmer.

The stemmer is chosen by the word's script, and by the analyzer's language for Latin script: a
question and what it asks about are then always cut alike, whatever language each seems to be in.
"""

from __future__ import annotations

import threading

import Stemmer

from ...domain.errors import InvalidSetting
from ...domain.known import KnownWords
from ...domain.stopwords import STOPWORDS
from ...domain.terms import TEXT_CAP, bare, fold, fold_case, pieces, words_in
from . import related as related_words

_CACHED_WORDS = 50_000
_LONGEST_WORD = 40
_AROUND_WORDS = ".,:;?!()[]\"'*-"
"""What stands at a word's ends and is no part of it, so that fewer are met for the first time."""
_BY_SCRIPT = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)


class SnowballAnalyzer:
    """Words to stems, stopwords left out. `language` is for what is written in Latin letters."""

    def __init__(self, language: str = "english") -> None:
        self._known = frozenset(Stemmer.algorithms())
        if language not in self._known:
            raise InvalidSetting("language", f"must be one of {', '.join(sorted(self._known))}")
        self._language = language
        self._stopwords = STOPWORDS.get(language, frozenset())
        self._local = threading.local()
        self._of_word = KnownWords(self._terms_of, most=_CACHED_WORDS)

    def terms(self, text: str, cap: int | None = None) -> list[str]:
        # Looking up what stands between two spaces is far cheaper than finding words in all of it.
        spaced = fold_case(text, TEXT_CAP if cap is None else cap).split()
        of_word = self._of_word
        return [term for piece in spaced for term in of_word[piece.strip(_AROUND_WORDS)]]

    def related(self, term: str) -> tuple[tuple[str, float], ...]:
        """Terms that may stand for one, with how near each comes, 0 to 1."""
        return related_words.english().of(term) if self._language == "english" else ()

    def forget(self) -> None:
        """Drop the words that were met."""
        self._of_word.clear()
        if related_words.english.cache_info().currsize:
            related_words.english().of.cache_clear()

    def _terms_of(self, piece: str) -> tuple[str, ...]:
        return tuple(term for word in words_in(piece) for term in self._stems(word))

    def _stems(self, word: str) -> tuple[str, ...]:
        word = bare(word)
        if not word or word in self._stopwords:
            return ()
        return tuple(self._stem(piece) for piece in pieces(word[:_LONGEST_WORD]))

    def _stem(self, word: str) -> str:
        language = _language_of(word, self._language)
        if language not in self._known or not word[0].isalpha():
            return fold(word)
        stem: str = self._stemmer(language).stemWord(word)
        return fold(stem)

    def _stemmer(self, language: str) -> Stemmer.Stemmer:
        """One for each thread: a stemmer keeps state while it works."""
        stemmer = getattr(self._local, language, None)
        if stemmer is None:
            stemmer = Stemmer.Stemmer(language, 0)
            setattr(self._local, language, stemmer)
        return stemmer


def _language_of(word: str, latin: str) -> str:
    first = word[0]
    for start, end, language in _BY_SCRIPT:
        if start <= first <= end:
            return language
    return latin
