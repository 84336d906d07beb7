"""Decides which sentences a wish to forget is about.

A clear match has the words of the topic itself: "my mum's diabetes" matches "Mom was diagnosed with
diabetes", and "her diabetes" where she is spoken of. A related word ("insulin") makes a weak match
only, which is shown and not removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import NamedTuple, Protocol

from ..words import listed, pattern, sections
from .search.languages import stopwords
from .search.terms import bare, fold, fold_case, has_unspaced, words_in

_LEAST = 0.6
"""Least share of the topic's words in a sentence that matches clearly."""
_RELATED = 0.5
"""Least similarity of a related word."""
_LONG = 6
"""Length of a stem that is recognized inside of longer words, such as compounds."""


class Analyzer(Protocol):
    def language_of(self, text: str) -> str: ...

    def terms(
        self, text: str, cap: int | None = None, language: str | None = None
    ) -> Sequence[str]: ...

    def forms(self, text: str, cap: int | None = None) -> Sequence[tuple[str, ...]]: ...

    @property
    def related(self) -> Callable[[str], Sequence[tuple[str, float]]]: ...


class Match(IntEnum):
    """How surely a sentence is about a topic."""

    NONE = 0
    WEAK = 1
    CLEAR = 2


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of the topic."""

    stems: frozenset[str]
    synonyms: frozenset[str]
    """Other words for the same person; empty for things."""
    related: frozenset[str]


class Seen(NamedTuple):
    """The words of a topic, by number, that a text has."""

    exact: frozenset[int] = frozenset()
    related: frozenset[int] = frozenset()

    def __or__(self, other: Seen) -> Seen:
        return Seen(self.exact | other.exact, self.related | other.related)


class _Part(NamedTuple):
    """The words, by number, of one of the things that a wish is about, and of whose it is."""

    things: frozenset[int]
    owners: frozenset[int]


class Topic:
    """What a wish to forget is about: one thing, or several ("my divorce and my new job")."""

    def __init__(self, about: str, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._words: list[_Word] = []
        # "My divorce and my job" names two things, "black and white" one.
        things = re.split(pattern("forgetting", "and"), about, flags=re.IGNORECASE)
        self._parts = [self._read(thing) for thing in things]

    def _read(self, about: str) -> _Part:
        first, owned, analyzer = len(self._words), set(), self._analyzer
        owners = {
            fold(word)
            for pair in re.findall(pattern("forgetting", "owner"), about.casefold())
            for word in pair
            if word
        }
        named = _named(about)
        spelled = {
            fold(bare(word)): {form for forms in analyzer.forms(word) for form in forms}
            for word in words_in(fold_case(about, len(about)))
        }
        for forms in analyzer.forms(_unfilled(about), len(about)):
            words = {word for word, known in spelled.items() if not known.isdisjoint(forms)}
            plain = words | {_plain(form) for form in forms}
            people = _people(plain)
            if (people & named) or (not people and words and words <= _ignored()):
                continue
            near = frozenset(
                term
                for form in forms
                for term, similarity in analyzer.related(form)
                if similarity >= _RELATED
            )
            if named:
                near |= named
            if people or plain & owners:
                owned.add(len(self._words))
            self._words.append(_Word(frozenset(forms), people, frozenset() if people else near))
        every = frozenset(range(first, len(self._words)))
        # "Forget my ex": the person is the topic.
        return _Part(every - owned or every, frozenset(owned if every - owned else ()))

    def __bool__(self) -> bool:
        return bool(self._words)

    def seen(self, text: str, language: str | None = None) -> Seen:
        """Return which of the topic's words a text has."""
        folded = fold_case(text, len(text))
        said = {fold(bare(word)) for word in words_in(folded)}
        terms = set(self._analyzer.terms(text, len(text), language)) | said
        flat = fold(folded) if folded.isascii() else "".join(map(fold, folded))
        exact, near = set(), set()
        for number, word in enumerate(self._words):
            if self._has(word, terms, said, flat):
                exact.add(number)
            elif word.related & terms:
                near.add(number)
        return Seen(frozenset(exact), frozenset(near))

    def _has(self, word: _Word, terms: Collection[str], said: Collection[str], flat: str) -> bool:
        if not word.stems.isdisjoint(terms):
            return True
        if word.synonyms:
            return not word.synonyms.isdisjoint(said) or _has_unspaced(word.synonyms, flat)
        return any(len(stem) >= _LONG and stem in flat for stem in map(_plain, word.stems))

    def match(self, sentence: str, own: Seen, around: Seen) -> Match:
        """Return how surely a sentence is about the topic.

        `own` are the words in the sentence, `around` those near it: in its message, and in the
        messages before and after.
        """
        return max(_match(part, sentence, own, around) for part in self._parts)


def _match(part: _Part, sentence: str, own: Seen, around: Seen) -> Match:
    known = own.exact | around.exact
    here = own.exact & part.things
    if not here:
        is_near = own.related & part.things and part.owners <= known
        return Match.WEAK if is_near else Match.NONE
    if len(here) >= _LEAST * len(part.things) and part.owners <= own.exact:
        return Match.CLEAR
    is_whole = part.owners <= known and part.things <= known
    return Match.CLEAR if is_whole and _refers_back(sentence) else Match.WEAK


def _refers_back(sentence: str) -> bool:
    """True if a sentence can be about what was just spoken of, and is not about the speaker."""
    words = set(words_in(fold_case(sentence, len(sentence))))
    if has_unspaced(sentence):
        words |= set(sentence)
    third, first = (listed("forgetting", f"{person} person") for person in ("third", "first"))
    return bool(words & third) or not words & first


def _unfilled(about: str) -> str:
    """The topic without "forget what I said about"."""
    fillers = listed("forgetting", "fillers")
    return " ".join(word for word in about.split() if word.casefold().strip(".,!?") not in fillers)


def _people(words: Collection[str]) -> frozenset[str]:
    """All words for the persons that these words name."""
    own = {fold(each) for each in words}
    found = (each for each in _people_words() if not each.isdisjoint(own))
    return frozenset(word for each in found for word in each)


def _named(about: str) -> frozenset[str]:
    """Words for persons that a name follows: "my ex-wife Anna" is about Anna alone."""
    pairs = re.findall(r"\b([\w-]+)\s+(?=[A-ZÀ-ÖØ-Þ][\w-]+(?:$|['’]|\s+(?!['’])))", about)
    return _people({part for word in pairs for part in fold_case(word, len(word)).split("-")})


def _plain(term: str) -> str:
    """A term without the mark of its language."""
    return term.partition(":")[2] or term


def _has_unspaced(words: Collection[str], text: str) -> bool:
    return any(not word.isascii() and has_unspaced(word) and word in text for word in words)


@cache
def _people_words() -> list[frozenset[str]]:
    """Words for the same person: whose the topic is, rather than the topic."""
    lines = sections("forgetting")["people"]
    return [frozenset(map(fold, line.casefold().split())) for line in lines]


@cache
def _ignored() -> frozenset[str]:
    return listed("forgetting", "fillers").union(*stopwords().values())
