"""The options that commands share, and what they stand for."""

from __future__ import annotations

from datetime import datetime, time
from typing import Annotated

import typer

from ..options import Agent, Db, Tenant, User
from ..times import parse_moment

__all__ = [
    "JSON_WANTED",
    "Agent",
    "Archived",
    "AsJson",
    "Db",
    "Since",
    "Tenant",
    "Until",
    "User",
    "parse_since",
    "parse_until",
]

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
        return parse_moment(text, bare)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print JSON.", is_eager=True, callback=_note_json),
]
Archived = Annotated[
    bool | None,
    typer.Option(
        "--archived/--no-archived",
        help="Whether archived episodes are among them; without it, as the agent's settings say.",
        show_default=False,
    ),
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
