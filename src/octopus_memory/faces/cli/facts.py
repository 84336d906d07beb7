"""`octopus facts`: list, add, correct, pin and delete standing facts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from ...domain.facts import Fact, FactKind
from ..given import actor_of
from .database import Agent, AsJson, Db, Tenant, User, open_existing, open_or_make, parse_until
from .terminal import Screen, Yes, ask, print_json

facts = typer.Typer(
    help="Standing facts about a user: allergies, home, plans, how to address them.",
    no_args_is_help=True,
)
FactId = Annotated[str, typer.Argument(help="Id of the fact, from octopus facts list.")]
Text = Annotated[str, typer.Argument(help="The fact in one line.")]


@facts.command("list")
def list_facts(
    *,
    as_of: Annotated[
        datetime | None,
        typer.Option(
            parser=parse_until,
            metavar="TIME",
            help="Facts as known at the end of this date, or at this time.",
        ),
    ] = None,
    kind: Annotated[
        list[FactKind] | None, typer.Option(help="Only this kind. May be given several times.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Also facts that newer ones replaced, oldest first.")
    ] = False,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """List the current facts, pinned ones first.

    octopus facts list --user ana
    """
    with open_existing(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        found = scope.facts(as_of=as_of, kinds=kind or None, history=history)
    if as_json:
        print_json({"facts": found})
    elif not found:
        Screen().write(f"No facts for tenant {tenant}, agent {agent}, user {user}.")
    else:
        _show(Screen(), found)


@facts.command()
def add(
    text: Text,
    *,
    kind: Annotated[FactKind, typer.Option(help="Kind of the fact.")] = FactKind.OTHER,
    slot: Annotated[
        str | None,
        typer.Option(
            help="Replace the fact with the same kind and slot, such as the name of a pet."
        ),
    ] = None,
    pin: Annotated[
        bool, typer.Option("--pin", help="Do not let facts that are found later replace it.")
    ] = False,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Store a fact about a user.

    octopus facts add "Is allergic to peanuts." --kind constraint --pin
    """
    with open_or_make(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        made = scope.add_fact(text, kind, slot, pinned=pin)
    _say(made, as_json=as_json)


@facts.command()
def correct(
    fact_id: FactId,
    text: Text,
    *,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Replace the text of a fact. The old fact stays as history."""
    with open_existing(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        made = scope.correct_fact(fact_id, text)
    _say(made, as_json=as_json)


@facts.command()
def pin(
    fact_id: FactId,
    *,
    off: Annotated[bool, typer.Option("--off", help="Unpin the fact.")] = False,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Pin a fact: it is shown first, and facts that are found later do not replace it."""
    with open_existing(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        made = scope.pin_fact(fact_id, pinned=not off)
    _say(made, as_json=as_json)


@facts.command()
def delete(
    fact_id: FactId,
    *,
    yes: Yes = False,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Delete a fact for good. Its conversation stays and does not bring it back."""
    with open_existing(db) as memory:
        if not yes:
            ask(f"This deletes fact {fact_id} of user {user} for good.", "Delete?")
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        scope.delete_fact(fact_id)
    if as_json:
        print_json({"deleted": fact_id})
    else:
        Screen().write(f"Deleted fact {fact_id}.")


def _say(fact: Fact, *, as_json: bool) -> None:
    if as_json:
        print_json(fact)
    else:
        _show(Screen(), [fact])


def _show(screen: Screen, found: Sequence[Fact]) -> None:
    for fact in found:
        until = "" if fact.until is None else f" until {fact.until:%Y-%m-%d}"
        pinned = "  pinned" if fact.is_pinned else ""
        screen.write(
            (f"{fact.kind:<12}", "bold"),
            (f"{fact.since:%Y-%m-%d}{until}{pinned}  {fact.id}", "dim"),
        )
        screen.write(fact.text, indent=3)
