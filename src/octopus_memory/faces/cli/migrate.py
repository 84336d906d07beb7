"""`octopus migrate`: copy a whole database into an empty one."""

from __future__ import annotations

from typing import Annotated

import typer

from ...domain.errors import InvalidInput
from ..urls import as_url, shown_url
from .database import sqlite_file
from .json_output import print_json
from .options import AsJson
from .progress import bar
from .terminal import Screen, counted


def migrate(
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="URL",
            help="The database to copy: a URL or a path. It is only read.",
        ),
    ],
    target: Annotated[
        str,
        typer.Option("--to", metavar="URL", help="The empty database to copy it to."),
    ],
    as_json: AsJson = False,
) -> None:
    """Copy a whole database into an empty one, and compare the two.

    octopus migrate --from sqlite:///memory.db --to postgresql://octopus@localhost/octopus
    """
    from ...wiring import move

    source, target = as_url(source) or "", as_url(target) or ""
    file = sqlite_file(source)
    if file is not None and not file.exists():
        raise InvalidInput("--from", f"no such file: {file}")
    with bar("moving", 100) as show:
        moved = move(source, target, lambda done, total: show(100 * done // max(1, total)))
    if as_json:
        print_json(
            {
                "rows": moved.rows,
                "copied": moved.copied,
                "resumed": moved.resumed,
                "tables": moved.tables,
            }
        )
        return
    screen = Screen()
    screen.write(
        f"Copied {counted(moved.rows, 'row')} from {shown_url(source)} to {shown_url(target)}; "
        "compared every row."
    )
    for table in moved.tables:
        if table.rows:
            line = f"{table.name:<24}{table.rows:>12,}  {table.checksum[:16]}"
            screen.write((line, "dim"))
    if moved.resumed:
        screen.write(
            f"An earlier run had copied {counted(moved.rows - moved.copied, 'row')} of them."
        )
