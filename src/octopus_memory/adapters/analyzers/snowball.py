"""Stemming by the Snowball algorithms, with PyStemmer.

The script of a word determines its stemmer. For Latin script, the detected language of the text
does. A question's words are looked up in the stems of all these languages, so that a wrong guess
does no harm, and turns that were indexed before languages were detected are found.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import cache, lru_cache, partial

import Stemmer

from ...domain.errors import InvalidSetting
from ...domain.search import languages
from ...domain.search.languages import characters, pieces_sought, stopwords
from ...domain.search.terms import (
    TEXT_CAP,
    WordMemo,
    bare,
    fold,
    fold_case,
    has_unspaced,
    pieces,
    words_in,
)
from . import concepts as related_words
from .concepts import Concepts

_CACHED_WORDS = 50_000
_CACHED_FORMS = 4_096
_LONGEST_WORD = 40
_TELLING_CHARS = 240
_AROUND_WORDS = ".,:;?!()[]\"'*-"
"""Punctuation around words; stripping it first raises the cache's hit rate."""
_BY_SCRIPT = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u04ff", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)
_MARK = {"english": "", "german": "de:", "french": "fr:", "spanish": "es:"}
"""Prefix of a language's stems, so that stems of two languages do not collide.

English has none, because older versions indexed all Latin words without a prefix.
"""
_ELISION = re.compile(r"(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu)'(?=[^\W\d_]{2})")
"""Elided articles and pronouns before French and Italian words."""


