"""Text for search: tokenization, flags of a turn, and the passage that is embedded.

Everything here is independent of the language; stemming is done by `adapters/analyzers`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from enum import IntFlag
from typing import TypeVar

from ...words import listed, pattern

TEXT_CAP = 600
"""Characters of a turn that are tokenized, because long answers would drown short turns."""

SUMMARY_CAP = 6_000
"""Characters of a summary with its key facts that are tokenized: all of them."""

LENGTH_SHIFT = 5
"""Bit position of the length class in a turn's flags: 0 for under 16 characters, plus one per
doubling, up to 7 for 1,024 and over."""

_PASSAGE = 250
_LONGEST_CLASS = 7

# Vowel signs and points are parts of words, but not word characters for `re`.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0fff"
_WORD = re.compile(rf"\d+(?:[.,]\d+)*|[^\W_][\w{_MARKS}]*(?:['’][\w{_MARKS}]+)*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ELISION = re.compile(r"['’](?:s|t|d|m|re|ve|ll)$")

# Scripts without spaces: Thai to Burmese, kana, Han, Hangul and the wide forms.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
# Strings, so that `re` compiles these large classes only when a word needs them.
_RUNS = rf"[{_UNSPACED}]+|[^{_UNSPACED}]+"
_IS_UNSPACED = rf"[{_UNSPACED}]"


class Flag(IntFlag):
    """Flags of a row; the top three bits hold a turn's length class."""

    QUESTION = 1
    NUMBER = 2
    TIME = 4
    OWN_WORDS = 8
    """Set for a summary by a caller or a model, which may contain words that no turn has."""


_DIGIT = re.compile(r"\d")
_RUN = re.compile(r"\w+")
_NO_RUN = {code: " " for code in range(128) if not _RUN.match(chr(code))}
_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e", "吗")
"""Includes the Chinese particle that ends a question, which often replaces the mark."""


def words(text: str, cap: int = TEXT_CAP) -> list[str]:
    """Lower-case words of the first `cap` characters, in order."""
    return words_in(fold_case(text, cap))


def fold_case(text: str, cap: int) -> str:
    """The first `cap` characters, normalized and case-folded."""
    text = text[:cap]
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()


def words_in(folded: str) -> list[str]:
    """Words of a case-folded text; none contains a space."""
    found: list[str] = _WORD.findall(folded)
    return found


def bare(word: str) -> str:
    """A word without "'s" and the like, or a number without thousands separators."""
    if word[0].isdigit():
        return _THOUSANDS.sub("", word)
    if "'" not in word and "’" not in word:
        return word
    return _ELISION.sub("", word).replace("’", "'")


def pieces(word: str) -> list[str]:
    """Terms of a word: the word, or each character pair for scripts without spaces."""
    if not has_unspaced(word):
        return [word]
    found: list[str] = []
    for run in runs(word):
        if len(run) == 1 or not has_unspaced(run):
            found.append(run)
        else:
            found.extend(run[i : i + 2] for i in range(len(run) - 1))
    return found


def runs(word: str) -> list[str]:
    """A word split where a script without spaces begins or ends."""
    found: list[str] = re.findall(_RUNS, word)
    return found


def has_unspaced(word: str) -> bool:
    """True if a word has characters of a script without spaces."""
    return not word.isascii() and re.search(_IS_UNSPACED, word) is not None


def fold(word: str) -> str:
    """A Latin word without accents; other scripts unchanged."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word)
    if not decomposed[0].isascii():
        return word
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def turn_flags(text: str) -> int:
    """Flags of a turn in one byte, for ranking."""
    text = text.strip()
    return word_flags(text[:TEXT_CAP]) | shape_flags(text)


def word_flags(text: str) -> int:
    """Flags that depend on single words, so that a text's are the union of its words'."""
    # Sets instead of patterns, which would take as long as all other work on a turn.
    runs = set(text.translate(_NO_RUN).split() if text.isascii() else _RUN.findall(text))
    timed = not listed("times", "words of time").isdisjoint(map(str.casefold, runs)) or (
        not text.isascii()
        and re.search(pattern("times", "Chinese words of time"), text) is not None
    )
    return Flag.NUMBER * (_DIGIT.search(text) is not None) | Flag.TIME * timed


def shape_flags(text: str) -> int:
    """Flags that depend on the whole text, which must be stripped."""
    size = min((len(text) // 16).bit_length(), _LONGEST_CLASS)
    return Flag.QUESTION * text.endswith(_QUESTION_MARKS) | size << LENGTH_SHIFT


def passage(text: str, *, previous: str | None = None) -> str:
    """The text to embed for a turn: a short turn with the previous one, such as "Yes, two of them".

    A long turn is embedded alone, and a long previous turn is not added.
    """
    text = text.strip()
    room = _PASSAGE - len(text)
    if room <= 0 or not previous or len(previous) > TEXT_CAP:
        return text
    return f"{text} {previous.strip()[-room:]}"


K = TypeVar("K")
V = TypeVar("V")
_LONGEST_WORD = 40


class Memo(dict[K, V]):
    """Computes missing values with `make`, and is cleared when it holds `most` of them.

    A look-up costs a third of one in `lru_cache`. Words need no LRU order, because the common ones
    come back at once.
    """

    def __init__(self, make: Callable[[K], V], *, most: int) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, key: K) -> V:
        value = self._make(key)
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value


class WordMemo(Memo[str, V]):
    """Memo of values by word. Long words are not kept, because they rarely recur: links, or whole
    sentences of a script without spaces.
    """

    def __missing__(self, key: str) -> V:
        return self._make(key) if len(key) > _LONGEST_WORD else super().__missing__(key)
