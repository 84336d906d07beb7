"""`octopus erase`, `octopus receipts` and `octopus compact`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from ...domain.erasure import EraseReceipt, FileSearch, Subject, copies_in_words
from ...domain.errors import InvalidInput, NotFound
from ..given import actor_of, as_url, shown_url
from .database import AsJson, Db, Tenant, open_existing
from .terminal import Screen, Yes, ask, counted, print_json

if TYPE_CHECKING:
    from ...wiring import EpisodicMemory

receipts = typer.Typer(help="Receipts of erasures.", no_args_is_help=True)
_NOT_COMPLETE = 1


def erase(
    *,
    user: Annotated[
        str,
        typer.Option("--user", help="The user whose memory is erased.", rich_help_panel="Scope"),
    ],
    agent: Annotated[
        str | None,
        typer.Option("--agent", help="Only the memory of this agent.", rich_help_panel="Scope"),
    ] = None,
    tenant: Tenant = "default",
    episode: Annotated[
        str | None,
        typer.Option("--episode", metavar="ID", help="Only this episode; needs --agent."),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Search the database files for erased bytes afterwards."),
    ] = False,
    no_compact: Annotated[
        bool,
        typer.Option(
            "--no-compact", help="Do not rewrite the files now; octopus compact does it later."
        ),
    ] = False,
    yes: Yes = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Erase everything of a user for good: rows, vectors, caches and bytes in the files.

    octopus erase --user ana --verify
    """
    from ...settings import load

    subject = _subject(tenant, user, agent, episode)
    with open_existing(db) as memory:
        if not yes:
            _ask(memory, subject)
        trace = None
        if verify:
            trace = memory.tenant(tenant).trace(user, agent=agent, episode_id=subject.episode_id)
        receipt = _erase(memory, subject, physical=not no_compact)
        search = None if trace is None else trace.search()
    if as_json:
        print_json({"receipt": receipt.to_dict(), "files": search})
    else:
        screen = Screen()
        show_receipt(screen, receipt)
        if not any(receipt.removed.values()):
            where = shown_url(load(database_url=as_url(db)).url)
            screen.write(f"Nothing to erase: no data of user {user} in tenant {tenant} of {where}.")
        if verify:
            _show_search(screen, search)
    done = receipt.is_complete or (no_compact and not _is_wrong(receipt))
    if not done or (search is not None and search.found):
        raise typer.Exit(_NOT_COMPLETE)


def _is_wrong(receipt: EraseReceipt) -> bool:
    """Return whether something other than the rewrite of the files is unfinished."""
    return bool(receipt.pending) or any(receipt.left.values())


def _subject(tenant: str, user: str, agent: str | None, episode: str | None) -> Subject:
    if episode is None:
        return Subject(tenant=tenant, user=user, agent=agent)
    if agent is None:
        raise typer.BadParameter("--episode needs --agent")
    try:
        return Subject(tenant=tenant, user=user, agent=agent, episode_id=UUID(episode))
    except ValueError as error:
        raise typer.BadParameter(f"{episode!r} is not the id of an episode") from error


def _ask(memory: EpisodicMemory, subject: Subject) -> None:
    episodes = memory.tenant(subject.tenant).erasable(subject.user, agent=subject.agent)
    what = "one episode" if subject.episode_id else counted(episodes, "episode")
    agents = "every agent" if subject.agent is None else f"agent {subject.agent}"
    ask(
        f"This removes {what} of user {subject.user} in tenant {subject.tenant}, with {agents}, "
        "for good.",
        "Erase?",
    )


def _erase(memory: EpisodicMemory, subject: Subject, *, physical: bool) -> EraseReceipt:
    if subject.episode_id is None:
        return memory.tenant(subject.tenant).erase_user(
            subject.user, agent=subject.agent, physical=physical, actor=actor_of("cli")
        )
    scope = memory.scope(tenant=subject.tenant, agent=subject.agent or "default", user=subject.user)
    return scope.erase_episode(subject.episode_id, physical=physical, actor=actor_of("cli"))


