"""The audit log: list, verify, export."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from ...domain.audit import AuditEntry
from ...domain.message import Json
from .database import AsJson, Db, Tenant, open_existing
from .terminal import Screen, counted, print_json

if TYPE_CHECKING:
    from ...engine.tenant import MemoryTenant
    from ...wiring import EpisodicMemory

audit = typer.Typer(
    help="The audit log: who erased, exported, changed or read what.",
    no_args_is_help=True,
)
_BROKEN = 1
_PAGE = 1_000
Installation = Annotated[
    bool,
    typer.Option(
        "--installation", help="Use the log of the whole installation.", rich_help_panel="Scope"
    ),
]


@audit.command("list")
def list_(
    *,
    user: Annotated[
        str | None, typer.Option("--user", help="Only entries about this user.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many entries.")] = 20,
    tenant: Tenant = "default",
    installation: Installation = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Show the last entries, oldest first.

    octopus audit list --user ana
    """
    with open_existing(db) as memory:
        subject = None if user is None else memory.tenant(tenant).subject(user)
        log = _entries(_log(memory, tenant, installation=installation))
        found = deque((entry for entry in log if subject in (None, entry.subject)), limit)
    if as_json:
        print_json([_plain(entry) for entry in found])
        return
    screen = Screen()
    if not found:
        screen.write("The log is empty.")
    for entry in found:
        screen.write(
            (f"{entry.seq:>5}  ", "dim"),
            (f"{entry.at:%Y-%m-%d %H:%M:%S}", "bold"),
            f"  {entry.action}  {entry.outcome}",
            (f"  by {entry.actor}", ""),
            (f"  on {entry.subject[:12]}" if entry.subject else "", "dim"),
        )


@audit.command()
def verify(
    *,
    head: Annotated[
        str | None,
        typer.Option(
            "--head", metavar="HASH", help="Also check that this earlier head is still in the log."
        ),
    ] = None,
    tenant: Tenant = "default",
    installation: Installation = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Check every entry against its hash.

    Keep the printed head somewhere else, and give it as --head next time.

    octopus audit verify
    """
    with open_existing(db) as memory:
        found = _log(memory, tenant, installation=installation).verify_audit(head=head)
    if as_json:
        print_json(
            {
                "whole": found.is_whole,
                "entries": found.entries,
                "head": found.head,
                "broken_at": found.broken_at,
                "knows_head": found.knows_head,
            }
        )
    else:
        screen = Screen()
        if found.broken_at is not None:
            screen.write((f"Broken at entry {found.broken_at:,}: ", "red"), _BREAK)
        elif found.knows_head is False:
            screen.write(("The given head is not in this log: ", "red"), _BREAK)
        else:
            screen.write(f"Intact: {counted(found.entries, 'entry', 'entries')}.")
        screen.write(("head  ", "dim"), found.head)
    if not found.is_whole:
        raise typer.Exit(_BROKEN)


_BREAK = "entries were changed, removed or added outside Octopus."


@audit.command()
def export(
    *, tenant: Tenant = "default", installation: Installation = False, db: Db = None
) -> None:
    """Print the whole log, one JSON object per line.

    octopus audit export
    """
    with open_existing(db) as memory:
        for entry in _entries(_log(memory, tenant, installation=installation)):
            print_json(_plain(entry), indent=None)


def _log(
    memory: EpisodicMemory, tenant: str, *, installation: bool
) -> EpisodicMemory | MemoryTenant:
    """The object whose `audit` reads the log that the options name."""
    return memory if installation else memory.tenant(tenant)


def _entries(log: EpisodicMemory | MemoryTenant) -> Iterator[AuditEntry]:
    after = 0
    while page := log.audit(after=after, limit=_PAGE):
        yield from page
        after = page[-1].seq


def _plain(entry: AuditEntry) -> dict[str, Json]:
    return {
        "tenant": entry.tenant,
        "seq": entry.seq,
        "at": entry.at.isoformat(),
        "actor": entry.actor,
        "action": entry.action,
        "subject": entry.subject,
        "outcome": entry.outcome,
        "detail": dict(entry.detail),
        "previous": entry.previous.hex(),
        "hash": entry.hash.hex(),
    }
