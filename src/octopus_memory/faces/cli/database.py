"""The options that commands share, and the memory that they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import datetime, time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from ...domain.errors import InvalidSetting, StoreReadOnly, StoreUnavailable
from ..given import as_url, parse_moment
from ..options import Agent, Db, Tenant, User

if TYPE_CHECKING:
    from ...wiring import EpisodicMemory

_OTHERS_NAMED = 5


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite URL; None for other databases and for one in memory."""
    from ...wiring_keys import sqlite_path

    file = sqlite_path(url)
    if file is None:
        return None
    try:
        file.exists()
    except OSError as error:
        raise InvalidSetting(
            "database_url", f"must name a possible file: {error.strerror}"
        ) from error
    return file


def flags(db: str | None, tenant: str, agent: str, user: str) -> str:
    """Return the options that a suggested command needs to use the same memory."""
    given = {
        "--db": (db, None),
        "--tenant": (tenant, "default"),
        "--agent": (agent, "default"),
        "--user": (user, "me"),
    }
    return "".join(
        f" {name} {quote(value)}"
        for name, (value, default) in given.items()
        if value is not None and value != default
    )


def released(part: object) -> AbstractContextManager[object]:
    """Close a part that has connections when the block ends."""
    return closing(part) if hasattr(part, "close") else nullcontext(part)


def must_exist(url: str) -> Path | None:
    """Return the file of the URL as `sqlite_file` does.

    :raises StoreUnavailable: when there is no such file
    """
    file = sqlite_file(url)
    if file is not None and not file.exists():
        raise StoreUnavailable(
            f"there is no database {file} yet: octopus chat and octopus add create it, "
            "octopus demo shows how it works, --db names another"
        )
    return file


@contextmanager
def open_existing(db: str | None) -> Iterator[EpisodicMemory]:
    """Open an existing memory. A read-only file is opened for reading.

    :raises StoreUnavailable: when there is no such file
    """
    from ...settings import load
    from ...wiring import EpisodicMemory

    url = load(database_url=as_url(db)).url
    file = must_exist(url)
    try:
        memory = EpisodicMemory.open(url, background=False)
    except StoreReadOnly:
        if file is None or urlsplit(url).query:
            raise
        memory = EpisodicMemory.open(f"{url}?mode=ro", background=False)
    with memory:
        yield memory


@contextmanager
def open_or_make_once_used(db: str | None) -> Iterator[EpisodicMemory]:
    """Open a memory for writing. A new file is removed if the block fails and adds nothing."""
    from ...settings import load
    from ...wiring import remove_if_unused

    file = sqlite_file(load(database_url=as_url(db)).url)
    is_new = file is not None and not file.exists()
    try:
        with open_or_make(db) as memory:
            yield memory
    except BaseException:
        if is_new and file is not None and file.exists():
            remove_if_unused(file)
        raise


def others(memory: EpisodicMemory) -> list[str]:
    """Return lines that name a few scopes of the database, for a user without conversations."""
    found = memory.scopes(limit=_OTHERS_NAMED + 1)
    if not found:
        return []
    lines = [
        f"  --tenant {quote(one.tenant)} --agent {quote(one.agent)} --user {quote(one.user)}"
        for one in found[:_OTHERS_NAMED]
    ]
    more = ["  and others"] if len(found) > _OTHERS_NAMED else []
    return ["It holds conversations of:", *lines, *more]


@contextmanager
def open_or_make(db: str | None, *, background: bool | None = False) -> Iterator[EpisodicMemory]:
    """Open a memory for writing. A `background` of None leaves that to the settings."""
    from ...wiring import EpisodicMemory

    with EpisodicMemory.open(as_url(db), background=background) as memory:
        yield memory


__all__ = [
    "JSON_WANTED",
    "Agent",
    "Archived",
    "AsJson",
    "Db",
    "Since",
    "Tenant",
    "Until",
    "User",
    "parse_since",
    "parse_until",
]

JSON_WANTED = "octopus.json"
"""Key in the `meta` of a context: whether errors are printed as JSON."""


def _note_json(ctx: typer.Context, value: bool) -> bool:
    ctx.meta[JSON_WANTED] = value
    return value


def parse_since(text: str) -> datetime:
    """Parse a date or a time as UTC. A date stands for its start."""
    return _moment(text, time.min)


def parse_until(text: str) -> datetime:
    """Parse a date or a time as UTC. A date stands for its end."""
    return _moment(text, time.max)


def _moment(text: str, bare: time) -> datetime:
    try:
        return parse_moment(text, bare)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print JSON.", is_eager=True, callback=_note_json),
]
Archived = Annotated[
    bool | None,
    typer.Option(
        "--archived/--no-archived",
        help="Include archived episodes. Default: the setting of the agent.",
    ),
]
Since = Annotated[
    datetime | None,
    typer.Option(
        parser=parse_since,
        metavar="TIME",
        help="Only from this date or time on (UTC unless it has a zone).",
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option(
        parser=parse_until,
        metavar="TIME",
        help="Only up to the end of this date, or up to this time.",
    ),
]
