"""Time expressions in English questions: date windows, and "first" or "last".

Regular expressions find "on 7 May 2023", "in March", "yesterday", "two weeks ago", "the last time";
`time_phrases` translates other languages first. A month without a year means that month of any
year, because memories may be old.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

import numpy as np
from numpy.typing import NDArray

_DAY = timedelta(days=1)
_YEARS_BACK = 10
_AFTERWARDS = 10 * _DAY
_AFTERWARDS_SHARE = 0.6
_RELATIVE_STRENGTH = 0.5


class Order(Enum):
    """Order that a question asks for."""

    NONE = "none"
    LATEST = "latest"
    EARLIEST = "earliest"


@dataclass(frozen=True, slots=True, kw_only=True)
class DateWindow:
    """Sorted time spans; ends are exclusive."""

    spans: tuple[tuple[datetime, datetime], ...]
    strength: float = 1.0
    """Below 1 for relative times, because "last week" may be relative to the turn's date."""

    def closeness(self, times: NDArray[np.int64]) -> NDArray[np.float32]:
        """1 inside a span, 0.6 up to ten days after it, when people report events; else 0."""
        starts = np.array([_micros(start) for start, _ in self.spans], dtype=np.int64)
        ends = np.array([_micros(end) for _, end in self.spans], dtype=np.int64)
        nearest = np.searchsorted(starts, times, side="right") - 1
        late = times - ends[nearest]
        after = _AFTERWARDS // timedelta(microseconds=1)
        share = np.where(late < 0, 1.0, np.where(late < after, _AFTERWARDS_SHARE, 0.0))
        share[nearest < 0] = 0
        return (share * self.strength).astype(np.float32)


def may_name_time(words: AbstractSet[str], text: str) -> bool:
    """Quick test for a time or an order; False for most questions.

    `words` holds the runs of letters and digits in `text`, in lower case.
    """
    return not _SIGNS.isdisjoint(words) or _DIGITS.search(text) is not None


def date_window(query: str, asked_at: datetime) -> DateWindow | None:
    """The time that a question names; None if it names none."""
    text = query.casefold()
    spans = list(_days(text, asked_at)) or list(_months(text, asked_at))
    if spans:
        return DateWindow(spans=_in_order(spans))
    relative = _relative(text, asked_at)
    if relative is None:
        return None
    return DateWindow(spans=(relative,), strength=_RELATIVE_STRENGTH)


def order_cue(query: str) -> Order:
    """The order a question asks for, if it does so plainly: "first prize" does not count."""
    if re.search(_LATEST, query):
        return Order.LATEST
    if re.search(_EARLIEST, query):
        return Order.EARLIEST
    return Order.NONE


# Strings, so that `re` compiles them on first use: few questions name a time.
_LATEST = r"(?i)\b(?:last time|most recent(?:ly)?|latest|newest)\b"
_EARLIEST = r"(?i)\b(?:first time|earliest|very first|originally)\b"

MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_SHORT = [*(name[:3] for name in MONTHS), "sept"]
_MONTH = rf"(?P<month>{'|'.join((*MONTHS, *_SHORT))})\b\.?"
_DAY_NUMBER = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DATES = [
    rf"\b{_DAY_NUMBER}(?:\s+of)?\s*{_MONTH}(?:,?\s*{_YEAR}\b)?",
    rf"\b{_MONTH}\s+{_DAY_NUMBER}\b(?!\s*:)(?:,?\s*{_YEAR}\b)?",
    rf"\b{_YEAR}[-/](?P<month>[01]?\d)[-/](?P<day>[0-3]?\d)\b",
]
_MONTH_YEAR = rf"\b{_MONTH}(?:\s*,?\s*(?:of\s+)?{_YEAR}\b)?"
# "May" and "march" are also verbs: without a year, a preposition must stand before them.
_BEFORE_MONTH = (
    r"\b(?:in|of|during|since|until|till|by|for|from|to|last|this|early|late|mid|around|before"
    r"|after)[\s-]*$"
)


def _days(text: str, asked_at: datetime) -> Iterator[tuple[datetime, datetime]]:
    named = [found for pattern in _DATES for found in re.finditer(pattern, text)]
    for found in named:
        month, day = _month_number(found["month"]), int(found["day"])
        for year in _years(found, named, asked_at):
            start = _date(year, month, day, asked_at)
            if start is not None:
                yield start, start + _DAY


def _months(text: str, asked_at: datetime) -> Iterator[tuple[datetime, datetime]]:
    named = [
        found
        for found in re.finditer(_MONTH_YEAR, text)
        if found["year"] or re.search(_BEFORE_MONTH, text[: found.start()])
    ]
    for found in named:
        for year in _years(found, named, asked_at):
            start = _date(year, _month_number(found["month"]), 1, asked_at)
            if start is not None:
                yield start, _next_month(start)


