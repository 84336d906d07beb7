"""`octopus doctor`: check what is configured and what works."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...domain.episode import Turn
from ...domain.errors import MissingExtra, OctopusError, ScopeKeyError
from ...domain.ids import new_id
from ...domain.message import Message
from ...domain.retention import policy_in_words
from ..given import as_url, shown_url
from .database import AsJson, Db, released, sqlite_file
from .terminal import Screen, counted, print_json

if TYPE_CHECKING:
    from ...ports.admin import KeyGaps
    from ...settings import Settings
    from ...wiring import DatabaseReport


class Status(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Works, and is worth knowing."""
    WARNING = "warning"
    """A chosen part does not work. Octopus works without it."""
    FAILED = "failed"
    """Octopus does not work until this is fixed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    status: Status
    detail: str
    remedy: str | None = None


@dataclass(slots=True)
class _Found:
    """What the database says of itself; nothing for a file that does not exist yet."""

    report: DatabaseReport | None = None


_MARKS = {
    Status.OK: ("ok", "green"),
    Status.NOTE: ("note", "cyan"),
    Status.WARNING: ("warn", "yellow"),
    Status.FAILED: ("FAIL", "bold red"),
}
_NAME_WIDTH = 14
_MARK_WIDTH = 6
_DISTRIBUTION = "octopus-memory"
_FOR_DEVELOPERS = "dev"
_SAMPLE = "The user prefers to be addressed formally."
_LEAST_FREE = 64 * 2**20
_SUMMARY_SECONDS = 15.0
_REQUIREMENT = re.compile(r"([\w.-]+).*;\s*extra\s*==\s*['\"]([\w.-]+)['\"]")
_ABOUT_KEYS = "docs/howto/scope-keys.md, When a key is missing"
_REMEDIES = {
    "database": "repair the database, or name another with --db or OCTOPUS_DATABASE_URL",
    "scope keys": "correct the settings keys_… or vault_…: docs/howto/scope-keys.md",
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
            name="settings",
            status=Status.FAILED,
            detail=str(error),
            remedy="correct it in octopus.toml or in the environment (OCTOPUS_…)",
        )
        return
    yield _settings(settings)
    found = _Found()
    database = _guarded("database", lambda given: _database(given, found), settings)
    yield database
    yield from _disk(settings)
    yield from _scope_keys(settings)
    if found.report is not None:
        yield from _key_gaps(found.report.key_gaps)
    if database.status is not Status.FAILED:
        if found.report is not None:
            yield from _row_security(found.report)
            yield from _nodes(found.report)
        yield from _sqlserver_driver(settings)
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
        remedy = f"pip install '{_DISTRIBUTION}[{error.extra}]'"
        return Check(name=name, status=Status.FAILED, detail=str(error), remedy=remedy)
    except ScopeKeyError as error:
        # It says its own remedy.
        return Check(name=name, status=Status.FAILED, detail=str(error), remedy=_ABOUT_KEYS)
    except OctopusError as error:
        return Check(name=name, status=Status.FAILED, detail=str(error), remedy=_REMEDIES[name])
    except Exception as error:  # noqa: BLE001 - one failed check must not stop the others
        detail = f"{type(error).__name__}: {error}"
        return Check(name=name, status=Status.FAILED, detail=detail, remedy=_REMEDIES[name])


def _versions() -> Check:
    from ... import __version__

    detail = (
        f"Octopus {__version__}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.machine()}"
    )
    return Check(name="versions", status=Status.OK, detail=detail)


def _settings(settings: Settings) -> Check:
    from ...settings import FILE

    file = f"{FILE} is read" if FILE.exists() else f"no {FILE} here"
    # Names only, because a value may be a secret.
    chosen = ", ".join(settings.chosen()) or "none, all defaults"
    return Check(name="settings", status=Status.OK, detail=f"{file}; set: {chosen}")


def _database(settings: Settings, found: _Found) -> Check:
    file = sqlite_file(settings.url)
    if file is not None and not file.exists():
        return _new_database(file)
    from ...wiring import report_database

    report = found.report = report_database(settings)
    where = f"{shown_url(settings.url)}: schema {report.stats.schema}, " + counted(
        report.stats.episodes, "episode"
    )
    if not report.read_only:
        return Check(name="database", status=Status.OK, detail=f"{where}; writable")
    return Check(
        name="database",
        status=Status.NOTE,
        detail=f"{where}; opened read-only",
        remedy="remove ?mode=ro from the URL to write",
    )


def _scope_keys(settings: Settings) -> Iterator[Check]:
    """Try the key store, if what is stored is sealed, and warn of what is unsafe about it."""
    from ...wiring_keys import find_keys, keys_path

    name = "scope keys"
    try:
        keys = find_keys(settings)
        if keys is None:
            detail = "off: a copy of the database can be read without a key"
            yield Check(name=name, status=Status.OK, detail=detail)
            return
        with closing(keys):
            state = keys.check()
    except MissingExtra as error:
        remedy = f"pip install '{_DISTRIBUTION}[{error.extra}]'"
        yield Check(name=name, status=Status.FAILED, detail=str(error), remedy=remedy)
        return
    except OctopusError as error:
        yield Check(name=name, status=Status.FAILED, detail=str(error), remedy=_REMEDIES[name])
        return
    file = sqlite_file(settings.url)
    is_new = file is not None and not file.exists()
    if is_new and settings.keys == "local" and not keys_path(settings).exists():
        detail = f"{state.place} will be made by the first write"
        yield Check(name=name, status=Status.OK, detail=detail)
        return
    if state.is_usable:
        used = "keys" if state.keys is None else counted(state.keys, "key")
        yield Check(
            name=name, status=Status.OK, detail=f"{state.place}: {used}, under {state.master}"
        )
    # Each says its own remedy.
    status = Status.WARNING if state.is_usable else Status.FAILED
    for problem in state.problems:
        yield Check(name=name, status=status, detail=problem)


def _key_gaps(gaps: KeyGaps) -> Iterator[Check]:
    """Warn where the database and its key store do not fit together."""
    name = "scope keys"
    if gaps.unsealed:
        detail = f"what is stored of {counted(gaps.unsealed, 'user')} is not sealed yet"
        yield Check(name=name, status=Status.WARNING, detail=detail, remedy="octopus encrypt")
    if gaps.lost:
        yield Check(
            name=name,
            status=Status.WARNING,
            detail=f"the keys of {counted(gaps.lost, 'user')} are missing in the key store, so "
            "nothing of them can be read; everybody else is whole",
            remedy="restore a newer backup of the key store, or erase them",
        )
    if gaps.returned:
        yield Check(
            name=name,
            status=Status.WARNING,
            detail=f"{counted(len(gaps.returned), 'key')} of erased users came back with a backup "
            "of the key store: old copies of the database can be read again",
            remedy="octopus scope-keys destroy-erased",
        )


def _sqlserver_driver(settings: Settings) -> Iterator[Check]:
    """Warn of a driver that is not safe with several threads on this machine."""
    if settings.url.partition(":")[0] != "sqlserver":
        return
    from ...wiring import sqlserver_driver_check

    why = sqlserver_driver_check(settings)
    if why is not None:
        yield Check(
            name="driver",
            status=Status.WARNING,
            detail=why,
            remedy="docs/howto/sql-server.md, Threads and TLS",
        )


def _row_security(report: DatabaseReport) -> Iterator[Check]:
    """Warn if the database role bypasses row-level security."""
    if report.row_security_gap is not None:
        yield Check(
            name="row security",
            status=Status.WARNING,
            detail=f"{report.row_security_gap}: row-level security does not apply to it, so only "
            "the conditions of Octopus's statements separate tenants",
            remedy="connect as a role that is neither: docs/howto/postgresql.md, Two roles",
        )


def _nodes(report: DatabaseReport) -> Iterator[Check]:
    """Name the nodes of a distributed database; one that is silent fails the database's check."""
    if report.nodes:
        yield Check(name="nodes", status=Status.OK, detail=f"{', '.join(report.nodes)} answer")


