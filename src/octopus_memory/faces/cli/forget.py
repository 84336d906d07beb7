"""`octopus forget`: preview what is meant, then remove it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ..given import actor_of
from .database import Agent, AsJson, Db, Tenant, User, open_existing
from .erase import show_receipt
from .terminal import Screen, Yes, can_ask, print_json

if TYPE_CHECKING:
    from ...domain.forget import ForgetItem, ForgetPreview

_NOT_DONE = 1


def forget(
    about: Annotated[str | None, typer.Argument(help="What to forget, in a few words.")] = None,
    *,
    turn: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Also this turn. May be given several times."),
    ] = None,
    fact: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Also this fact. May be given several times."),
    ] = None,
    confirm: Annotated[
        str | None,
        typer.Option(metavar="TOKEN", help="Remove what the preview with this token showed."),
    ] = None,
    yes: Yes = False,
    db: Db = None,
    tenant: Tenant = "default",
    agent: Agent = "default",
    user: User = "me",
    as_json: AsJson = False,
) -> None:
    """Forget what a user said about something: show what would go, ask, and remove it.

    octopus forget "my mum's diabetes" --user ana
    """
    screen = Screen()
    with open_existing(db) as memory:
        scope = memory.scope(tenant=tenant, agent=agent, user=user, actor=actor_of("cli"))
        preview = None
        if confirm is None:
            preview = scope.forget(about, turns=turn or (), facts=fact or ())
            if not as_json:
                _show(screen, preview)
            if preview.is_clear and (yes or _agrees(as_json)):
                confirm = preview.token
        elif about is not None or turn or fact:
            raise typer.BadParameter("--confirm must be given alone: the preview names the items")
        receipt = None if confirm is None else scope.forget(confirm=confirm)
    if as_json:
        print_json({"preview": preview, "receipt": receipt and receipt.to_dict()})
    elif receipt is not None:
        show_receipt(screen, receipt)
    elif preview is not None and preview.is_clear:
        screen.write(f"Nothing is removed yet: octopus forget --confirm {preview.token}")
    is_clear = preview is None or preview.is_clear
    if not is_clear or (receipt is not None and not receipt.is_complete):
        raise typer.Exit(_NOT_DONE)


def _agrees(as_json: bool) -> bool:
    return not as_json and can_ask() and typer.confirm("Forget these?", err=True)


def _show(screen: Screen, preview: ForgetPreview) -> None:
    if preview.is_clear:
        screen.write("This would be removed:")
        _show_items(screen, preview.items)
        if preview.related:
            screen.write("This stays. Name it with --turn or --fact if it is meant, too:")
            _show_items(screen, preview.related, with_ids=True)
        return
    screen.write("Nothing is clearly about it, so nothing is removed.")
    if preview.items:
        screen.write("This may be meant. Name it with --turn or --fact:")
        _show_items(screen, preview.items, with_ids=True)


def _show_items(screen: Screen, items: Sequence[ForgetItem], *, with_ids: bool = False) -> None:
    for item in items:
        found = item.fact_id or item.turn_id
        shown = f"  {found}" if with_ids and found is not None else ""
        screen.write(
            (f"  {item.date:%Y-%m-%d}  {item.what:<8}  ", "dim"),
            item.text,
            (f"  ({item.reason}){shown}", "dim"),
        )