def _years(found: re.Match[str], named: list[re.Match[str]], asked_at: datetime) -> Iterable[int]:
    """The date's own year, or that of another date: "between 3 May and 5 May 2023"."""
    given = {int(other["year"]) for other in named if other["year"]}
    if found["year"]:
        return (int(found["year"]),)
    return given or range(asked_at.year - _YEARS_BACK, asked_at.year + 1)


def _month_number(name: str) -> int:
    if name.isdigit():
        return int(name)
    return [month[:3] for month in MONTHS].index(name[:3]) + 1


def _date(year: int, month: int, day: int, asked_at: datetime) -> datetime | None:
    try:
        return datetime(year, month, day, tzinfo=asked_at.tzinfo)
    except ValueError:
        return None


def _next_month(start: datetime) -> datetime:
    return (start.replace(day=1) + 32 * _DAY).replace(day=1)


_NUMBERS = {
    word: max(1, i - 1)
    for i, word in enumerate(
        ("a", "an", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)}|a couple of|a few|several)"
_UNIT = r"(?P<unit>day|week|month|year)s?"
_AGO = rf"\b{_COUNT}\s+{_UNIT}\s+ago\b"
_PAST = rf"\b(?:past|last|previous)\s+(?:{_COUNT}\s+)?{_UNIT}\b"
_THIS = rf"\b(?:this|current)\s+{_UNIT}\b"
_NEAR = (
    r"\b(?P<before>day before yesterday)\b|\b(?P<yesterday>yesterday|last night)\b"
    r"|\b(?P<today>today|tonight|this (?:morning|afternoon|evening))\b"
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = rf"\b(?:last|on|this|past)\s+(?P<weekday>{'|'.join(WEEKDAYS)})\b"
_WEEKEND = r"\b(?:last|this|past|over the|on the|at the)\s+weekend\b"
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


def _relative(text: str, asked_at: datetime) -> tuple[datetime, datetime] | None:
    today = asked_at.replace(hour=0, minute=0, second=0, microsecond=0)
    for pattern, resolve in _RELATIVE:
        found = re.search(pattern, text)
        if found:
            return resolve(found, today)
    return None


def _near(found: re.Match[str], today: datetime) -> tuple[datetime, datetime]:
    back = {"before": 2, "yesterday": 1, "today": 0}[found.lastgroup or "today"]
    return today - back * _DAY, today - (back - 1) * _DAY


def _ago(found: re.Match[str], today: datetime) -> tuple[datetime, datetime]:
    days = _UNIT_DAYS[found["unit"]]
    middle = today - _count(found["count"]) * days * _DAY
    # Larger units are less exact.
    slack = days // 2 * _DAY
    return middle - slack, middle + slack + _DAY


def _past(found: re.Match[str], today: datetime) -> tuple[datetime, datetime]:
    unit = found["unit"]
    if found["count"]:
        return today - _count(found["count"]) * _UNIT_DAYS[unit] * _DAY, today + _DAY
    start = _start_of(unit, today)
    return _start_of(unit, start - _DAY), start


def _this(found: re.Match[str], today: datetime) -> tuple[datetime, datetime]:
    return _start_of(found["unit"], today), today + _DAY


def _weekday(found: re.Match[str], today: datetime) -> tuple[datetime, datetime]:
    back = (today.weekday() - WEEKDAYS.index(found["weekday"]) - 1) % 7 + 1
    return today - back * _DAY, today - (back - 1) * _DAY


def _weekend(_: re.Match[str], today: datetime) -> tuple[datetime, datetime]:
    saturday = today - ((today.weekday() - 6) % 7 + 1) * _DAY
    return saturday, saturday + 2 * _DAY


# A month may follow its day without a space, and a date may have no letters.
_DIGITS = re.compile(rf"\d(?:[-/]|(?:st|nd|rd|th)?(?:{'|'.join(_SHORT)}))", re.IGNORECASE)
_OTHER_SIGNS = """ago last past previous this current weekend yesterday today tonight recent
recently latest newest first earliest originally"""
_SIGNS = frozenset((*MONTHS, *_SHORT, *WEEKDAYS, *_OTHER_SIGNS.split()))

_RELATIVE = (
    (_AGO, _ago),
    (_WEEKDAY, _weekday),
    (_WEEKEND, _weekend),
    (_PAST, _past),
    (_THIS, _this),
    (_NEAR, _near),
)


def _start_of(unit: str, day: datetime) -> datetime:
    if unit == "week":
        return day - day.weekday() * _DAY
    if unit == "month":
        return day.replace(day=1)
    return day.replace(month=1, day=1) if unit == "year" else day


def _count(said: str) -> int:
    if said.isdigit():
        return int(said)
    if said in _NUMBERS:
        return _NUMBERS[said]
    return 2 if "couple" in said else 3


def _in_order(
    spans: list[tuple[datetime, datetime]],
) -> tuple[tuple[datetime, datetime], ...]:
    return tuple(sorted(set(spans)))


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
