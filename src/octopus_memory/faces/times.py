"""Dates and times, as people and models write them."""

from __future__ import annotations

from datetime import UTC, datetime, time


def parse_moment(text: str, bare: time) -> datetime:
    """A date or a time as UTC; a bare date at `bare`.

    :raises ValueError: with how to write it
    """
    try:
        moment = datetime.fromisoformat(text)
        if len(text) <= len("2025-03-14"):
            moment = datetime.combine(moment.date(), bare)
        # A time without a zone is meant as UTC, as all times here are.
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{text!r} is no date or time: write 2025-03-14, or 2025-03-14T09:30+01:00"
        ) from error
