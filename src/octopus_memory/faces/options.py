"""Options that choose a memory, for the commands of every face."""

from __future__ import annotations

from typing import Annotated

import typer

Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL",
        help="The database: a URL such as sqlite:///memory.db, or a path. "
        "Default: the one of the settings.",
    ),
]
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant.", rich_help_panel="Scope")]
Agent = Annotated[str, typer.Option("--agent", help="The agent.", rich_help_panel="Scope")]
User = Annotated[str, typer.Option("--user", help="The user.", rich_help_panel="Scope")]
