"""Parsing of dates and times that people and models write."""

from __future__ import annotations

from datetime import UTC, datetime, time


def parse_moment(text: str, bare: time) -> datetime:
    """Parse a date or a time as UTC. A date gets the time `bare`.

    :raises ValueError: the text is neither; the message says how to write one
    """
    try:
        moment = datetime.fromisoformat(text)
        if len(text) <= len("2025-03-14"):
            moment = datetime.combine(moment.date(), bare)
        # A time without a zone is UTC.
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{text!r} is not a date or time: write 2025-03-14 or 2025-03-14T09:30+01:00"
        ) from error
