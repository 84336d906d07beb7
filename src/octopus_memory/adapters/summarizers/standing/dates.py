"""The date that a message names, by the day on which it was said."""

from __future__ import annotations

import re
from datetime import date, timedelta

from .rules import Language

_ISO = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")
_HAN = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(?:(\d{1,2})[日号])?")
_NUMBER = re.compile(r"\d+")


def resolve(said: str, today: date, known: Language) -> str:
    """Return the date as 2025-06-14 or 2025-06; an empty text if it has passed or is unclear."""
    text = " ".join(said.casefold().split())
    if iso := _ISO.search(text):
        return iso[0]
    if steps := known.relative.get(text):
        return _relative(steps, today)
    if han := _HAN.search(text):
        year, month, day = (int(part) if part else 0 for part in han.groups())
        return _dated(year, month, day, today)
    words = re.findall(r"[^\W\d_]+", text)
    months = [known.months[word] for word in words if word in known.months]
    if months:
        numbers = [int(each) for each in _NUMBER.findall(text)]
        year = next((each for each in numbers if each > 31), 0)
        day = next((each for each in numbers if each <= 31), 0)
        return _dated(year, months[0], day, today)
    days = [known.weekdays[word] for word in words if word in known.weekdays]
    if days:
        return (today + timedelta(days=(days[0] - today.weekday() - 1) % 7 + 1)).isoformat()
    year = next((int(each) for each in _NUMBER.findall(text) if int(each) > 31), 0)
    return f"{year}-12" if year >= today.year else ""


def _dated(year: int, month: int, day: int, today: date) -> str:
    """A month or a day of this year, or of the next one if it has passed."""
    try:
        first = date(year or today.year, month, day or 1)
    except ValueError:
        return ""
    if not year and (first if day else date(first.year, month, 28)) < today:
        first = first.replace(year=first.year + 1)
    if year and year < today.year:
        return ""
    return first.isoformat() if day else first.isoformat()[:7]


def _relative(steps: str, today: date) -> str:
    unit, _, count = steps.partition("+")
    if unit == "day":
        return (today + timedelta(days=int(count))).isoformat()
    if unit == "week":
        # The Sunday that ends the week, so that the plan lasts as long as the week does.
        return (today + timedelta(days=7 * int(count) + 6 - today.weekday())).isoformat()
    if unit == "month":
        months = today.year * 12 + today.month - 1 + int(count)
        return f"{months // 12}-{months % 12 + 1:02d}"
    return f"{today.year + int(count)}-12"
