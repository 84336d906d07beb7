"""`octopus doctor`: check what is configured and what works."""

from __future__ import annotations

import contextlib
import platform
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING

import typer

from ...domain.episode import Turn
from ...domain.errors import MissingExtra, OctopusError, ScopeKeyError
from ...domain.ids import new_id
from ...domain.message import Message
from ...domain.retention import policy_in_words
from ..given import as_url, shown_url
from .database import AsJson, Db, released
from .doctor_database import (
    ABOUT_KEYS,
    DISTRIBUTION,
    Check,
    Found,
    Status,
    around_database,
    check_database,
)
from .terminal import Screen, counted, print_json

if TYPE_CHECKING:
    from ...ports.admin import DatabaseReport
    from ...settings import Settings


_MARKS = {
    Status.OK: ("ok", "green"),
    Status.NOTE: ("note", "cyan"),
    Status.WARNING: ("warn", "yellow"),
    Status.FAILED: ("FAIL", "bold red"),
}
_NAME_WIDTH = 14
_MARK_WIDTH = 6
_FOR_DEVELOPERS = "dev"
_SAMPLE = "The user prefers to be addressed formally."
_SUMMARY_SECONDS = 15.0
_REQUIREMENT = re.compile(r"([\w.-]+).*;\s*extra\s*==\s*['\"]([\w.-]+)['\"]")
_REMEDIES = {
    "database": "repair the database, or name another with --db or OCTOPUS_DATABASE_URL",
    "embedder": "check OCTOPUS_EMBEDDER, or reinstall octopus-memory",
    "summarizer": "check OCTOPUS_SUMMARIZER; extractive needs no model",
    "tokenizer": "check OCTOPUS_TOKENIZER; approximate always works",
    "chat model": "check OCTOPUS_OPENAI_BASE_URL and OCTOPUS_OPENAI_API_KEY",
    "retention": "correct the table [memory.retention] in octopus.toml",
    "pending work": "check the database",
    "extras": "reinstall octopus-memory",
}


def doctor(*, db: Db = None, as_json: AsJson = False) -> None:
    """Check the configuration and every part of Octopus.

    If a model is configured for summaries, it is asked to summarize a sample sentence.
    The exit code is 1 if something that Octopus needs fails.
    """
    screen = Screen()
    checks: list[Check] = []
    waiting = screen.console.status("checking…") if screen.is_terminal and not as_json else None
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
            screen.write((f"Failed: {', '.join(failed)}.", "bold red"))
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


def run_checks(db_url: str | None) -> Iterator[Check]:
    """Yield the result of each check as it is made."""
    from ...settings import load

    yield _versions()
    try:
        settings = load(database_url=db_url)
    except OctopusError as error:
        yield Check(
            "settings",
            Status.FAILED,
            str(error),
            remedy="correct it in octopus.toml or in the environment (OCTOPUS_…)",
        )
        return
    yield _settings(settings)
    found = Found()
    database = _guarded("database", lambda given: check_database(given, found), settings)
    yield database
    yield from around_database(settings, found, opens=database.status is not Status.FAILED)
    yield _guarded("embedder", _embedder, settings)
    yield _guarded("summarizer", _summarizer, settings)
    yield _guarded("tokenizer", _tokenizer, settings)
    yield _guarded("chat model", _chat_model, settings)
    yield _guarded("retention", _retention, settings)
    if database.status is not Status.FAILED:
        yield _guarded("pending work", lambda given: _pending(given, found.report), settings)
        yield _lost(found.report)
    yield _guarded("extras", _extras, settings)


def _guarded(name: str, check: Callable[[Settings], Check], settings: Settings) -> Check:
    try:
        return check(settings)
    except MissingExtra as error:
        remedy = f"pip install '{DISTRIBUTION}[{error.extra}]'"
        return Check(name, Status.FAILED, str(error), remedy=remedy)
    except ScopeKeyError as error:
        # It says its own remedy.
        return Check(name, Status.FAILED, str(error), remedy=ABOUT_KEYS)
    except OctopusError as error:
        return Check(name, Status.FAILED, str(error), remedy=_REMEDIES[name])
    except Exception as error:  # noqa: BLE001 - one failed check must not stop the others
        detail = f"{type(error).__name__}: {error}"
        return Check(name, Status.FAILED, detail, remedy=_REMEDIES[name])


def _versions() -> Check:
    from ... import __version__

    detail = (
        f"Octopus {__version__}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.machine()}"
    )
    return Check("versions", Status.OK, detail)


def _settings(settings: Settings) -> Check:
    from ...settings import FILE

    file = f"{FILE} is read" if FILE.exists() else f"no {FILE} here"
    # Names only, because a value may be a secret.
    chosen = ", ".join(settings.chosen()) or "none, all defaults"
    return Check("settings", Status.OK, f"{file}; set: {chosen}")


