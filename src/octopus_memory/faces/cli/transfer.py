"""`octopus export`, `octopus import` and `octopus migrate`."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from ...domain.errors import InvalidInput
from ...domain.transfer.export_format import ImportReport, is_header
from ...domain.transfer.export_reader import read_lines, split_lines
from ...domain.transfer.transcripts import ImportSource
from ..given import actor_of, as_url, shown_url
from .database import AsJson, Db, Tenant, User, open_existing, open_or_make_once_used, sqlite_file
from .progress import bar, byte_bar
from .terminal import Screen, counted, print_json

_CHUNK = 64 * 1024
_END = '{"kind":"episode_end"'


def export(
    *,
    user: User = "me",
    tenant: Tenant = "default",
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            help="Only the memory of this agent. Default: of all.",
            rich_help_panel="Scope",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The file to write. Default: standard output."),
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Export everything of one user as JSON Lines.

    octopus export --user ana --out ana.jsonl
    """
    with open_existing(db) as memory:
        lines = memory.tenant(tenant).export_user(user, agent=agent, actor=actor_of("cli"))
        listed = memory.tenant(tenant).episodes(page_size=1, user=user, actor=actor_of("cli"))
        with bar("exporting", listed.total_count) as done, _sink(out) as write:
            trailer = _write(lines, write, done)
    if out is None:
        # Standard output holds the export itself.
        return
    if as_json:
        print_json({name: trailer[name] for name in ("episodes", "turns", "facts", "sha256")})
        return
    Screen().write(
        f"Exported {counted(trailer['episodes'], 'episode')} with "
        f"{counted(trailer['turns'], 'message')} of user {user} to {out}."
    )


def _write(
    lines: Iterable[str], write: Callable[[str], Any], done: Callable[[int], None]
) -> dict[str, Any]:
    """Write the lines. Return the last one, which has the counts."""
    ended, line = 0, "{}"
    for line in lines:
        write(line)
        if line.startswith(_END):
            ended += 1
            done(ended)
    trailer: dict[str, Any] = json.loads(line)
    return trailer


@contextmanager
def _sink(out: Path | None) -> Iterator[Callable[[str], Any]]:
    if out is None:
        with _standard_output() as write:
            yield write
        return
    if not out.name or out.is_dir():
        raise InvalidInput("out", f"{str(out)!r} is a folder: give a file")
    # Written to a temporary file that only its owner can read, and renamed when it is complete.
    part = out.with_name(f"{out.name}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            yield stream.write
        part.replace(out)
    except OSError as error:
        raise InvalidInput("out", f"cannot write {out}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def _standard_output() -> Iterator[Callable[[str], Any]]:
    """Write UTF-8 with plain line ends, whatever the terminal uses."""
    sys.stdout.flush()
    stream = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="\n")
    try:
        yield stream.write
        stream.flush()
    finally:
        stream.detach()


def import_(
    file: Annotated[
        str, typer.Argument(help="The file to import; - reads standard input.", metavar="FILE")
    ],
    *,
    source: Annotated[
        ImportSource | None,
        typer.Option("--format", help="Format of the file. Default: guessed from its beginning."),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            help="User to import for. Default: the one that the export names.",
            rich_help_panel="Scope",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            help="Agent to import for. Default: those that the export names, or default.",
            rich_help_panel="Scope",
        ),
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            help="Tenant to import into. Default: the one that the export names, or default.",
            rich_help_panel="Scope",
        ),
    ] = None,
    db: Db = None,
    as_json: AsJson = False,
) -> None:
    """Import an export, or conversations of other programs.

    octopus import ana.jsonl

    octopus import conversations.json --user ana
    """
    with _source(file) as stream:
        first = _first(stream)
        header = _header(first)
        if header and stream.seekable():
            _check(stream, first)
        with open_or_make_once_used(db) as memory, _watched(stream, "importing") as watched:
            report = memory.tenant(tenant or header.get("tenant") or "default").import_user(
                watched(_pieces(stream, first, by_line=bool(header))),
                user=user,
                agent=agent,
                source=source,
                actor=actor_of("cli"),
            )
    for warning in report.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if as_json:
        print_json(report.to_dict())
    else:
        _say_imported(Screen(), report)


@contextmanager
def _utf_8() -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidInput("file", "must be UTF-8: save it in that encoding") from error


