"""Open the memory that `--db` or the settings name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...domain.errors import InvalidSetting, StoreReadOnly, StoreUnavailable
from ..urls import as_url

if TYPE_CHECKING:
    from ...wiring import EpisodicMemory


_OTHERS_NAMED = 5


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite URL; None for other databases and for one in memory."""
    from ...wiring import sqlite_path

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
