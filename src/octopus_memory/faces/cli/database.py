"""From `--db` and the settings to an open memory."""

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
    """The file behind an SQLite URL; None for another database, and for one in memory."""
    from ...wiring import sqlite_path

    file = sqlite_path(url)
    if file is None:
        return None
    try:
        file.exists()
    except OSError as error:
        raise InvalidSetting(
            "database_url", f"names a file that cannot be there: {error.strerror}"
        ) from error
    return file


def flags(db: str | None, tenant: str, agent: str, user: str) -> str:
    """The options that lead to the same memory again, for a command that is suggested."""
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
    """Close what holds connections when the block ends."""
    return closing(part) if hasattr(part, "close") else nullcontext(part)


def must_exist(url: str) -> Path | None:
    """The file behind the URL, as `sqlite_file` gives it.

    :raises StoreUnavailable: when there is no such file
    """
    file = sqlite_file(url)
    if file is not None and not file.exists():
        raise StoreUnavailable(
            f"there is no database {file} yet: octopus chat and octopus add make it, "
            "octopus demo shows how it works, and --db names another"
        )
    return file


@contextmanager
def open_existing(db: str | None) -> Iterator[EpisodicMemory]:
    """The memory that is there: a missing file is not made, and a read-only one is opened so.

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
    """A memory to add to; a file made for it is removed if the block fails and adds nothing."""
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
    """Lines that name whose conversations a database holds, for a user of whom it holds none."""
    found = [scope for _, scope in memory.parts.store.scopes(limit=_OTHERS_NAMED + 1)]
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
    """A memory to add to, made where there is none; None leaves `background` to the settings."""
    from ...wiring import EpisodicMemory

    with EpisodicMemory.open(as_url(db), background=background) as memory:
        yield memory
