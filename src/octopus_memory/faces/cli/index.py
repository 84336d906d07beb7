"""`octopus index`: verify, rebuild and drop the remote index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .database import AsJson, Db, open_existing
from .progress import bar, watch_backlog
from .terminal import Screen, counted, print_json, to_plain

if TYPE_CHECKING:
    from ...engine.work.mirror import IndexReport

index = typer.Typer(help="The mirror of the vectors in pgvector or Qdrant.", no_args_is_help=True)
_DIFFERS = 1
_MOST_LINES = 20


@index.command()
def verify(
    *,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Add missing rows and remove extra ones."),
    ] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Compare the index with the store. Exit code 1 if they differ.

    octopus index verify --repair
    """
    with open_existing(db) as memory, watch_backlog("feeding", memory):
        report = memory.mirror.verify(repair=repair)
    _show(report, as_json=as_json)


@index.command()
def rebuild(*, db: Db = None, as_json: AsJson = False) -> None:
    """Rebuild the index from the store. Recall works meanwhile.

    octopus index rebuild --db postgresql://owner@localhost/octopus
    """
    with open_existing(db) as memory:
        mirror = memory.mirror
        with bar("rebuilding", mirror.rows()) as done, watch_backlog("rebuilding", memory):
            report = mirror.rebuild(done)
    _show(report, as_json=as_json)


@index.command()
def drop(
    *,
    abandon: Annotated[
        bool,
        typer.Option(
            "--abandon", help="Leave the mirror as it is, because its server is gone for good."
        ),
    ] = False,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Remove the mirror and stop updating it. The store keeps every vector.

    Afterwards set index to exact.

    octopus index drop
    """
    with open_existing(db) as memory:
        gone = memory.mirror.drop(abandon=abandon)
    if as_json:
        print_json({"removed": gone, "abandoned": abandon})
    elif abandon:
        Screen().write("The mirror is no longer updated. Its rows were not removed.")
    else:
        Screen().write(f"Removed {', '.join(gone) or 'nothing'}. The mirror is no longer updated.")


def _show(report: IndexReport, *, as_json: bool) -> None:
    if as_json:
        plain = to_plain(report)
        print_json((plain if isinstance(plain, dict) else {}) | {"is_true": report.is_true})
    else:
        _say(Screen(), report)
    if not report.is_true and not report.repaired:
        raise typer.Exit(_DIFFERS)


def _say(screen: Screen, report: IndexReport) -> None:
    if report.index == "exact":
        screen.write("The index is the store itself, so there is no mirror to compare.")
        return
    screen.write(
        f"{report.index}: compared {counted(report.rows, 'row')} of "
        f"{counted(report.scopes, 'scope')}, model {report.model}."
    )
    if report.waiting:
        screen.write(f"{counted(report.waiting, 'change')} pending in another process.")
    if report.is_true:
        screen.write("The index matches the store.")
        return
    screen.write(
        f"{report.missing:,} missing, {report.extra:,} extra, {report.changed:,} with another "
        "vector:"
    )
    for scope in report.drifted[:_MOST_LINES]:
        screen.write(
            f"scope {scope.scope_id}: {scope.missing} missing, {scope.extra} extra, "
            f"{scope.changed} changed",
            indent=2,
        )
    if report.repaired:
        screen.write("Repaired. Run octopus index verify again to check.")
    else:
        screen.write(
            "octopus index verify --repair repairs it; octopus index rebuild starts again."
        )
