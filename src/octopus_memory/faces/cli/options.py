"""Options that commands share."""

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
"""Key in the `meta` of a context: whether errors are printed as JSON."""


def _note_json(ctx: typer.Context, value: bool) -> bool:
    ctx.meta[JSON_WANTED] = value
    return value


def parse_since(text: str) -> datetime:
    """Parse a date or a time as UTC. A date stands for its start."""
    return _moment(text, time.min)


def parse_until(text: str) -> datetime:
    """Parse a date or a time as UTC. A date stands for its end."""
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
        help="Include archived episodes. Default: the setting of the agent.",
    ),
]
Since = Annotated[
    datetime | None,
    typer.Option(
        parser=parse_since,
        metavar="TIME",
        help="Only from this date or time on (UTC unless it has a zone).",
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option(
        parser=parse_until,
        metavar="TIME",
        help="Only up to the end of this date, or up to this time.",
    ),
]
