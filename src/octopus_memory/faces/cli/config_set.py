"""`octopus config set`: change an agent's settings."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ...domain.errors import InvalidSetting
from .actor import actor
from .database import open_existing
from .json_output import print_json
from .options import AsJson, Db
from .terminal import Screen

_FORM = "PART.NAME=VALUE"


def set_config(
    given: Annotated[
        list[str], typer.Argument(metavar=_FORM, help="A setting, such as privacy.pii=redact.")
    ],
    *,
    agent: Annotated[str, typer.Option("--agent", help="Whose settings.")],
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Only with this tenant.", show_default=False)
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Change settings of an agent, and leave the others as they are.

    octopus config set --agent hr recall.semantic_top_k=5 privacy.pii=redact
    """
    change: dict[str, dict[str, Any]] = {}
    for text in given:
        part, name, value = _parsed(text)
        change.setdefault(part, {})[name] = value
    with open_existing(db) as memory:
        memory.configure(agent, change, tenant=tenant, actor=actor())
    if as_json:
        print_json({"agent": agent, "tenant": tenant, "set": change})
        return
    screen = Screen()
    screen.write(f"Set for agent {agent}{'' if tenant is None else f' with tenant {tenant}'}:")
    for part, values in change.items():
        for name, value in values.items():
            screen.write(
                f"  {part}.{name} = {value if isinstance(value, str) else json.dumps(value)}"
            )


def _parsed(text: str) -> tuple[str, str, Any]:
    setting, is_value, value = text.partition("=")
    part, is_name, name = setting.partition(".")
    if not (is_value and is_name and part and name):
        raise InvalidSetting(text, f"must be {_FORM}, such as privacy.pii=redact")
    try:
        read = json.loads(value)
    except ValueError:
        return part, name, value
    return part, name, read if isinstance(read, bool | int | float) else value
