"""The answers of the tools recall and forget, fenced and neutralized like the block."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from ..episode import TurnHit
from ..text.neutralize import neutralize
from .layout import date_line, fenced, quoted, speaker, spoken

_MOST_SHOWN = 20
NOTHING_FOUND = "Nothing was found."


def recalled(hits: Sequence[TurnHit]) -> str:
    """Return turns in the order of their time: the date and session, then each speaker's words."""
    lines: list[str] = []
    in_order = sorted(hits, key=lambda hit: (hit.at, hit.session_id, hit.ordinal))
    for (day, session_id), said in groupby(
        in_order, key=lambda hit: (date_line(hit.at), hit.session_id)
    ):
        lines.append(f"{day}, session {neutralize(session_id)}")
        lines += [f"Said: {spoken(quoted(speaker(hit), hit.text))}" for hit in said]
    return fenced(lines or [NOTHING_FOUND])


def forget_list(preview: Any) -> str:
    """Return what would be forgotten: date, kind and words of each item, and the token."""
    lines = [
        f"{item.date:%Y-%m-%d}, {spoken(quoted(item.what, item.text))}"
        for item in preview.items[:_MOST_SHOWN]
    ]
    if len(preview.items) > _MOST_SHOWN:
        lines.append(f"And {len(preview.items) - _MOST_SHOWN} more.")
    ask = "This would be removed for good. Nothing is removed yet: show it to the user, and ask."
    return fenced([ask, *lines, f"Token: {preview.token}"])


def forgotten_line(receipt: Any) -> str:
    """Return what a model tells the user when it is forgotten."""
    rest = "" if receipt.is_complete else " The rest follows in the background."
    return f"Removed: {sum(receipt.removed.values())}.{rest} Tell the user that it is forgotten."
