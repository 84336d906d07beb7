"""Time expressions in English: what a question asks about, and what a turn tells of.

Regular expressions find "on 7 May 2023", "in March", "yesterday", "two weeks ago", "next Friday",
"the last time"; `time_phrases` translates other languages first. In a question, a month without a
year means that month of any year, because memories may be old. In a turn, it means the nearest one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .row_format import day_number, told_overlaps

Span: TypeAlias = tuple[datetime, datetime]
"""Start and end of a time; the end is exclusive."""
_Years: TypeAlias = Callable[[int, int], Iterable[int]]
"""The years that a month and a day without a year may mean."""

_DAY = timedelta(days=1)
_YEARS_BACK = 10
_AFTERWARDS = 10 * _DAY
_AFTERWARDS_SHARE = 0.6
_RELATIVE_STRENGTH = 0.5
_OPEN_STRENGTH = 0.25
"""For "before 3 May" and "since March", which leave most of the memory open."""
_MICROS = timedelta(microseconds=1)


class Order(Enum):
    """Order that a question asks for."""

    NONE = "none"
    LATEST = "latest"
    EARLIEST = "earliest"


@dataclass(frozen=True, slots=True, kw_only=True)
class DateWindow:
    """Sorted time spans; ends are exclusive."""

    spans: tuple[Span, ...]
    strength: float = 1.0
    """Below 1 for relative times, because "last week" may be relative to the turn's date."""

    def closeness(
        self, times: NDArray[np.int64], told_of: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """1 for a row that tells of a time in a span, or was said in one; else 0.

        0.6 for a row that names no time and was said up to ten days after, when people report
        events.
        """
        starts, ends = self._micros()
        nearest = np.searchsorted(starts, times, side="right") - 1
        late = times - ends[nearest]
        share = np.where(late < 0, 1.0, 0.0)
        share[(late >= 0) & (late < _AFTERWARDS // _MICROS) & (told_of == 0)] = _AFTERWARDS_SHARE
        share[nearest < 0] = 0
        share[self.is_told(told_of)] = 1.0
        return (share * self.strength).astype(np.float32)

    def covers(self, times: NDArray[np.int64], told_of: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the rows that were said in a span, or tell of a time in one."""
        starts, ends = self._micros()
        nearest = np.searchsorted(starts, times, side="right") - 1
        inside: NDArray[np.bool_] = (nearest >= 0) & (times < ends[nearest])
        return inside | self.is_told(told_of)

    def is_told(self, told_of: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the rows that tell of a time in a span."""
        return told_overlaps(
            told_of, [(day_number(s), day_number(e - _MICROS)) for s, e in self.spans]
        )

    def _micros(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        starts = np.array([_micros(start) for start, _ in self.spans], dtype=np.int64)
        ends = np.array([_micros(end) for _, end in self.spans], dtype=np.int64)
        return starts, ends


def may_name_time(words: AbstractSet[str], text: str) -> bool:
    """Quick test for a time or an order; False for most texts.

    `words` holds the runs of letters and digits in `text`, in lower case.
    """
    return not _SIGNS.isdisjoint(words) or _DIGITS.search(text) is not None


def date_window(query: str, asked_at: datetime) -> DateWindow | None:
    """The time that a question names; None if it names none."""
    text = query.casefold()

    def any_year(month: int, day: int) -> Iterable[int]:  # noqa: ARG001 - every year has them
        return range(asked_at.year - _YEARS_BACK, asked_at.year + 1)

    named = list(_dates(text, asked_at, any_year))
    if named:
        spans, is_open = _joined(text, named, asked_at)
        return DateWindow(spans=spans, strength=_OPEN_STRENGTH if is_open else 1.0)
    relative = next(_relative(text, asked_at, (*_PAST_FORMS, *_FUTURE_FORMS)), None)
    if relative is None:
        return None
    return DateWindow(spans=(relative,), strength=_RELATIVE_STRENGTH)


def told_spans(text: str, said_at: datetime) -> list[Span]:
    """The times that a turn tells of, other than the day on which it was said."""
    text = text.casefold()

    def nearest(month: int, day: int) -> Iterable[int]:
        years = (said_at.year + i for i in (-1, 0, 1))
        dates = [date for year in years if (date := _date(year, month, day, said_at))]
        return (min(dates, key=lambda date: abs(date - said_at)).year,) if dates else ()

    found = [span for _, span in _dates(text, said_at, nearest)]
    found += _relative(text, said_at, (*_FUTURE_FORMS, *_PAST_FORMS))
    today = said_at.replace(hour=0, minute=0, second=0, microsecond=0)
    return [span for span in dict.fromkeys(found) if span != (today, today + _DAY)]


def strip_times(text: str) -> str:
    """The text without the times, dates and conversations that it names."""
    forms = (pattern for pattern, _ in (*_PAST_FORMS, *_FUTURE_FORMS))
    for pattern in (*_DATES, *forms, rf"{_LATEST}|{_EARLIEST}", _CONVERSATION, _MONTH_YEAR):
        text = re.sub(pattern, " ", text, flags=re.IGNORECASE)
    return text


def order_cue(query: str) -> Order:
    """The order a question asks for, if it does so plainly: "first prize" does not count."""
    if re.search(_LATEST, query, re.IGNORECASE):
        return Order.LATEST
    if re.search(_EARLIEST, query, re.IGNORECASE):
        return Order.EARLIEST
    return Order.NONE


def session_cue(query: str) -> Order:
    """Which conversation a question names: the last one before this, the first, or none."""
    found = re.search(_CONVERSATION, query, re.IGNORECASE)
    if found is None:
        return Order.NONE
    which = (found["which"] or found["when"]).casefold()
    return Order.EARLIEST if which == "first" else Order.LATEST


# Strings, so that `re` compiles them on first use: few questions name a time.
_LATEST = r"\b(?:last time|most recent(?:ly)?|latest|newest)\b"
_EARLIEST = r"\b(?:first time|earliest|very first|originally)\b"
_TALK = r"(?:talk|spoke|speak|chat|met\b|discuss|said|told|tell|wrote)\w*"
_CONVERSATION = (
    r"\b(?P<which>first|last|latest|previous|most recent)\s+(?:ever\s+)?"
    r"(?:(?:conversation|chat|session|talk|discussion|call)\b"
    rf"|time\b(?=\s+(?:that\s+)?(?:we|i|you)\s+{_TALK}))"
    rf"|\b(?:we|i|you)\s+{_TALK}\b[^.?!]*\b(?P<when>first|last)\s+time\b"
)

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
    rf"\b{_MONTH}\s+(?:the\s+)?{_DAY_NUMBER}\b(?!\s*:)(?:,?\s*{_YEAR}\b)?",
    rf"\b{_YEAR}[-/](?P<month>[01]?\d)[-/](?P<day>[0-3]?\d)\b",
    rf"\b(?P<day>[0-3]?\d)\.(?P<month>[01]?\d)\.{_YEAR}\b",
]
_MONTH_YEAR = rf"\b{_MONTH}(?:\s*,?\s*(?:of\s+)?{_YEAR}\b)?"
# "May" and "march" are also verbs: without a year, a preposition must stand before them.
_BEFORE_MONTH = (
    r"\b(?:in|of|during|since|until|till|by|for|from|to|last|this|early|late|mid|around|before"
    r"|after|next)[\s-]*$"
)
_HOLIDAYS = {
    "christmas eve": (12, 24, 1),
    "christmas": (12, 24, 3),
    "new year's eve": (12, 31, 1),
    "new year's day": (1, 1, 1),
    "halloween": (10, 31, 1),
    "valentine's day": (2, 14, 1),
}
"""Month, day and number of days."""
_HOLIDAY = rf"\b(?P<holiday>{'|'.join(_HOLIDAYS)})\b"

_Named: TypeAlias = tuple[re.Match[str], Span]


def _dates(text: str, now: datetime, years: _Years) -> Iterator[_Named]:
    """Days that are named by their date, else months, each with its match in the text."""
    text = text.replace("\u2019", "'")
    yield from _days(text, now, years) or _months(text, now, years)
    if "s" in text and (found := re.search(_HOLIDAY, text)) is not None:
        month, day, length = _HOLIDAYS[found["holiday"]]
        for year in years(month, day):
            start = _date(year, month, day, now)
            if start is not None:
                yield found, (start, start + length * _DAY)


def _days(text: str, now: datetime, years: _Years) -> list[_Named]:
    named = [found for pattern in _DATES for found in re.finditer(pattern, text)]
    dated: list[_Named] = []
    for found in named:
        month, day = _month_number(found["month"]), int(found["day"])
        for year in _years_of(found, named, years, month, day):
            start = _date(year, month, day, now)
            if start is not None:
                dated.append((found, _moved(text[: found.start()], start)))
    return dated


def _months(text: str, now: datetime, years: _Years) -> list[_Named]:
    named = [
        found
        for found in re.finditer(_MONTH_YEAR, text)
        if found["year"] or re.search(_BEFORE_MONTH, text[: found.start()])
    ]
    dated: list[_Named] = []
    for found in named:
        month = _month_number(found["month"])
        for year in _years_of(found, named, years, month, 1):
            start = _date(year, month, 1, now)
            if start is not None:
                dated.append((found, (start, _next_month(start))))
    return dated


def _years_of(
    found: re.Match[str], named: list[re.Match[str]], years: _Years, month: int, day: int
) -> Iterable[int]:
    """The date's own year, or that of another date: "between 3 May and 5 May 2023"."""
    given = {int(other["year"]) for other in named if other["year"]}
    if found["year"]:
        return (int(found["year"]),)
    return given or years(month, day)


_NUMBERS = {
    word: max(1, i - 1)
    for i, word in enumerate(
        ("a", "an", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
}
_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(_NUMBERS)}|a couple of|a couple|a few|several)"
_UNIT = r"(?P<unit>day|week|month|year)s?"
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_ANY_WEEKDAY = rf"(?P<weekday>{'|'.join(WEEKDAYS)})"
_SIDE = r"\s+(?P<side>before|prior to|after|following)\s+(?:the\s+)?$"
_OFFSET = rf"\b(?:(?:{_COUNT}\s+)?{_UNIT}|(?P<weekend>weekend)|{_ANY_WEEKDAY}){_SIDE}"


def _moved(before: str, date: datetime) -> Span:
    """The span of a date, moved by what stands before it: "the week before", "two days after"."""
    found = re.search(_OFFSET, before)
    if found is None:
        return date, date + _DAY
    sign = -1 if found["side"] in ("before", "prior to") else 1
    if found["weekend"] or found["weekday"]:
        wanted = 5 if found["weekend"] else WEEKDAYS.index(found["weekday"])
        away = (sign * (wanted - date.weekday()) - 1) % 7 + 1
        start = date + sign * away * _DAY
        return start, start + (2 if found["weekend"] else 1) * _DAY
    days = _UNIT_DAYS[found["unit"]]
    if found["count"]:
        middle = date + sign * _count(found["count"]) * days * _DAY
        return middle - days // 2 * _DAY, middle + (days // 2 + 1) * _DAY
    return (date - days * _DAY, date) if sign < 0 else (date + _DAY, date + (days + 1) * _DAY)


_FROM_HERE = r"\b(?:since|after|starting(?:\s+from)?|from)\s+(?:the\s+)?(?:end of\s+)?$"
_UP_TO_HERE = r"\b(?:before|by|until|till|up to|prior to)\s+(?:the\s+)?$"
_BETWEEN = r"^\s*(?:and|to|-|\u2013|until|till|through)\s*(?:the\s+)?$"


def _joined(text: str, named: list[_Named], asked_at: datetime) -> tuple[tuple[Span, ...], bool]:
    """The spans in order, and whether they are open to one side.

    Two dates with "and" or "to" between them, after "between" or "from", are one span.
    """
    matches = list(dict.fromkeys(found for found, _ in named))
    spans = [span for _, span in named]
    if len(matches) == 2 and len(spans) == 2:
        (first, second), (start, end) = sorted(matches, key=re.Match.start), sorted(spans)
        linked = re.search(_BETWEEN, text[first.end() : second.start()])
        if linked and re.search(r"\b(?:between|from)\s+(?:the\s+)?$", text[: first.start()]):
            return ((start[0], end[1]),), False
    if len(matches) == 1:
        before = text[: matches[0].start()]
        latest = max((span for span in spans if span[0] <= asked_at), default=spans[-1])
        if re.search(_FROM_HERE, before) and not re.search(_OFFSET, before):
            return ((latest[0], max(asked_at, latest[1])),), True
        if re.search(_UP_TO_HERE, before) and not re.search(_OFFSET, before):
            return ((latest[0] - _YEARS_BACK * 365 * _DAY, latest[1]),), True
    return tuple(sorted(set(spans))), False


def _month_number(name: str) -> int:
    if name.isdigit():
        return int(name)
    return [month[:3] for month in MONTHS].index(name[:3]) + 1


def _date(year: int, month: int, day: int, now: datetime) -> datetime | None:
    try:
        return datetime(year, month, day, tzinfo=now.tzinfo)
    except ValueError:
        return None


def _next_month(start: datetime) -> datetime:
    return (start.replace(day=1) + 32 * _DAY).replace(day=1)


_AGO = rf"\b{_COUNT}\s+{_UNIT}\s+(?:ago|earlier)\b"
_PAST = rf"\b(?:past|last|previous)\s+(?:{_COUNT}\s+)?{_UNIT}\b"
_THIS = rf"\b(?:this|current)\s+{_UNIT}\b"
_NEAR = (
    r"\b(?P<before>day before yesterday)\b|\b(?P<yesterday>yesterday|last night)\b"
    r"|\b(?P<today>today|tonight|this (?:morning|afternoon|evening))\b"
)
_WEEKDAY = rf"\b(?:last|on|this|past)\s+{_ANY_WEEKDAY}\b"
_WEEKEND = r"\b(?:last|this|past|over the|on the|at the)\s+weekend\b"
_OTHER_DAY = r"\bthe other day\b"
_SEASONS = {"spring": 3, "summer": 6, "fall": 9, "autumn": 9, "winter": 12}
_SEASON = rf"\blast\s+(?P<season>{'|'.join(_SEASONS)})\b"
_TOMORROW = r"\b(?P<after>day after tomorrow)\b|\b(?P<tomorrow>tomorrow)\b"
_NEXT = rf"\b(?:next|coming)\s+{_UNIT}\b"
_NEXT_WEEKDAY = rf"\b(?:next|coming)\s+(?:{_ANY_WEEKDAY}|(?P<weekend>weekend))\b"
_IN = rf"\b(?:in|within)\s+{_COUNT}\s+{_UNIT}\b(?!\s+(?:ago|time ago))"
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}

_Form: TypeAlias = tuple[str, Callable[[re.Match[str], datetime], Span]]


def _relative(text: str, now: datetime, forms: Iterable[_Form]) -> Iterator[Span]:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for pattern, resolve in forms:
        for found in re.finditer(pattern, text):
            try:
                yield resolve(found, today)
            except OverflowError:
                continue


def _near(found: re.Match[str], today: datetime) -> Span:
    back = {"before": 2, "yesterday": 1, "today": 0}[found.lastgroup or "today"]
    return today - back * _DAY, today - (back - 1) * _DAY


def _ago(found: re.Match[str], today: datetime) -> Span:
    days = _UNIT_DAYS[found["unit"]]
    middle = today - _count(found["count"]) * days * _DAY
    # Larger units are less exact.
    slack = days // 2 * _DAY
    return middle - slack, middle + slack + _DAY


def _past(found: re.Match[str], today: datetime) -> Span:
    unit = found["unit"]
    if found["count"]:
        return today - _count(found["count"]) * _UNIT_DAYS[unit] * _DAY, today + _DAY
    start = _start_of(unit, today)
    return _start_of(unit, start - _DAY), start


def _this(found: re.Match[str], today: datetime) -> Span:
    return _start_of(found["unit"], today), today + _DAY


def _weekday(found: re.Match[str], today: datetime) -> Span:
    back = (today.weekday() - WEEKDAYS.index(found["weekday"]) - 1) % 7 + 1
    return today - back * _DAY, today - (back - 1) * _DAY


def _weekend(_: re.Match[str], today: datetime) -> Span:
    saturday = today - ((today.weekday() - 6) % 7 + 1) * _DAY
    return saturday, saturday + 2 * _DAY


def _other_day(_: re.Match[str], today: datetime) -> Span:
    return today - 7 * _DAY, today


def _season(found: re.Match[str], today: datetime) -> Span:
    month = _SEASONS[found["season"]]
    start = today.replace(year=today.year - (today.month <= month), month=month, day=1)
    end = start + 92 * _DAY
    return start, end.replace(day=1)


def _tomorrow(found: re.Match[str], today: datetime) -> Span:
    ahead = 2 if found["after"] else 1
    return today + ahead * _DAY, today + (ahead + 1) * _DAY


def _next(found: re.Match[str], today: datetime) -> Span:
    unit = found["unit"]
    if unit == "day":
        return today + _DAY, today + 2 * _DAY
    start = _start_of(unit, _start_of(unit, today) + (_UNIT_DAYS[unit] + 5) * _DAY)
    if unit == "week":
        start = _start_of(unit, today) + 7 * _DAY
    end = start + 7 * _DAY if unit == "week" else _start_of(unit, start + 370 * _DAY)
    return (start, _next_month(start)) if unit == "month" else (start, end)


def _next_weekday(found: re.Match[str], today: datetime) -> Span:
    wanted = 5 if found["weekend"] else WEEKDAYS.index(found["weekday"])
    start = today + ((wanted - today.weekday() - 1) % 7 + 1) * _DAY
    return start, start + (2 if found["weekend"] else 1) * _DAY


def _ahead(found: re.Match[str], today: datetime) -> Span:
    days = _UNIT_DAYS[found["unit"]]
    middle, slack = today + _count(found["count"]) * days * _DAY, days // 2 * _DAY
    return middle - slack, middle + slack + _DAY


# A month may follow its day without a space, and a date may have no letters.
_DIGITS = re.compile(rf"\d(?:[-/.]\d|(?:st|nd|rd|th)?(?:{'|'.join(_SHORT)}))", re.IGNORECASE)
_OTHER_SIGNS = """ago last past previous this current weekend yesterday today tonight recent
recently latest newest first earliest originally tomorrow next coming within earlier day days week
weeks month months christmas halloween valentine new"""
_SIGNS = frozenset((*MONTHS, *_SHORT, *WEEKDAYS, *_OTHER_SIGNS.split()))

_PAST_FORMS: tuple[_Form, ...] = (
    (_AGO, _ago),
    (_WEEKDAY, _weekday),
    (_WEEKEND, _weekend),
    (_SEASON, _season),
    (_PAST, _past),
    (_THIS, _this),
    (_NEAR, _near),
    (_OTHER_DAY, _other_day),
)
_FUTURE_FORMS: tuple[_Form, ...] = (
    (_TOMORROW, _tomorrow),
    (_NEXT_WEEKDAY, _next_weekday),
    (_NEXT, _next),
    (_IN, _ahead),
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


def _micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)
