"""Time expressions in German, French, Spanish and Chinese, translated to English for `temporal`.

"letzte Woche", "il y a trois jours", "el 5 de abril", "上周": each is replaced by an English
phrase, so that one set of rules resolves all languages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache

from ...words import sections
from .temporal import MONTHS, WEEKDAYS, may_name_time, strip_times
from .terms import Flag, word_flags

_MARK = "\0"
_RUN = re.compile(r"\w+")
_LANGUAGES = ("german", "french", "spanish", "chinese")
_UNITS = ("day", "week", "month", "year")


_ISO = r"\g<year>-\g<m>-\g<d>"


def times_in_english(text: str, language: str) -> str:
    """The text in English, as far as it names times or an order; empty if it names none.

    The language of a short text is a guess, so a text with a word of time is read in the others.
    """
    words = set(_RUN.findall(text.casefold()))
    if language == "english" and may_name_time(words, text):
        return text
    if found := in_english(text, language):
        return found
    if may_name_time(words, text):
        return text
    if not word_flags(text) & Flag.TIME:
        return ""
    others = (in_english(text, other) for other in _LANGUAGES if other != language)
    return next(filter(None, others), "")


def without_times(text: str, language: str) -> str:
    """The text without the times, dates and conversations that it names."""
    for pattern, _ in _patterns(language) if language in _LANGUAGES else ():
        text = re.sub(pattern, " ", _plain(text))
    return strip_times(text)


def in_english(text: str, language: str) -> str:
    """Times and words for first and last in a question, as English phrases.

    Empty if there are none, or if `language` is not supported.
    """
    if language not in _LANGUAGES:
        return ""
    text = _plain(text)
    for pattern, english in _patterns(language):
        text = re.sub(pattern, english, text)
    # Every second part is between two marks, hence a translation.
    return "; ".join(text.split(_MARK)[1::2])


@cache
def _patterns(language: str) -> list[tuple[str, Callable[[re.Match[str]], str]]]:
    def listed(what: str) -> list[str]:
        return _plain(" ".join(sections("times").get(f"{language} {what}", ()))).split()

    numbers = dict(pair.split(":") for pair in listed("numbers"))
    units = _named(listed("units"), _UNITS)
    weekdays = _named(listed("weekdays"), WEEKDAYS)
    months = _named(listed("months"), MONTHS)
    words = {
        "{N}": rf"(?P<n>\d{{1,3}}|{_any(numbers)})",
        "{U}": rf"(?P<unit>{_any(units)})",
        "{U2}": rf"(?P<unit2>{_any(units)})",
        "{M}": rf"(?P<month>{_any(months)})",
        "{W}": rf"(?P<weekday>{_any(weekdays)})",
        "{W2}": rf"(?P<weekday2>{_any(weekdays)})",
        "{C}": rf"(?P<count>1[0-2]|[1-9]|{_any(numbers)})",
    }
    found = []
    for phrase in sections("times")[f"{language} phrases"]:
        english, _, pattern = phrase.partition(": ")
        for name, alternatives in words.items():
            pattern = pattern.replace(name, alternatives)
        found.append((pattern, _replacing(english, numbers, units, weekdays | months)))
    return found


def _replacing(
    english: str, numbers: Mapping[str, str], units: Mapping[str, str], names: Mapping[str, str]
) -> Callable[[re.Match[str]], str]:
    def replace(found: re.Match[str]) -> str:
        if english == "date":
            return _MARK + found.expand(_ISO) + _MARK
        said = {name: value or "" for name, value in found.groupdict().items()}
        weekday = said.get("weekday") or said.get("weekday2", "")
        month = names.get(said.get("month", ""), "")
        if count := said.get("count"):
            month = _month(numbers.get(count, count))
        phrase = english.format(
            d=said.get("d", ""),
            month=month,
            year=said.get("year", ""),
            n=numbers.get(said.get("n", ""), said.get("n", "")),
            unit=units.get(said.get("unit") or said.get("unit2", ""), ""),
            weekday=names.get(weekday, ""),
        )
        return _MARK + phrase.strip() + _MARK

    return replace


def _month(number: str) -> str:
    return MONTHS[int(number) - 1] if 1 <= int(number) <= len(MONTHS) else ""


def _named(forms: list[str], english: tuple[str, ...]) -> dict[str, str]:
    """Map names in the language to English ones; forms of one name are separated by bars."""
    return {
        form: name for each, name in zip(forms, english, strict=False) for form in each.split("|")
    }


def _any(words: Mapping[str, str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True)) or r"(?!)"


def _plain(text: str) -> str:
    """Text case-folded and without accents, which many people do not type."""
    decomposed = unicodedata.normalize("NFD", text.casefold().replace("’", "'"))
    return "".join(each for each in decomposed if not unicodedata.combining(each))
