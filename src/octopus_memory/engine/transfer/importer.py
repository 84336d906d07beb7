"""Import of an export or of another program's transcripts, one transaction per episode.

An import that was interrupted can be run again, because existing episodes are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import fields
from itertools import chain

from ...domain.episode import check_name
from ...domain.errors import EpisodeChanged, InvalidInput, StoreError
from ...domain.transfer.export_format import ImportReport
from ...domain.transfer.transcripts import ImportSource, detect
from ..core import audit
from ..core.runtime import Runtime
from . import import_octopus, import_transcripts
from .import_run import ImportRun

_MOST_BLANK = 1024 * 1024


def import_user(
    runtime: Runtime,
    tenant: str,
    lines: Iterable[str],
    *,
    user: str | None,
    agent: str | None,
    source: str | None,
    longest: int,
    actor: str,
) -> ImportReport:
    """Import an export's lines, or the text of another program's file in pieces of any size.

    :raises InvalidInput: naming the line and the field, or the conversation; everything before it
        is imported
    """
    for field, name in (("user", user), ("agent", agent), ("actor", actor)):
        if name is not None:
            check_name(field, name)
    pieces = iter(lines)
    begun = _up_to_words(pieces)
    run = ImportRun(runtime, tenant, user, agent, _source(source, "".join(begun)))
    try:
        _run(run, chain(begun, pieces), longest)
    except Exception as error:
        # A failed database cannot record the failure.
        with suppress(StoreError):
            _record(run, actor=actor, outcome="failed")
        if isinstance(error, InvalidInput | EpisodeChanged):
            raise _explained(error, run.report) from error
        raise
    _record(run, actor=actor, outcome="done")
    return run.report


def _record(run: ImportRun, *, actor: str, outcome: str) -> None:
    report = run.report
    audit.record(
        run.runtime,
        "import",
        tenant=run.tenant,
        actor=actor,
        user=run.user,
        outcome=outcome,
        **{each.name: getattr(report, each.name) for each in fields(report)},
    )


def _up_to_words(pieces: Iterator[str]) -> list[str]:
    """Read up to the first piece that is not blank, from which the format is detected."""
    begun, length = [], 0
    for piece in pieces:
        begun.append(piece)
        length += len(piece)
        if piece.strip():
            break
        if length > _MOST_BLANK:
            raise InvalidInput("file", f"must begin with at most {_MOST_BLANK:,} blanks")
    return begun


def _source(given: str | None, first: str) -> ImportSource:
    if given is None:
        return detect(first)
    try:
        return ImportSource(given)
    except ValueError as error:
        raise InvalidInput("source", f"must be one of {', '.join(ImportSource)}") from error


def _run(run: ImportRun, pieces: Iterable[str], longest: int) -> None:
    if run.source is ImportSource.OCTOPUS:
        import_octopus.import_lines(run, pieces)
    else:
        import_transcripts.import_conversations(run, pieces, longest)


def _explained(error: InvalidInput | EpisodeChanged, report: ImportReport) -> InvalidInput:
    if isinstance(error, EpisodeChanged):
        error = InvalidInput(
            "session_id", f"{error.session_id!r} must not have an open episode: close it first"
        )
    there = report.episodes + report.passed_over
    so_far = f"the {there:,} before it are in, and are passed over when this is run again"
    return type(error)(
        error.field, f"{error.problem} ({so_far if there else 'no episode is imported'})"
    )
