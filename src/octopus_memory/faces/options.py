"""The options that say which memory, for the commands of every face."""

from __future__ import annotations

from typing import Annotated

import typer

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