def _disk(settings: Settings) -> Iterator[Check]:
    file = sqlite_file(settings.url)
    if file is None:
        return
    free = shutil.disk_usage(_folder(file)).free
    if free < _LEAST_FREE:
        yield Check(
            name="disk",
            status=Status.WARNING,
            detail=f"only {free // 2**20} MiB are free on the disk of {file}",
            remedy="free some space, or move the database to another disk",
        )


def _folder(file: Path) -> Path:
    return next(place for place in file.absolute().parents if place.exists())


def _new_database(file: Path) -> Check:
    folder = _folder(file)
    if os.access(folder, os.W_OK):
        detail = f"{file} will be created by the first write"
        return Check(name="database", status=Status.OK, detail=detail)
    return Check(
        name="database",
        status=Status.FAILED,
        detail=f"{file} does not exist, and {folder} is not writable",
        remedy="name another path with --db or OCTOPUS_DATABASE_URL",
    )


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
    return Check(name="embedder", status=Status.OK, detail=detail)


def _summarizer(settings: Settings) -> Check:
    from ...wiring import make_summarizer

    model = make_summarizer(settings)
    if model is None:
        return Check(name="summarizer", status=Status.OK, detail="extractive, needs no model")
    try:
        with released(model):
            model.summarize([_sample_turn()], timeout=_SUMMARY_SECONDS)
    except OctopusError as error:
        return Check(
            name="summarizer",
            status=Status.WARNING,
            detail=str(error),
            remedy="until it answers, episodes get extractive summaries",
        )
    form = getattr(model, "form", None)
    detail = f"{model.name} answers" + (f" in the form {form}" if form else "")
    return Check(name="summarizer", status=Status.OK, detail=detail)


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
    return Check(name="tokenizer", status=Status.OK, detail=detail)


