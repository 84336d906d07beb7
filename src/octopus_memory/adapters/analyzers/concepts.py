"""Related words of everyday life, within and across five languages.

They are listed by concept in `concepts.txt`, which was written for Octopus. German compounds are
also split here, because the same list tells which parts are words.

Related English words, looked up in a precomputed table.

`scripts/build_related_words.py` builds the table with the built-in embedding model, from the words
that are single tokens of the model.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...domain.search.languages import SHORTEST_MODIFIER, characters, cuts
from ...domain.search.terms import fold_case
from ...words import FOLDER, sections

_LANGUAGES = {"en": "english", "de": "german", "fr": "french", "es": "spanish"}
_CHINESE = "zh"
_MARKED = ("de", "fr", "es")
_GERMAN = "de:"
_CACHED = 4_096

# Similarity of related terms: a word of the same concept in the same or another language, the head
# and the modifier of a compound, and a character of a Chinese pair.
_SAME_LANGUAGE = 0.6
_OTHER_LANGUAGE = 0.5
_HEAD, _MODIFIER = 0.8, 0.5
_CHARACTER = 0.4
_OF_A_PART = 0.7
"""Factor of the similarity of terms that are related to a part of a compound."""

_SHORTEST_PART = 4
_SHORTEST_HEAD = 5
"""Minimum length of a head whose modifier is not listed."""
_ENDINGS = ("ung", "ungs")
"""Endings of a modifier that stemming removes."""
_PREFIX_LIST = """
auf aus bei durch ein ent fort her hin hinter los miss mit nach uber unter ver vor wider wieder zer
"""
_PREFIXES = frozenset(_PREFIX_LIST.split())
"""German prefixes: a word that begins with one is not a compound of two nouns."""

Related = tuple[tuple[str, float], ...]
Stem = Callable[[Sequence[str], str], Sequence[str]]
"""Maps words of a language, which is named, to their terms."""


class Concepts:
    """Maps terms to the other terms of their concepts. Thread-safe."""

    def __init__(self, listed: list[dict[str, list[str]]], stem: Stem) -> None:
        """`listed` holds the words of each concept by language; `stem` maps words to terms."""
        self._listed = listed
        self._stem = stem
        known = {language: _terms_of(listed, language, stem) for language in _LANGUAGES}
        self._concepts = [
            {
                language: _pieces(words)
                if language == _CHINESE
                else list(dict.fromkeys(map(known[language].__getitem__, words)))
                for language, words in each.items()
            }
            for each in listed
        ]
        self._having: dict[str, list[tuple[int, str]]] = {}
        for number, concept in enumerate(self._concepts):
            for language, terms in concept.items():
                for term in terms:
                    self._having.setdefault(term, []).append((number, language))
        self._parts = {
            term.removeprefix(_GERMAN)
            for concept in self._concepts
            for term in concept.get("de", ())
            if len(term) >= len(_GERMAN) + _SHORTEST_PART
        }
        self.of = lru_cache(maxsize=_CACHED)(self._of)

    @classmethod
    def read(cls, stem: Stem) -> Self:
        """Read the list from the package data."""
        lines = sections("concepts")[""]
        return cls([_words(fold_case(line, len(line))) for line in lines], stem)

    def parts(self, term: str) -> tuple[str, ...]:
        """Parts of a German compound that are listed words, the head first.

        Empty for a word that is listed itself.
        """
        word = term.removeprefix(_GERMAN)
        if len(word) < SHORTEST_MODIFIER + _SHORTEST_PART or word in self._parts:
            return ()
        for head, before in cuts(word, _SHORTEST_PART, _ENDINGS):
            if head in self._parts and before[0] not in _PREFIXES:
                modifiers = [each for each in before if each in self._parts][:1]
                if modifiers or len(head) >= _SHORTEST_HEAD:
                    return tuple(_GERMAN + part for part in (head, *modifiers))
        return ()

    def _of(self, term: str) -> Related:
        """Distinct related terms, each with its similarity, 0 to 1, most similar first."""
        found: dict[str, float] = {}
        _add(found, self._of_concepts(term))
        if term.startswith(_GERMAN):
            for part, nearness in zip(self.parts(term), (_HEAD, _MODIFIER), strict=False):
                _add(found, ((part, nearness),))
                _add(found, self._of_part(part))
        elif not term.isascii() and len(term) > 1:
            for character in characters(term):
                _add(found, ((character, _CHARACTER),))
                _add(found, self._of_part(character))
        found.pop(term, None)
        return tuple(sorted(found.items(), key=lambda pair: -pair[1]))

    def _of_concepts(self, term: str) -> Iterator[tuple[str, float]]:
        for number, own in self._having.get(term, ()):
            for language, terms in self._concepts[number].items():
                nearness = _SAME_LANGUAGE if language == own else _OTHER_LANGUAGE
                for other in terms:
                    yield other, nearness
            if own in _MARKED:
                # A turn too short to detect its language is indexed as English, as older versions
                # indexed every turn.
                for word in self._stem(self._listed[number][own], _LANGUAGES["en"]):
                    yield word, _SAME_LANGUAGE

    def _of_part(self, part: str) -> Iterator[tuple[str, float]]:
        for term, nearness in self._of_concepts(part):
            if term != part:
                yield term, nearness * _OF_A_PART


def _words(line: str) -> dict[str, list[str]]:
    """Words of a line, by language."""
    found: dict[str, list[str]] = {}
    for part in line.split("|"):
        language, _, listed = part.partition(":")
        # Text is split at hyphens, so a word with one is found by its parts.
        found[language.strip()] = [word.strip() for word in listed.split(",") if "-" not in word]
    return found


def _terms_of(listed: list[dict[str, list[str]]], language: str, stem: Stem) -> dict[str, str]:
    """Terms of all words of a language, in one call, which takes a third of the time."""
    words = list(dict.fromkeys(word for each in listed for word in each.get(language, ())))
    return dict(zip(words, stem(words, _LANGUAGES[language]), strict=True))


def _pieces(words: list[str]) -> list[str]:
    """Same result as `terms.pieces` for Han characters, without its check of the script."""
    pairs = (word[at : at + 2] for word in words for at in range(max(1, len(word) - 1)))
    return list(dict.fromkeys(pairs))


def _add(found: dict[str, float], more: Iterator[tuple[str, float]] | Related) -> None:
    for term, nearness in more:
        found[term] = max(found.get(term, 0.0), nearness)


_TABLE = FOLDER / "related-english.npy"
_NEARNESS = [weight / 255 for weight in range(256)]
"""Similarity by weight in the table; weight 0 is padding at the end of a row."""


class RelatedWords:
    """Maps stems to the most similar stems."""

    def __init__(self, table: NDArray[np.void]) -> None:
        """`table` has one row per stem, in their order."""
        self._table = table
        self._stems: NDArray[np.bytes_] = table["stem"]
        self.of = lru_cache(maxsize=_CACHED)(self._of)

    def _of(self, stem: str) -> tuple[tuple[str, float], ...]:
        """Related stems with their similarity, 0 to 1, most similar first; empty if unknown."""
        known = stem.encode("ascii", "replace")
        # `np.searchsorted` would copy all stems for each look-up.
        at = bisect_left(self._stems, known)
        if self._stems[at : at + 1].tolist() != [known]:
            return ()
        row = self._table[at]
        words = map(bytes.decode, self._stems[row["nearest"]].tolist())
        weights = filter(None, row["weights"].tolist())
        return tuple(zip(words, map(_NEARNESS.__getitem__, weights), strict=False))


@cache
def english() -> RelatedWords:
    """The table of the package data, opened on first use."""
    # Memory-mapped: only rows that are looked up are read.
    return RelatedWords(np.asarray(np.load(_TABLE, mmap_mode="r")))
