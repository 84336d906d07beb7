"""`octopus doctor`: what is configured, what works, and what to do about the rest."""

from __future__ import annotations

import contextlib

import typer

from ..urls import as_url
from .checks import Check, Status, run_checks
from .json_output import print_json
from .options import AsJson, Db
from .terminal import Screen

_MARKS = {
    Status.OK: ("ok", "green"),
    Status.NOTE: ("note", "cyan"),
    Status.WARNING: ("warn", "yellow"),
    Status.FAILED: ("FAIL", "bold red"),
}
_NAME_WIDTH = 14
_MARK_WIDTH = 6


def doctor(*, db: Db = None, as_json: AsJson = False) -> None:
    """Check that everything works, and say what to do where it does not.

    Where a model is set to write summaries, it is asked for one, of a made-up sentence.
    The exit code is 1 if something that Octopus needs fails.
    """
    screen = Screen()
    checks: list[Check] = []
    waiting = screen.console.status("looking…") if screen.is_terminal and not as_json else None
    with waiting or contextlib.nullcontext():
        for check in run_checks(as_url(db)):
            checks.append(check)
            if not as_json:
                _show(screen, check)
    failed = [check.name for check in checks if check.status is Status.FAILED]
    if as_json:
        print_json({"healthy": not failed, "checks": checks})
    else:
        screen.gap()
        if failed:
            screen.write((f"To mend: {', '.join(failed)}.", "bold red"))
        else:
            screen.write(("Everything that Octopus needs works.", "bold green"))
    if failed:
        raise typer.Exit(1)


def _show(screen: Screen, check: Check) -> None:
    mark, style = _MARKS[check.status]
    lead = (f"{mark:<{_MARK_WIDTH}}", style), (f"{check.name:<{_NAME_WIDTH}}", "bold")
    screen.row(*lead, text=check.detail)
    if check.remedy is not None:
        screen.row(("→ ", "cyan"), text=check.remedy, indent=_MARK_WIDTH + _NAME_WIDTH)