def _chat_model(settings: Settings) -> Check:
    from .chat import Echo, answerer

    model = answerer(settings)
    model.close()
    if isinstance(model, Echo):
        return Check(
            name="chat model",
            status=Status.NOTE,
            detail="none, octopus chat uses an echo",
            remedy="set OCTOPUS_OPENAI_BASE_URL or OCTOPUS_OPENAI_API_KEY to use one",
        )
    where = settings.openai_base_url or "OpenAI"
    detail = f"{model.name} at {shown_url(where)} (not called)"
    return Check(name="chat model", status=Status.OK, detail=detail)


def _retention(settings: Settings) -> Check:
    """Describe the default retention policy. Agents may have others."""
    detail = policy_in_words(settings.defaults().retention)
    if not settings.retention_schedule:
        detail += "; only when octopus retention run is called, because no schedule is set"
    return Check(name="retention", status=Status.OK, detail=detail)


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
        return Check(name="pending work", status=Status.OK, detail="none")
    return Check(
        name="pending work",
        status=Status.NOTE,
        detail=", ".join(waiting),
        remedy="octopus run-pending does it now",
    )


def _lost(report: DatabaseReport | None) -> Check:
    """Report messages that integrations gave up because the database did not take them."""
    if report is None or not report.state.lost:
        return Check(name="lost messages", status=Status.OK, detail="none")
    return Check(
        name="lost messages",
        status=Status.WARNING,
        detail=f"{counted(report.state.lost, 'message')} could not be stored by integrations, "
        "in all",
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
        required = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        detail = "unknown: Octopus runs from source and is not installed"
        return Check(name="extras", status=Status.NOTE, detail=detail)
    installed: dict[str, bool] = {}
    for requirement in required:
        found = _REQUIREMENT.match(requirement)
        if found is not None and found[2] != _FOR_DEVELOPERS:
            installed[found[2]] = installed.get(found[2], True) and _is_installed(found[1])
    have = [extra for extra, there in installed.items() if there]
    lack = [extra for extra, there in installed.items() if not there]
    return Check(
        name="extras",
        status=Status.OK,
        detail=f"installed: {', '.join(have) or 'none'}; not: {', '.join(lack) or 'none'}",
        remedy=f"pip install '{_DISTRIBUTION}[{lack[0]}]' installs one" if lack else None,
    )


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
