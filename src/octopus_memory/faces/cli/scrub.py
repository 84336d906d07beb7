"""`octopus scrub`: replace personal data that is stored already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...ports.recall_rows import WorkKind
from ..given import actor_of
from .database import AsJson, Db, Tenant, open_existing
from .progress import bar
from .terminal import Screen, Yes, ask, counted, print_json

if TYPE_CHECKING:
    from ... import ScrubReport
    from ...wiring import EpisodicMemory

_NOT_COMPLETE = 1


def scrub(
    *,
    user: Annotated[
        str | None,
        typer.Option("--user", help="Only the memory of this user.", rich_help_panel="Scope"),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", help="Only the memory of this agent.", rich_help_panel="Scope"),
    ] = None,
    tenant: Tenant = "default",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
    numbered: Annotated[
        bool | None,
        typer.Option(
            "--numbered/--plain", help="[EMAIL_1] or [EMAIL]. Default: the setting of the agent."
        ),
    ] = None,
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
    """Replace stored personal data for good, by [EMAIL], [PERSON_NAME] and so on.

    octopus scrub --dry-run
    """
    with open_existing(db) as memory:
        episodes = _episodes(memory, tenant, user, agent)
        if not (yes or dry_run):
            _ask(episodes, tenant, user, agent)
        with bar("scrub", episodes) as done:
            report = memory.tenant(tenant).scrub(
                user=user,
                agent=agent,
                dry_run=dry_run,
                numbered=numbered,
                compact=not no_compact,
                progress=lambda sofar: done(sofar.episodes),
                actor=actor_of("cli"),
            )
        waiting = memory.backlog()[WorkKind.EMBED].waiting
    if as_json:
        print_json(report)
    else:
        _show(Screen(), report, waiting)
    if not report.is_complete or report.compacted is False:
        raise typer.Exit(_NOT_COMPLETE)


def _episodes(memory: EpisodicMemory, tenant: str, user: str | None, agent: str | None) -> int:
    agents = None if agent is None else [agent]
    listed = memory.tenant(tenant).episodes(
        page_size=1, agents=agents, user=user, actor=actor_of("cli")
    )
    return listed.total_count


def _ask(episodes: int, tenant: str, user: str | None, agent: str | None) -> None:
    ask(
        f"This replaces the personal data in {counted(episodes, 'episode')} of "
        f"{'every user' if user is None else f'user {user}'} in tenant {tenant}, with "
        f"{'every agent' if agent is None else f'agent {agent}'}, for good. "
        "octopus scrub --dry-run counts what would change.",
        "Scrub?",
    )


def _show(screen: Screen, report: ScrubReport, waiting: int) -> None:
    looked = f"{counted(report.turns, 'message')} in {counted(report.episodes, 'episode')}"
    screen.write(("checked       ", "dim"), looked)
    changed = {
        "message": report.changed_turns,
        "summary": report.changed_summaries,
        "fact": report.changed_facts,
        "session's metadata": report.changed_metadata,
        "query of the ledger": report.changed_queries,
    }
    words = ", ".join(f"{what} {number:,}" for what, number in changed.items() if number)
    label = "would change" if report.dry_run else "changed"
    screen.write((f"{label:<14}", "dim"), words or "nothing")
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in report.kinds.items())
    if kinds:
        screen.write(("found         ", "dim"), kinds)
    if report.held:
        screen.write(
            ("held          ", "dim"),
            f"{counted(report.held, 'episode')} not changed: octopus holds list says why",
        )
    if report.failed:
        screen.write(
            ("failed        ", "dim"),
            f"{counted(report.failed, 'session')} not finished: run octopus scrub again",
        )
    _show_rest(screen, report, waiting)


def _show_rest(screen: Screen, report: ScrubReport, waiting: int) -> None:
    if report.dry_run:
        return
    if report.compacted:
        screen.write(("files         ", "dim"), "rewritten")
    elif report.compacted is False:
        screen.write(
            ("files         ", "dim"),
            "not rewritten: run octopus compact, which does it or says why not",
        )
    if waiting:
        screen.write(
            ("to embed      ", "dim"), f"{waiting:,}: octopus run-pending or a worker does it"
        )
