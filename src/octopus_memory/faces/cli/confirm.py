"""The question before a command that cannot be undone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .terminal import Screen

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def can_ask() -> bool:
    return sys.stdin.isatty()


def ask(what: str, question: str) -> None:
    """Say what is going to happen, and abort unless the user agrees."""
    if not can_ask():
        raise typer.BadParameter("stdin is not a terminal: pass --yes to confirm")
    Screen(stderr=True).write(what)
    typer.confirm(question, abort=True, err=True)
