"""The answer of a recall tool: found turns by date, fenced and neutralized like the block."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..episode import TurnHit
from ..text.neutralize import neutralize
from .layout import date_line, fenced, quoted, speaker, spoken

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
