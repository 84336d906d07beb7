"""Text as search sees it: its raw words, what a glance at it tells, and what is embedded of it.

Stemming is an adapter's (`adapters/analyzers`); everything here is the same in every language.
"""

from __future__ import annotations

import re
import unicodedata
from enum import IntFlag

TEXT_CAP = 600
"""How much of a turn is searched by words: long answers would drown short questions otherwise."""

SUMMARY_CAP = 6_000
"""How much of a summary with its key facts is searched by words: all of it."""

LENGTH_SHIFT = 5
"""Where the length class stands in a turn's flags: 0 for under 16 characters, then one more for
each doubling, 5 for 256 and over."""

_PASSAGE = 250
_LONGEST_CLASS = 5

# Vowel signs and points are no word characters to `re`, yet they are parts of words.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0fff"
_WORD = re.compile(rf"\d+(?:[.,]\d+)*|[^\W_][\w{_MARKS}]*(?:['’][\w{_MARKS}]+)*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ELISION = re.compile(r"['’](?:s|t|d|m|re|ve|ll)$")

# Written without spaces: Thai to Burmese, kana, Han, Hangul and the wide forms.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUNS = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")


class Flag(IntFlag):
    """What can be seen of a turn without reading it; the top three bits hold its length class."""

    QUESTION = 1
    NUMBER = 2
    TIME = 4
    FIRST_PERSON = 8


_TIME_WORDS = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|last|next|week(?:end)?s?|months?|years?"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|april|june|july|august"
    r"|september|october|november|december)\b",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:I|i|my|me|we|our|us|My|We|Our)\b")
_DIGIT = re.compile(r"\d")
_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")


def words(text: str, cap: int = TEXT_CAP) -> list[str]:
    """The lower-case words of the first `cap` characters, in order."""
    text = text[:cap]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    found: list[str] = _WORD.findall(text.casefold())
    return found


def bare(word: str) -> str:
    """A word without "'s" and its like, a number without the commas between its thousands."""
    if word[0].isdigit():
        return _THOUSANDS.sub("", word)
    return _ELISION.sub("", word).replace("’", "'")


def pieces(word: str) -> list[str]:
    """A word as one term; where the script has no spaces, each pair of neighbouring characters."""
    if word.isascii() or not _IS_UNSPACED.search(word):
        return [word]
    found: list[str] = []
    for run in _RUNS.findall(word):
        if not _IS_UNSPACED.match(run) or len(run) == 1:
            found.append(run)
        else:
            found.extend(run[place : place + 2] for place in range(len(run) - 1))
    return found


def fold(word: str) -> str:
    """A Latin word without its accents; other scripts as they are."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word)
    if not decomposed[0].isascii():
        return word
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def turn_flags(text: str) -> int:
    """One byte about a turn: what ranking may know of it beside its terms."""
    text = text.strip()
    head = text[:TEXT_CAP]
    flags = Flag(0)
    if text.endswith(_QUESTION_MARKS):
        flags |= Flag.QUESTION
    if _DIGIT.search(head):
        flags |= Flag.NUMBER
    if _TIME_WORDS.search(head):
        flags |= Flag.TIME
    if _FIRST_PERSON.search(head):
        flags |= Flag.FIRST_PERSON
    size = min((len(text) // 16).bit_length(), _LONGEST_CLASS)
    return int(flags) | size << LENGTH_SHIFT


def passage(text: str, *, previous: str | None = None) -> str:
    """What to embed for a turn: a short answer needs what it answers, "Yes, two of them" the more.

    A turn that is long enough stands by itself, and the end of a long answer is no question.
    """
    text = text.strip()
    room = _PASSAGE - len(text)
    if room <= 0 or not previous or len(previous) > TEXT_CAP:
        return text
    return f"{text} {previous.strip()[-room:]}"
