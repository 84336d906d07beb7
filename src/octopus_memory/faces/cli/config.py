"""The command that shows the settings, and where each came from."""

from __future__ import annotations

from typing import Any

import typer

from ..urls import shown_url
from .options import AsJson
from .plain import print_json
from .screen import Screen

config = typer.Typer(help="The settings that are in force.", no_args_is_help=True)


@config.command()
def show(*, as_json: AsJson = False) -> None:
    """Show every setting, its value, and where the value came from."""
    from ...settings import sources

    found = [
        {"setting": each.name, "value": _safe(each.name, each.value), "from": each.source}
        for each in sources()
    ]
    if as_json:
        print_json({"settings": found})
        return
    screen = Screen()
    width = max(len(each["setting"]) for each in found)
    for each in found:
        screen.write(f"{each['setting']:<{width}}  {each['value']}  ({each['from']})")


def _safe(name: str, value: Any) -> str:
    """A secret is only said to be there."""
    if value is None:
        return "not set"
    text = str(value)
    return shown_url(text) if name.endswith("url") else text
