"""The command that shows the settings, and where each came from."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..urls import shown_url
from .database import open_existing
from .json_output import print_json
from .options import AsJson, Db
from .terminal import Screen

config = typer.Typer(help="The settings that are in force.", no_args_is_help=True)


@config.command()
def show(
    *,
    agent: Annotated[
        str | None,
        typer.Option(
            help="Show the settings that this agent runs with, as the database has them.",
            show_default=False,
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(help="With --agent: its settings with this tenant.", show_default=False),
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Show every setting, its value, and where the value came from."""
    found = _of_installation() if agent is None else _of_agent(db, agent, tenant)
    if as_json:
        print_json({"settings": found})
        return
    screen = Screen()
    width = max(len(each["setting"]) for each in found)
    for each in found:
        screen.write(f"{each['setting']:<{width}}  {each['value']}  ({each['from']})")


def _of_installation() -> list[dict[str, str]]:
    from ...settings import sources

    return [
        {"setting": each.name, "value": _safe(each.name, each.value), "from": each.source}
        for each in sources()
    ]


def _of_agent(db: str | None, agent: str, tenant: str | None) -> list[dict[str, str]]:
    with open_existing(db) as memory:
        config: dict[str, Any] = memory.config(agent, tenant=tenant).to_dict()
        sources = memory.config_sources(agent, tenant=tenant)
    return [
        {"setting": f"{part}.{name}", "value": str(value), "from": sources[part][name]}
        for part, values in config.items()
        for name, value in values.items()
    ]


def _safe(name: str, value: Any) -> str:
    """A secret is only said to be there."""
    if value is None:
        return "not set"
    text = str(value)
    return shown_url(text) if name.endswith("url") else text
