"""Templates, and filters that format times and sizes."""

from __future__ import annotations

import json
import re
import shlex
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup, escape

from ...domain.text.pii import PLACEHOLDER

_KILO = 1024
_SHOWN_PAGES = 400
_GENERATED = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@cache
def environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("octopus_memory.faces.inspector"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "day": day,
        "moment": moment,
        "count": count,
        "size": size,
        "cut": cut,
        "shorter": shorter,
        "pretty": pretty,
        "marked": marked,
        "percent": percent,
        "counted": counted,
        "shell": shlex.quote,
    }
    return made


def day(at: datetime | None) -> Markup:
    """A date in UTC, which the browser's script turns into its own zone."""
    return _time(at, "%-d %B %Y", "day")


def moment(at: datetime | None) -> Markup:
    """A time in UTC, which the browser's script turns into its own zone."""
    return _time(at, "%Y-%m-%d %H:%M UTC", "minute")


def _time(at: datetime | None, form: str, shown: str) -> Markup:
    if at is None:
        return Markup()
    return Markup('<time datetime="{}" data-shown="{}">{}</time>').format(
        at.isoformat(), shown, format(at, form)
    )


def count(number: float) -> str:
    return f"{number:,}".replace(",", "\u202f")


def counted(number: int, what: str) -> str:
    """A number with its noun: "1 fact", "3 memories"."""
    if number == 1:
        return f"1 {what}"
    return f"{count(number)} {f'{what[:-1]}ies' if what.endswith('y') else f'{what}s'}"


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.2f}"


def size(number: int | None) -> str:
    if number is None:
        return "unknown"
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < _KILO or unit == "GiB":
            return f"{value:,.0f} {unit}"
        value /= _KILO
    raise AssertionError


def cut(text: str, longest: int = _SHOWN_PAGES) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"


def shorter(session_id: str) -> str:
    """A session's id inside a line: the ends of a generated one, which tell it from others."""
    generated = _GENERATED.fullmatch(session_id)
    return f"{session_id[:8]}…{session_id[-4:]}" if generated else cut(session_id, 40)


def pretty(value: Any) -> str:
    """A JSON value, or a text of JSON, on several lines."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return str(value)
    return json.dumps(value, indent=2, ensure_ascii=False)


def marked(text: str) -> Markup:
    """Text with its redacted spans marked; everything in it is escaped."""
    parts: list[Markup] = []
    at = 0
    for found in re.finditer(PLACEHOLDER, text):
        parts.append(escape(text[at : found.start()]))
        parts.append(Markup('<mark title="redacted">{}</mark>').format(found[0]))
        at = found.end()
    parts.append(escape(text[at:]))
    return Markup().join(parts)


def until(at: datetime, now: datetime) -> str:
    """Time left until a moment, in words."""
    left = at - now
    if left <= timedelta(0):
        return "due now"
    if left < timedelta(days=1):
        return "in less than a day"
    return f"in {left.days} days" if left.days > 1 else "tomorrow"
