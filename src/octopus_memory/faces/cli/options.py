"""The options that commands share, and what they stand for."""

from __future__ import annotations

from datetime import UTC, datetime, time
from typing import Annotated

import typer

JSON_WANTED = "octopus.json"
"""The key in a context's `meta` that says whether errors are printed as JSON."""


def _note_json(ctx: typer.Context, value: bool) -> bool:
    ctx.meta[JSON_WANTED] = value
    return value


def parse_since(text: str) -> datetime:
    """A date or a time as UTC, a bare date as its start."""
    return _moment(text, time.min)


def parse_until(text: str) -> datetime:
    """A date or a time as UTC, a bare date as its end."""
    return _moment(text, time.max)


def _moment(text: str, bare: time) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        if len(text) <= len("2025-03-14"):
            moment = datetime.combine(moment.date(), bare)
        # A time without a zone is meant as UTC, as all times here are.
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(
            f"{text!r} is no date or time: write 2025-03-14, or 2025-03-14T09:30+01:00"
        ) from error


Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="The database: a URL such as sqlite:///memory.db, or a file's path. "
        "Without it, the one that the settings name.",
        show_default=False,
    ),
]
Tenant = Annotated[str, typer.Option("--tenant", help="Whose data it is.", rich_help_panel="Scope")]
Agent = Annotated[
    str, typer.Option("--agent", help="Which agent remembers.", rich_help_panel="Scope")
]
User = Annotated[str, typer.Option("--user", help="Who is remembered.", rich_help_panel="Scope")]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print JSON.", is_eager=True, callback=_note_json),
]
Since = Annotated[
    datetime | None,
    typer.Option(
        parser=parse_since,
        metavar="TIME",
        help="Nothing before this date or time (UTC unless it names a zone).",
        show_default=False,
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option(
        parser=parse_until,
        metavar="TIME",
        help="Nothing after this date (its whole day) or time.",
        show_default=False,
    ),
]
