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
each doubling, 7 for 1,024 and over."""

_PASSAGE = 250
_LONGEST_CLASS = 7

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
# Large classes take long to compile: `re` does it when a first word has such a character.
_RUNS = rf"[{_UNSPACED}]+|[^{_UNSPACED}]+"
_IS_UNSPACED = rf"[{_UNSPACED}]"


class Flag(IntFlag):
    """What can be told of a row at a glance; the top three bits hold a turn's length class."""

    QUESTION = 1
    NUMBER = 2
    TIME = 4
    OWN_WORDS = 8
    """Of a summary that a caller or a model wrote: it may say what no turn says."""


_TIMES = """yesterday today tonight tomorrow ago last next week weeks weekend weekends month months
year years monday tuesday wednesday thursday friday saturday sunday january february april june july
august september october november december
gestern vorgestern heute morgen übermorgen letzte letzten letzter letztes letzte nächste nächsten
nächster nächstes woche wochen wochenende monat monate monaten jahr jahre jahren montag dienstag
mittwoch donnerstag freitag samstag sonnabend sonntag januar februar märz juni juli oktober dezember
hier aujourd demain semaine semaines mois année années dernier dernière prochain prochaine lundi
mardi mercredi jeudi vendredi samedi dimanche janvier février avril juin juillet août septembre
octobre novembre décembre
ayer anteayer anoche hoy mañana semana semanas meses año años pasado pasada próximo próxima lunes
martes miércoles jueves viernes sábado domingo enero febrero marzo abril junio julio agosto
septiembre octubre noviembre diciembre"""
_TIME_WORDS = frozenset(_TIMES.split())
_CHINESE_TIMES = (
    r"[昨今明前后]天|[昨今明]晚|[上下本这]个?(?:周|星期|礼拜|月)|周末|[去今明前]年"
    r"|[天周月年]前|星期|礼拜|\d[月日号]"
)
_DIGIT = re.compile(r"\d")
_RUN = re.compile(r"\w+")
_NO_RUN = {code: " " for code in range(128) if not _RUN.match(chr(code))}
_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e", "吗")
"""With the Chinese particle that ends a question, which often stands for the mark."""


def words(text: str, cap: int = TEXT_CAP) -> list[str]:
    """The lower-case words of the first `cap` characters, in order."""
    return words_in(fold_case(text, cap))


def fold_case(text: str, cap: int) -> str:
    """The first `cap` characters as words are compared by."""
    text = text[:cap]
    return (text if text.isascii() else unicodedata.normalize("NFKC", text)).casefold()


def words_in(folded: str) -> list[str]:
    """The words of a text whose case is folded; none of them has a space in it."""
    found: list[str] = _WORD.findall(folded)
    return found


def bare(word: str) -> str:
    """A word without "'s" and its like, a number without the commas between its thousands."""
    if word[0].isdigit():
        return _THOUSANDS.sub("", word)
    if "'" not in word and "’" not in word:
        return word
    return _ELISION.sub("", word).replace("’", "'")


def pieces(word: str) -> list[str]:
    """A word as one term; where the script has no spaces, each pair of neighbouring characters."""
    if not has_unspaced(word):
        return [word]
    found: list[str] = []
    for run in runs(word):
        if len(run) == 1 or not has_unspaced(run):
            found.append(run)
        else:
            found.extend(run[place : place + 2] for place in range(len(run) - 1))
    return found


def runs(word: str) -> list[str]:
    """A word cut where a script without spaces begins or ends."""
    found: list[str] = re.findall(_RUNS, word)
    return found


def has_unspaced(word: str) -> bool:
    """Whether a word has characters of a script without spaces."""
    return not word.isascii() and re.search(_IS_UNSPACED, word) is not None


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
    return word_flags(text[:TEXT_CAP]) | shape_flags(text)


def word_flags(text: str) -> int:
    """What single words tell: those of a text are those of all its words."""
    # A pattern for each of these would take as long as everything else that is done with a turn.
    runs = set(text.translate(_NO_RUN).split() if text.isascii() else _RUN.findall(text))
    timed = not _TIME_WORDS.isdisjoint(map(str.casefold, runs)) or (
        not text.isascii() and re.search(_CHINESE_TIMES, text) is not None
    )
    return Flag.NUMBER * (_DIGIT.search(text) is not None) | Flag.TIME * timed


def shape_flags(text: str) -> int:
    """What the whole of a text tells, without spaces around it."""
    size = min((len(text) // 16).bit_length(), _LONGEST_CLASS)
    return Flag.QUESTION * text.endswith(_QUESTION_MARKS) | size << LENGTH_SHIFT


def passage(text: str, *, previous: str | None = None) -> str:
    """What to embed for a turn: a short answer needs what it answers, "Yes, two of them" the more.

    A turn that is long enough stands by itself, and the end of a long answer is no question.
    """
    text = text.strip()
    room = _PASSAGE - len(text)
    if room <= 0 or not previous or len(previous) > TEXT_CAP:
        return text
    return f"{text} {previous.strip()[-room:]}"