@contextmanager
def _before_all() -> Iterator[None]:
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(error.field, f"{error.problem} (nothing was imported)") from error


def _first(stream: IO[str]) -> str:
    with _before_all(), _utf_8():
        return stream.readline(_CHUNK)


def _pieces(stream: IO[str], first: str, *, by_line: bool) -> Iterator[str]:
    with _utf_8():
        # A file of another program may be one line of any length.
        pieces = chain([first], iter(partial(stream.read, _CHUNK), ""))
        yield from split_lines(pieces) if by_line else pieces


@contextmanager
def _watched(stream: IO[str], label: str) -> Iterator[Callable[[Iterable[str]], Iterator[str]]]:
    """Give a function that shows the progress while pieces of the file are read."""
    raw: Any = getattr(stream, "buffer")  # noqa: B009 - only a TextIOWrapper has it
    try:
        size = os.fstat(raw.fileno()).st_size if raw.seekable() else None
    except OSError:
        # The stream is not a file of the system.
        size = None
    with byte_bar(label, size) as done:

        def watched(pieces: Iterable[str]) -> Iterator[str]:
            taken = 0
            for piece in pieces:
                yield piece
                taken += len(piece)
                # The size of a pipe is unknown, so its characters are counted.
                done(raw.tell() if size is not None else taken)

        yield watched


def _check(stream: IO[str], first: str) -> None:
    """Check an export to its end before anything is stored."""
    with _before_all(), _watched(stream, "checking") as watched:
        for _ in read_lines(watched(_pieces(stream, first, by_line=True))):
            pass
    stream.seek(0)
    stream.readline()


def _header(first: str) -> dict[str, Any]:
    """Return the first line of an export; None for another file."""
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return {}
    return value if is_header(value) else {}


@contextmanager
def _source(file: str) -> Iterator[IO[str]]:
    try:
        raw = sys.stdin.buffer if file == "-" else Path(file).open("rb")  # noqa: SIM115 - see below
    except OSError as error:
        raise InvalidInput("file", f"cannot read {file}: {error.strerror}") from error
    with io.TextIOWrapper(raw, encoding="utf-8-sig", newline="\n") as stream:
        yield stream


def _say_imported(screen: Screen, report: ImportReport) -> None:
    screen.write(
        f"Imported {counted(report.episodes, 'episode')} with {counted(report.turns, 'message')}."
    )
    if report.passed_over:
        screen.write(f"Skipped {counted(report.passed_over, 'episode')} that exist already.")
    if report.given_new_ids:
        screen.write(
            f"Gave new ids to {counted(report.given_new_ids, 'episode')}, because the database "
            "uses theirs for another scope."
        )
    if report.left_out:
        screen.write(
            f"Left out {counted(report.left_out, 'message')} that were not part of the "
            "conversation: hidden instructions, reasoning, empty ones."
        )
    if report.episodes:
        screen.write("octopus run-pending embeds them; until then they are found by their words.")


def migrate(
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="URL",
            help="The database to copy: a URL or a path. It is only read.",
        ),
    ],
    target: Annotated[
        str,
        typer.Option("--to", metavar="URL", help="The empty database to copy it to."),
    ],
    as_json: AsJson = False,
) -> None:
    """Copy a whole database into an empty one, and compare the two.

    octopus migrate --from sqlite:///memory.db --to postgresql://octopus@localhost/octopus
    """
    from ...wiring import move

    source, target = as_url(source) or "", as_url(target) or ""
    file = sqlite_file(source)
    if file is not None and not file.exists():
        raise InvalidInput("--from", f"no such file: {file}")
    with bar("moving", 100) as show:
        moved = move(source, target, lambda done, total: show(100 * done // max(1, total)))
    if as_json:
        print_json(
            {
                "rows": moved.rows,
                "copied": moved.copied,
                "resumed": moved.resumed,
                "tables": moved.tables,
            }
        )
        return
    screen = Screen()
    screen.write(
        f"Copied {counted(moved.rows, 'row')} from {shown_url(source)} to {shown_url(target)}; "
        "compared every row."
    )
    for table in moved.tables:
        if table.rows:
            line = f"{table.name:<24}{table.rows:>12,}  {table.checksum[:16]}"
            screen.write((line, "dim"))
    if moved.resumed:
        screen.write(
            f"An earlier run had copied {counted(moved.rows - moved.copied, 'row')} of them."
        )
