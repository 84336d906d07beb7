"""The question before what cannot be undone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .terminal import Screen

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def can_ask() -> bool:
    return sys.stdin.isatty()


def ask(what: str, question: str) -> None:
    """Say what is going to happen, and end the command unless that is wanted."""
    if not can_ask():
        raise typer.BadParameter("nobody can be asked here: say --yes")
    Screen(stderr=True).write(what)
    typer.confirm(question, abort=True, err=True)