class SnowballAnalyzer:
    """Splits text into stems, without stopwords.

    `language` is the fallback for Latin text whose language is not detected. If it is not English,
    it is used for all Latin text.
    """

    def __init__(self, language: str = "english") -> None:
        self._known = frozenset(Stemmer.algorithms())
        if language not in self._known:
            raise InvalidSetting("language", f"must be one of {', '.join(sorted(self._known))}")
        self._language = language
        self._marks = _MARK if language == "english" else {language: ""}
        self._local = threading.local()
        self._told = WordMemo(languages.evidence, most=_CACHED_WORDS)
        self._of_word = {
            each: WordMemo(partial(self._terms_of, each), most=_CACHED_WORDS)
            for each in self._marks
        }
        self._forms_of = {
            each: WordMemo(partial(self._forms, each), most=_CACHED_FORMS) for each in self._marks
        }
        self.related = lru_cache(maxsize=_CACHED_FORMS)(self._related)

    def language_of(self, text: str) -> str:
        """Detected language of a text, or the fallback."""
        return languages.guess(self._evidence(text), self._language)

    def _evidence(self, text: str) -> int:
        if len(self._marks) == 1:
            return 0
        # The beginning of a text is enough.
        return sum(map(self._told.__getitem__, text[:_TELLING_CHARS].split()))

    def terms(self, text: str, cap: int | None = None, language: str | None = None) -> list[str]:
        cap = TEXT_CAP if cap is None else cap
        of_word = self._of_word[language or self.language_of(text[:cap])]
        # Splitting at spaces is far cheaper than tokenizing the whole text.
        spaced = fold_case(text, cap).split()
        return [term for piece in spaced for term in of_word[piece.strip(_AROUND_WORDS)]]

    def forms(self, text: str, cap: int | None = None) -> list[tuple[str, ...]]:
        """For each distinct word of a question, the terms it may be indexed as, likeliest first."""
        cap = TEXT_CAP if cap is None else cap
        evidence = self._evidence(text[:cap])
        of_word = self._forms_of[languages.guess(evidence, self._language)]
        # If the language of a few keywords is not detected, use for each a language that has it.
        is_detected = bool(evidence) or len(self._marks) == 1
        found: dict[str, dict[str, None]] = {}
        for word in words_in(fold_case(text, cap)):
            for forms in of_word[word]:
                first, *others = forms if is_detected else sorted(forms, key=self._is_unrelated)
                found.setdefault(first, {}).update(dict.fromkeys(others))
        return [tuple(dict.fromkeys((first, *others))) for first, others in found.items()]

    def stems(self, words: Sequence[str], latin: str) -> list[str]:
        """Terms of words of one language that is written in Latin letters."""
        if latin == "french":
            words = [word.replace("œ", "oe") for word in words]
        mark = self._marks[latin]
        return [mark + fold(stem) for stem in self._stemmer(latin).stemWords(words)]

    def clear_cache(self) -> None:
        """Drop cached words, which may come from erased text."""
        self._told.clear()
        for known in self._of_word.values():
            known.clear()
        if related_words.english.cache_info().currsize:
            related_words.english().of.cache_clear()
        if _concepts.cache_info().currsize:
            _concepts().of.cache_clear()
        self.related.cache_clear()
        for forms in self._forms_of.values():
            forms.clear()

    def _related(self, term: str) -> tuple[tuple[str, float], ...]:
        """Related terms of a term, with their similarity, 0 to 1."""
        if len(self._marks) == 1:
            return ()
        listed = _concepts().of(term)
        if _is_english(term):
            # English has its own table: of the concepts, add only terms of other languages.
            listed = tuple(pair for pair in listed if _is_marked(pair[0]))
        return (*related_words.english().of(term), *listed)

    def _terms_of(self, language: str, piece: str) -> tuple[str, ...]:
        return tuple(term for word in words_in(piece) for term in self._stems(word, language))

    def _stems(self, word: str, language: str) -> Sequence[str]:
        word = bare(word)
        if not word or self._says_nothing(word, language):
            return ()
        word = word[:_LONGEST_WORD]
        if has_unspaced(word):
            return [
                *(self._stem(piece, language) for piece in pieces(word)),
                *characters(word),
            ]
        stem = self._stem(_without_elision(word, language), language)
        return (stem, *_concepts().parts(stem)) if stem.startswith(_MARK["german"]) else (stem,)

    def _is_unrelated(self, term: str) -> bool:
        return not self.related(term)

    def _forms(self, language: str, word: str) -> list[tuple[str, ...]]:
        word = bare(word)[:_LONGEST_WORD]
        if not word or self._says_nothing(word, language):
            return []
        if has_unspaced(word):
            return [
                tuple(self._stem(form, language) for form in forms) for forms in pieces_sought(word)
            ]
        others = [each for each in self._marks if each != language]
        # Remove the elision in every language, because a text may have the word with or without.
        bared = word if len(self._marks) == 1 else _ELISION.sub("", word, count=1)
        alike = [
            self._stem(form, each)
            for form in dict.fromkeys((_without_elision(word, language), bared, word))
            for each in (language, *others)
            if form not in stopwords().get(each, ())
        ]
        return [tuple(alike)]

    def _says_nothing(self, word: str, language: str) -> bool:
        ignored = stopwords().get(language, frozenset())
        return word in ignored or _without_elision(word, language) in ignored

    def _stem(self, word: str, latin: str) -> str:
        language = _language_of(word, latin)
        if language not in self._known or not word[0].isalpha():
            return fold(word)
        if language == "french":
            word = word.replace("œ", "oe")
        stem = fold(self._stemmer(language).stemWord(word))
        return self._marks[language] + stem if language == latin else stem

    def _stemmer(self, language: str) -> Stemmer.Stemmer:
        """The stemmer of the current thread, because a stemmer is not thread-safe."""
        stemmer = getattr(self._local, language, None)
        if stemmer is None:
            stemmer = Stemmer.Stemmer(language, 0)
            setattr(self._local, language, stemmer)
        return stemmer


@cache
def _concepts() -> Concepts:
    """The concepts, read on first use."""
    return Concepts.read(SnowballAnalyzer().stems)


def _is_english(term: str) -> bool:
    return term.isascii() and not _is_marked(term)


def _is_marked(term: str) -> bool:
    """True if a term is of another language than English."""
    return not term.isascii() or term[2:3] == ":"


def _without_elision(word: str, language: str) -> str:
    """A French word without an elided article or pronoun: "adresse" for "l'adresse"."""
    return _ELISION.sub("", word, count=1) if language == "french" and "'" in word else word


def _language_of(word: str, latin: str) -> str:
    first = word[0]
    for start, end, language in _BY_SCRIPT:
        if start <= first <= end:
            return language
    return latin
