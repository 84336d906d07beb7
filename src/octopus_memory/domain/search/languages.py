"""Stopwords, language detection, and the terms of Chinese text, which has no spaces.

Detection takes one dictionary look-up per word, because it runs on every stored turn. A word of
only one language is strong evidence. A word of several languages, or one that is part of names
everywhere ("Los Angeles", "Café de Flore"), is weak evidence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cache

from ...words import listed
from .terms import fold, fold_case, has_unspaced, pieces, runs, words_in

_LATIN = ("english", "german", "french", "spanish")


@cache
def stopwords() -> dict[str, frozenset[str]]:
    """Stopwords by language, as spelled and without accents."""
    spelled = ((language, _listed(f"{language} stopwords")) for language in _LATIN)
    return {language: frozenset((*words, *map(fold, words))) for language, words in spelled}


def _listed(section: str) -> frozenset[str]:
    return listed("languages", section)


CHINESE, OTHER = "chinese", "other"
"""Languages that are detected by their script."""


class Reading(StrEnum):
    """Skill of an embedder in a language."""

    FLUENT = "fluent"
    GLOSSED = "glossed"
    """Word for word in English: cosines are lower, and still tell more than words."""
    NONE = "none"
    """Cosines mean little."""


_STRONG, _WEAK = 3, 1
_ENOUGH = 3
_BITS = 16
"""Width of one language's counter in the sum; no text has enough words to overflow it."""
_MASK = (1 << _BITS) - 1
_LONGEST = 24


_LETTERS = {"english": "ai", "german": "", "french": "à", "spanish": ""}
"""One-letter words that count as evidence."""

_ELIDED = ("j'", "c'", "n'", "qu'")
"""Beginnings of French words that no English word with an apostrophe has."""


def evidence(piece: str) -> int:
    """Evidence for each language in a piece of text without spaces, packed in one summable int."""
    if len(piece) > _LONGEST:
        return 0
    total = 0
    for word in words_in(fold_case(piece, _LONGEST).replace("’", "'")):
        total += _known().get(word) or _of_parts(word)
    return total


def guess(total: int, default: str = "english") -> str:
    """The language with the most `evidence`, or `default` if that is not enough."""
    if not total >> _BITS:
        return default
    scores = [(total >> shift & _MASK, language) for language, shift in _SHIFT.items()]
    english = scores[0][0]
    (best, language), (second, _) = sorted(scores[1:], reverse=True)[:2]
    return language if best >= _ENOUGH and best > max(english, second) else default


def is_latin(text: str) -> bool:
    """True if a text is mostly in Latin letters, or has no letters."""
    if text.isascii():
        return True
    letters = [letter for letter in text if letter.isalpha()]
    # Latin letters and their accents are encoded below Greek, and in one block above it.
    latin = sum(each < "\u0370" or "\u1e00" <= each <= "\u1eff" for each in letters)
    # Scripts without spaces need fewer letters for the same text.
    return latin >= 2 * (len(letters) - latin)


def _of_parts(word: str) -> int:
    """Evidence of a word's part before the apostrophe: of "don" for "don't", of "j'" for French."""
    before, apostrophe, _ = word.partition("'")
    if not apostrophe:
        return 0
    if word.startswith(_ELIDED):
        return _STRONG << _SHIFT["french"]
    return _known().get(before, 0)


_SHIFT = {language: i * _BITS for i, language in enumerate(_LATIN)}


@cache
def _known() -> dict[str, int]:
    """Evidence by word, for all words that have any."""
    lists = {
        language: _listed(f"{language} stopwords") | _listed(f"{language} telling")
        for language in _LATIN
    }
    in_names, also_english = _listed("in names"), _listed("also English")
    found: dict[str, int] = {}
    for language, words in lists.items():
        # Single letters also occur in lists, formulas and code.
        for word in (word for word in words if len(word) > 1 or word in _LETTERS[language]):
            shared = sum(word in others for others in lists.values()) > 1
            weak = shared or word in in_names or (language != "english" and word in also_english)
            found[word] = found.get(word, 0) + ((_WEAK if weak else _STRONG) << _SHIFT[language])
    return found


_HAN = "[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+"
_NOT_CHINESE = "[\u0e00-\u1fff\u3040-\u30ff\uac00-\ud7af]"
"""Other scripts without spaces, from Thai to kana, and Hangul: a word with these is not Chinese.

Punctuation, which lies between them, belongs to every script.
"""


def is_chinese(text: str) -> bool:
    """True if a text has Han characters and no other script without spaces, as Japanese has."""
    return re.search(_HAN, text) is not None and re.search(_NOT_CHINESE, text) is None


def language_of(text: str, of_latin: Callable[[str], str]) -> str:
    """Language of a text, by its script; `of_latin` tells the languages of Latin script apart."""
    if is_latin(text):
        return of_latin(text)
    return CHINESE if is_chinese(text) else OTHER


def characters(word: str) -> list[str]:
    """Han characters of a word that are not grammatical, if `pieces` yields them only in pairs.

    Many Chinese words have one character, and a question rarely has it in the same pair as a turn.
    """
    return [
        each
        for run in re.findall(_HAN, word)
        if len(run) > 1 or len(word) > 1
        for each in run
        if each not in _listed("Chinese particles")
    ]


def pieces_sought(word: str) -> list[tuple[str, ...]]:
    """Terms of a question's word, each with its alternatives.

    Of Chinese, only content between grammatical words is used. A lone character matches as itself
    and, because turns indexed earlier have only pairs, as the pairs around it.
    """
    if re.search(_NOT_CHINESE, word):
        return [(piece,) for piece in pieces(word)]
    found: list[tuple[str, ...]] = []
    for run in runs(word):
        if len(run) == 1 or not has_unspaced(run):
            found.append((run,))
            continue
        for start, end in _content_stretches(run):
            if end - start > 1:
                found += [(run[i : i + 2],) for i in range(start, end - 1)]
            else:
                around = (run[start - 1 : end] if start else "", run[start : end + 1])
                found.append((run[start], *(pair for pair in around if len(pair) == 2)))
    return found


def _content_stretches(run: str) -> list[tuple[int, int]]:
    """Start and end of each stretch of content characters in a run of Han characters."""
    particles, words = _listed("Chinese particles"), _listed("Chinese grammar")
    grammar = [character in particles for character in run]
    for i in range(len(run) - 1):
        if run[i : i + 2] in words:
            grammar[i] = grammar[i + 1] = True
    found, start = [], 0
    for i, is_grammar in enumerate([*grammar, True]):
        if is_grammar:
            if i > start:
                found.append((start, i))
            start = i + 1
    return found


_LINKS = ("", "s", "es", "n", "en", "e", "er")
"""Linking letters between the parts of a German compound."""
SHORTEST_MODIFIER = 3


def cuts(
    word: str, shortest_head: int, endings: tuple[str, ...] = ()
) -> Iterator[tuple[str, list[str]]]:
    """Heads that a German compound may have, longest first, each with its possible modifiers.

    A modifier is all that stands before the head, then that without linking letters or `endings`.
    """
    for start in range(SHORTEST_MODIFIER, len(word) - shortest_head + 1):
        before = word[:start]
        links = (link for link in (*_LINKS, *endings) if before.endswith(link))
        yield word[start:], [before.removesuffix(link) for link in links]
