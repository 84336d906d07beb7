"""`octopus database distribute`: spread a PostgreSQL database over the nodes of Citus."""

from __future__ import annotations

from typing import Annotated

import typer

from ...domain.errors import InvalidSetting
from ..given import as_url, shown_url
from .database import AsJson, Db
from .terminal import Screen, Yes, ask, counted, print_json

database = typer.Typer(help="The database as a whole.", no_args_is_help=True)


@database.callback()
def _database() -> None:
    """The database as a whole."""


@database.command()
def distribute(
    *,
    shards: Annotated[
        int, typer.Option(min=1, max=1024, help="Parts of each table, spread over the nodes.")
    ] = 32,
    yes: Yes = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Spread the users over the nodes of Citus, once, as the owner of the tables.

    A run that was interrupted is continued by the next.

    octopus database distribute --db postgresql://octopus_owner@localhost/octopus
    """
    from ...settings import load
    from ...wiring import distribute as run

    url = load(database_url=as_url(db)).url
    if url.partition(":")[0] not in {"postgresql", "postgres"}:
        raise InvalidSetting("database_url", "must be a PostgreSQL database with Citus")
    if not yes:
        ask(
            f"This moves every row of {shown_url(url)} to the nodes of Citus. No service or worker "
            "may be connected, and only octopus migrate brings the rows back to one database. Make "
            "a backup first.",
            "Distribute?",
        )
    screen = Screen()
    done = run(url, shards=shards, tell=None if as_json else screen.write)
    if as_json:
        print_json(done)
        return
    rows = counted(sum(done.rows.values()), "row")
    screen.write(
        f"Distributed {rows} over {counted(done.shards, 'shard')} on "
        f"{counted(len(done.nodes), 'node')}: {', '.join(done.nodes)}."
    )
    screen.write("Counted every table, found users on their nodes, and checked new numbers.")
