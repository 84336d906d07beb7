"""The checks of `octopus doctor` that are about the database and its key store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ...domain.errors import MissingExtra, OctopusError
from ..given import shown_url
from .database import sqlite_file
from .terminal import counted

if TYPE_CHECKING:
    from ...ports.admin import DatabaseReport, KeyGaps
    from ...settings import Settings

DISTRIBUTION = "octopus-memory"
ABOUT_KEYS = "docs/howto/scope-keys.md, When a key is missing"
_KEYS_REMEDY = "correct the settings keys_… or vault_…: docs/howto/scope-keys.md"
_LEAST_FREE = 64 * 2**20


class Status(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Works, and is worth knowing."""
    WARNING = "warning"
    """A chosen part does not work. Octopus works without it."""
    FAILED = "failed"
    """Octopus does not work until this is fixed."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    status: Status
    detail: str
    remedy: str | None = None


@dataclass(slots=True)
class Found:
    """What the database says of itself; nothing for a file that does not exist yet."""

    report: DatabaseReport | None = None


def around_database(settings: Settings, found: Found, *, opens: bool) -> Iterator[Check]:
    """Yield what is checked beside the database itself; some of it only if that `opens`."""
    yield from _disk(settings)
    yield from _scope_keys(settings)
    if found.report is not None:
        yield from _key_gaps(found.report.key_gaps)
    if opens:
        if found.report is not None:
            yield from _row_security(found.report)
            yield from _nodes(found.report)
        yield from _sqlserver_driver(settings)


def check_database(settings: Settings, found: Found) -> Check:
    file = sqlite_file(settings.url)
    if file is not None and not file.exists():
        return _new_database(file)
    from ...wiring import report_database

    report = found.report = report_database(settings)
    where = f"{shown_url(settings.url)}: schema {report.stats.schema}, " + counted(
        report.stats.episodes, "episode"
    )
    if not report.read_only:
        return Check("database", Status.OK, f"{where}; writable")
    return Check(
        "database",
        Status.NOTE,
        f"{where}; opened read-only",
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
            yield Check(name, Status.OK, detail)
            return
        with closing(keys):
            state = keys.check()
    except MissingExtra as error:
        remedy = f"pip install '{DISTRIBUTION}[{error.extra}]'"
        yield Check(name, Status.FAILED, str(error), remedy=remedy)
        return
    except OctopusError as error:
        yield Check(name, Status.FAILED, str(error), remedy=_KEYS_REMEDY)
        return
    file = sqlite_file(settings.url)
    is_new = file is not None and not file.exists()
    if is_new and settings.keys == "local" and not keys_path(settings).exists():
        detail = f"{state.place} will be made by the first write"
        yield Check(name, Status.OK, detail)
        return
    if state.is_usable:
        used = "keys" if state.keys is None else counted(state.keys, "key")
        yield Check(name, Status.OK, f"{state.place}: {used}, under {state.master}")
    # Each says its own remedy.
    status = Status.WARNING if state.is_usable else Status.FAILED
    for problem in state.problems:
        yield Check(name, status, problem)


def _key_gaps(gaps: KeyGaps) -> Iterator[Check]:
    """Warn where the database and its key store do not fit together."""
    name = "scope keys"
    if gaps.unsealed:
        detail = f"what is stored of {counted(gaps.unsealed, 'user')} is not sealed yet"
        yield Check(name, Status.WARNING, detail, remedy="octopus encrypt")
    if gaps.lost:
        yield Check(
            name,
            Status.WARNING,
            f"the keys of {counted(gaps.lost, 'user')} are missing in the key store, so "
            "nothing of them can be read; everybody else is whole",
            remedy="restore a newer backup of the key store, or erase them",
        )
    if gaps.returned:
        yield Check(
            name,
            Status.WARNING,
            f"{counted(len(gaps.returned), 'key')} of erased users came back with a backup "
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
            "driver", Status.WARNING, why, remedy="docs/howto/sql-server.md, Threads and TLS"
        )


def _row_security(report: DatabaseReport) -> Iterator[Check]:
    """Warn if the database role bypasses row-level security."""
    if report.row_security_gap is not None:
        yield Check(
            "row security",
            Status.WARNING,
            f"{report.row_security_gap}: row-level security does not apply to it, so only "
            "the conditions of Octopus's statements separate tenants",
            remedy="connect as a role that is neither: docs/howto/postgresql.md, Two roles",
        )


def _nodes(report: DatabaseReport) -> Iterator[Check]:
    """Name the nodes of a distributed database; one that is silent fails the database's check."""
    if report.nodes:
        yield Check("nodes", Status.OK, f"{', '.join(report.nodes)} answer")


def _disk(settings: Settings) -> Iterator[Check]:
    file = sqlite_file(settings.url)
    if file is None:
        return
    free = shutil.disk_usage(_folder(file)).free
    if free < _LEAST_FREE:
        yield Check(
            "disk",
            Status.WARNING,
            f"only {free // 2**20} MiB are free on the disk of {file}",
            remedy="free some space, or move the database to another disk",
        )


def _folder(file: Path) -> Path:
    return next(place for place in file.absolute().parents if place.exists())


def _new_database(file: Path) -> Check:
    folder = _folder(file)
    if os.access(folder, os.W_OK):
        detail = f"{file} will be created by the first write"
        return Check("database", Status.OK, detail)
    return Check(
        "database",
        Status.FAILED,
        f"{file} does not exist, and {folder} is not writable",
        remedy="name another path with --db or OCTOPUS_DATABASE_URL",
    )