def _embedder(settings: Settings) -> Check:
    from ...wiring import make_embedder

    start = time.perf_counter()
    embedder = make_embedder(settings)
    with released(embedder):
        embedder.embed([_SAMPLE])
        loaded = time.perf_counter()
        embedder.embed([_SAMPLE])
        again = time.perf_counter()
    detail = (
        f"{embedder.model}, {embedder.dimension} dimensions; first text after "
        f"{loaded - start:.1f} s, the next in {(again - loaded) * 1000:.0f} ms"
    )
    return Check("embedder", Status.OK, detail)


def _summarizer(settings: Settings) -> Check:
    from ...wiring import make_summarizer

    model = make_summarizer(settings)
    if model is None:
        return Check("summarizer", Status.OK, "extractive, needs no model")
    try:
        with released(model):
            model.summarize([_sample_turn()], timeout=_SUMMARY_SECONDS)
    except OctopusError as error:
        return Check(
            "summarizer",
            Status.WARNING,
            str(error),
            remedy="until it answers, episodes get extractive summaries",
        )
    form = getattr(model, "form", None)
    detail = f"{model.name} answers" + (f" in the form {form}" if form else "")
    return Check("summarizer", Status.OK, detail)


def _sample_turn() -> Turn:
    return Turn(
        id=new_id(),
        episode_id=new_id(),
        session_id="doctor",
        ordinal=0,
        message=Message({"role": "user", "content": _SAMPLE}),
        tokens=0,
        at=datetime.now(UTC),
    )


def _tokenizer(settings: Settings) -> Check:
    from ...wiring import make_counter

    tokens = make_counter(settings).count(_SAMPLE)
    detail = f"{settings.tokenizer}: {counted(tokens, 'token')} in {len(_SAMPLE)} characters"
    return Check("tokenizer", Status.OK, detail)


def _chat_model(settings: Settings) -> Check:
    from .chat import Echo, answerer

    model = answerer(settings)
    model.close()
    if isinstance(model, Echo):
        return Check(
            "chat model",
            Status.NOTE,
            "none, octopus chat uses an echo",
            remedy="set OCTOPUS_OPENAI_BASE_URL or OCTOPUS_OPENAI_API_KEY to use one",
        )
    where = settings.openai_base_url or "OpenAI"
    detail = f"{model.name} at {shown_url(where)} (not called)"
    return Check("chat model", Status.OK, detail)


def _retention(settings: Settings) -> Check:
    """Describe the default retention policy. Agents may have others."""
    detail = policy_in_words(settings.defaults().retention)
    if not settings.retention_schedule:
        detail += "; only when octopus retention run is called, because no schedule is set"
    return Check("retention", Status.OK, detail)


def _pending(settings: Settings, report: DatabaseReport | None) -> Check:
    waiting = []
    if report is not None:
        waiting = [
            f"{work.waiting:,} to {kind}"
            for kind, work in report.stats.backlog.items()
            if work.waiting
        ]
        waiting += _to_embed_again(settings, report.state.model, report.stats.vectors)
    if not waiting:
        return Check("pending work", Status.OK, "none")
    return Check(
        "pending work", Status.NOTE, ", ".join(waiting), remedy="octopus run-pending does it now"
    )


def _lost(report: DatabaseReport | None) -> Check:
    """Report messages that integrations gave up because the database did not take them."""
    if report is None or not report.state.lost:
        return Check("lost messages", Status.OK, "none")
    return Check(
        "lost messages",
        Status.WARNING,
        f"{counted(report.state.lost, 'message')} could not be stored by integrations, in all",
        remedy="the agents' logs say why, once for each reason",
    )


def _to_embed_again(
    settings: Settings, in_use: str | None, vectors: Mapping[str, int]
) -> Iterator[str]:
    """Yield the work that the next process will queue, because the embedder has changed."""
    from ...wiring import make_embedder

    # The check of the embedder tells why it cannot be made.
    with contextlib.suppress(OctopusError):
        embedder = make_embedder(settings)
        with released(embedder):
            model = embedder.model
        outdated = sum(count for name, count in vectors.items() if name != model)
        if outdated and in_use != model:
            yield f"{outdated:,} to embed again with {model} instead of {in_use}"


def _extras(_: Settings) -> Check:
    """List the extras of the distribution, installed and not."""
    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        detail = "unknown: Octopus runs from source and is not installed"
        return Check("extras", Status.NOTE, detail)
    installed: dict[str, bool] = {}
    for requirement in required:
        found = _REQUIREMENT.match(requirement)
        if found is not None and found[2] != _FOR_DEVELOPERS:
            installed[found[2]] = installed.get(found[2], True) and _is_installed(found[1])
    have = [extra for extra, there in installed.items() if there]
    lack = [extra for extra, there in installed.items() if not there]
    return Check(
        "extras",
        Status.OK,
        f"installed: {', '.join(have) or 'none'}; not: {', '.join(lack) or 'none'}",
        remedy=f"pip install '{DISTRIBUTION}[{lack[0]}]' installs one" if lack else None,
    )


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