def compact(*, db: Db = None, as_json: AsJson = False) -> None:
    """Rewrite the database files, so that removed data cannot be read from them.

    octopus compact
    """
    with open_existing(db) as memory:
        before = memory.stats().size_bytes
        done = memory.compact(actor=actor_of("cli"))
        after = memory.stats().size_bytes
    if as_json:
        print_json({"compacted": done, "bytes_before": before, "bytes_after": after})
    elif done:
        sizes = "" if before is None or after is None else f": {before:,} bytes are now {after:,}"
        Screen().write(f"Rewritten{sizes}.")
    else:
        Screen().write("The database is in use. Run octopus compact again later.")
    if not done:
        raise typer.Exit(_NOT_COMPLETE)


@receipts.command("list")
def list_(
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many receipts.")] = 20,
    tenant: Tenant = "default",
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """List the receipts of a tenant, newest first.

    octopus receipts list
    """
    with open_existing(db) as memory:
        found = memory.tenant(tenant).receipts(limit=limit)
    if as_json:
        print_json([receipt.to_dict() for receipt in found])
        return
    screen = Screen()
    if not found:
        screen.write(f"Nothing was erased in tenant {tenant}.")
    for receipt in found:
        turns = counted(receipt.removed.get("turns", 0), "turn")
        screen.write(
            (f"{receipt.at:%Y-%m-%d %H:%M}", "bold"),
            f"  {receipt.id}  {turns}, {state_of(receipt)}",
        )


@receipts.command()
def show(
    receipt_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the receipt.")],
    *,
    tenant: Tenant = "default",
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Show one receipt. --json prints the form that its SHA-256 covers.

    octopus receipts show 01997f3e-6c0b-7cc3-98a5-3f0a4d1e2b3c
    """
    try:
        wanted = UUID(receipt_id)
    except ValueError as error:
        raise InvalidInput("ID", f"{receipt_id!r} is not the id of a receipt") from error
    with open_existing(db) as memory:
        try:
            receipt = memory.tenant(tenant).receipt(wanted)
        except NotFound as error:
            raise NotFound(
                f"no receipt {wanted} in tenant {tenant}: octopus receipts list shows them"
            ) from error
    if as_json:
        print_json(receipt.to_dict())
    else:
        show_receipt(Screen(), receipt)


def _show_search(screen: Screen, search: FileSearch | None) -> None:
    if search is None:
        screen.write(
            ("search   ", "dim"),
            "not possible: the files are on the database server; see its guide",
        )
        return
    read = ", ".join(f"{name} ({size:,} bytes)" for name, size in search.files.items())
    screen.write(
        ("search   ", "dim"), f"{counted(search.sought, 'byte string')} searched in {read}"
    )
    found = ", ".join(f"{number:,} of {kind}" for kind, number in search.found.items())
    screen.write(("found    ", "dim"), found or "none")


def state_of(receipt: EraseReceipt) -> str:
    if receipt.is_complete:
        return "complete"
    if receipt.pending:
        return f"not complete: {', '.join(receipt.pending)} pending"
    if any(receipt.left.values()):
        return "not complete: something is left"
    return "not complete: the files are not rewritten yet (octopus compact)"


def show_receipt(screen: Screen, receipt: EraseReceipt) -> None:
    screen.write(("receipt  ", "dim"), f"{receipt.id}, {receipt.at:%Y-%m-%d %H:%M:%S} UTC")
    screen.write(("subject  ", "dim"), receipt.subject)
    gone = [f"{place} {number:,}" for place, number in receipt.removed.items() if number]
    screen.write(("removed  ", "dim"), ", ".join(gone) or "nothing")
    left = [f"{place} {number:,}" for place, number in receipt.left.items() if number]
    screen.write(("left     ", "dim"), ", ".join(left) or "nothing")
    where = f" on {', '.join(receipt.nodes)}" if receipt.nodes else ""
    rewritten = f"rewritten{where}" if receipt.physical else "not rewritten yet"
    screen.write(("files    ", "dim"), rewritten)
    if receipt.copies is not None:
        screen.write(("copies   ", "dim"), copies_in_words(receipt.copies))
    screen.write(("state    ", "dim"), state_of(receipt))
    screen.write(("SHA-256  ", "dim"), receipt.sha256)
