"""`octopus config`: show the settings, and change those of an agent."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ...domain.errors import InvalidSetting
from ...domain.facts import FactKind
from ..given import actor_of, shown_url
from .database import AsJson, Db, Tenant, open_existing
from .terminal import Screen, print_json

_FORM = "PART.NAME=VALUE"

config = typer.Typer(help="Show and change settings.", no_args_is_help=True)


@config.command()
def show(
    *,
    agent: Annotated[
        str | None, typer.Option(help="Show the settings of this agent, as stored in the database.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(help="With --agent: its settings in this tenant.")
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
    """Return the value as text. Of a secret, only that it is set."""
    if value is None:
        return "not set"
    text = str(value)
    return shown_url(text) if name.endswith("url") else text


@config.command("set")
def set_config(
    given: Annotated[
        list[str], typer.Argument(metavar=_FORM, help="A setting, such as privacy.pii=redact.")
    ],
    *,
    agent: Annotated[str, typer.Option("--agent", help="The agent.")],
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only in this tenant.")] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Change settings of one agent. The others keep theirs.

    octopus config set --agent hr recall.semantic_top_k=5 privacy.pii=redact
    """
    change: dict[str, dict[str, Any]] = {}
    for text in given:
        part, name, value = _parsed(text)
        change.setdefault(part, {})[name] = value
    with open_existing(db) as memory:
        memory.configure(agent, change, tenant=tenant, actor=actor_of("cli"))
    if as_json:
        print_json({"agent": agent, "tenant": tenant, "set": change})
        return
    screen = Screen()
    screen.write(f"Set for agent {agent}{'' if tenant is None else f' in tenant {tenant}'}:")
    for part, values in change.items():
        for name, value in values.items():
            screen.write(
                f"  {part}.{name} = {value if isinstance(value, str) else json.dumps(value)}"
            )


@config.command("share-facts")
def share_facts(
    *,
    kind: Annotated[
        list[FactKind] | None, typer.Option(help="Share this kind. May be given several times.")
    ] = None,
    agent: Annotated[
        list[str] | None, typer.Option(help="Share with this agent. Give two or more.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Share nothing any more.")] = False,
    tenant: Tenant = "default",
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Let agents know facts about a user that another agent was told, or show which do.

    octopus config share-facts --kind constraint --agent hr --agent travel
    """
    if off and (kind or agent):
        raise typer.BadParameter("--off must be given alone")
    with open_existing(db) as memory:
        whose = memory.tenant(tenant)
        if off:
            whose.stop_sharing_facts(actor=actor_of("cli"))
        elif kind or agent:
            whose.share_facts(kinds=kind or (), agents=agent or (), actor=actor_of("cli"))
        found = whose.shared_facts()
    if as_json:
        print_json({"share_facts": found})
    elif found is None:
        Screen().write(f"No agent of tenant {tenant} shares facts.")
    else:
        Screen().write(f"{', '.join(found.agents)} share: {', '.join(found.kinds)}.")


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
